"""One question to Claude: what memory adds to it, its directory, its files, and the call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from uuid import uuid4
from zoneinfo import ZoneInfo

from dispatcher.answering.conversation.partial import PartialAnswers
from dispatcher.answering.hooks import Core, beside_claude, claude_called, context_composed, instructions
from dispatcher.answering.results import said_at
from dispatcher.answering.turn import TurnInProgress
from dispatcher.claude.client import ClaudeRequest
from dispatcher.claude.reply import Answer, Follows
from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.typed import tags
from dispatcher.prompt.assemble import assemble
from dispatcher.prompt.context import Context
from dispatcher.prompt.message_header import framed
from dispatcher.queue.chats import tools_of
from shared.config.settings import Settings
from shared.errors import HmemError, SettingsError
from shared.hooks import Hooks
from shared.system.files import PrivateDir, make_dir, safe_name
from shared.text.logs import Logger
from shared.turns.records import Task, Tombstone, Turn

log = Logger()

#: Tells Claude where it runs, unless CLAUDE_BASE_PROMPT_FILE names another file.
BASE_PROMPT = Path(__file__).parent.parent.parent / "prompt" / "base.md"
#: How long a task waits for a new release to open, or for the day's memory after a start.
FRESH_SECONDS = 5.0
#: A lookup is abandoned this long after its deadline even if a disk hangs.
LOOKUP_SLACK_SECONDS = 1.0


class ContextLookup:
    """Looks up what memory adds to a message: read within a deadline, and nothing where memory is missing, broken or slow. One per dispatcher."""

    def __init__(self, core: Core, cache_dropper: CacheDropper, hooks: Hooks) -> None:
        self._settings, self._day, self._served = core.settings, core.day, core.served
        self._cache_dropper, self._hooks = cache_dropper, hooks

    def tombstones(self, task: Task) -> list[Tombstone]:
        """The chat's tombstones; none where they cannot be read, and then no memory is injected either."""
        try:
            return self._day.forgotten.of(task.chat_id)
        except HmemError as error:
            log.error("the tombstones cannot be read", reason=str(error))
            return []

    async def context_of(self, task: Task, history: list[Turn] | None, session: str | None) -> Context:
        """What to inject; nothing if memory is missing, broken or too slow. Without a session to resume, the history comes as text."""
        request = PromptRequest(task.chat_id, task.message, history, session, user_id=task.user_id, name=task.name)
        if self._settings.memory_tokens <= 0:  # nothing is looked up: no thread is needed
            return self._assemble(request)
        with self._day.questions.reading():
            return await self._read(request)

    async def _read(self, request: PromptRequest) -> Context:
        if self._cache_dropper.due:
            await _for_a_while(self._cache_dropper.drop_if_due)
        if self._served.moved() and (self._served.served_run is None or not self._served.refreshing):
            await _for_a_while(self._served.refresh)  # while another one is being opened, the open release is used
        if self._day.wanted and not self._day.opened:
            await _for_a_while(self._day.open)  # the first question after a start
        try:
            async with asyncio.timeout(2 * self._settings.memory_deadline_ms / 1000 + LOOKUP_SLACK_SECONDS):
                return await asyncio.to_thread(self._assemble, request)
        except TimeoutError:
            reason = "memory did not answer in time"
        except Exception as error:  # noqa: BLE001 - without memory there must still be an answer
            reason = f"memory failed: {error!r}"
        log.error("answering without memory", reason=reason)
        return Context("", degraded=[reason])

    def _assemble(self, request: PromptRequest) -> Context:
        with self._served.reading() as release:
            context = assemble(request, self._settings, release, self._day, self._served.no_release_reason)
        self._hooks.ask(context_composed, context=context)
        log.info(
            "memory injected",
            release=context.release_run,
            tokens=context.tokens,
            hits=len(context.used),
            nothing_why=context.no_recall_reason,
            degraded=context.degraded or None,
            ms=round(context.ms, 1),
        )
        return context


async def _for_a_while(call: Callable[[], None]) -> None:
    """Run it in a thread and wait for at most FRESH_SECONDS; after that it continues in the background."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FRESH_SECONDS):
            await asyncio.to_thread(call)


class ClaudeCaller:
    """Passes one message to Claude; one per dispatcher."""

    def __init__(self, core: Core, hooks: Hooks) -> None:
        self._core, self._settings, self._hooks = core, (settings := core.settings), hooks
        self._partial_answers = PartialAnswers(core) if settings.stream else None
        rules = tags.instructions() if core.remembers else ""
        parts = [_base_prompt(settings), *hooks.ask(instructions), rules]
        self._base_text = "\n\n".join(filter(None, parts))
        self._prompts = PrivateDir(settings.hmem_state_dir / "prompts")
        self._chats = settings.hmem_state_dir / "chats"

    def close(self) -> None:
        self._prompts.remove()

    async def ask(self, turn: TurnInProgress, session: str, *, resume: bool) -> Answer:
        """The answer to the turn's message in this session."""
        task = turn.asked
        tools = await tools_of(self._settings, self._core.redis, task.chat_id)
        prompt_file, message = await self._prompt(turn)
        try:
            began = time.perf_counter()
            async with AsyncExitStack() as stack:
                found = await self._hooks.enter(
                    stack, beside_claude, turn=turn, session=session, tools=tools, folder=self._prompts.path
                )
                request = ClaudeRequest(
                    message,
                    session,
                    resume,
                    task.model,
                    self._directory(task),
                    prompt_file,
                    mcp_config_files=tuple(file for one in found for file in one.mcp_config_files),
                    more_tools=tuple(tool for one in found for tool in one.more_tools),
                    blocks=tuple(turn.blocks),
                    tools=tools,
                    approver=next((one.approver for one in found if one.approver), ""),
                )
                reporting = self._partial_answers.of(task, turn.code) if self._partial_answers else nullcontext()
                report = await stack.enter_async_context(reporting)
                answer = await self._core.claude.ask(request, report)
            tried_again = resume and answer.follows is Follows.NEW_SESSION  # in a new session, at once
            failed = answer.error is not None and not tried_again
            seconds = time.perf_counter() - began
            unpaid = answer.follows is Follows.WITHOUT_MEMORY
            self._hooks.ask(claude_called, seconds=seconds, model=task.model, failed=failed, unpaid=unpaid)
            return answer
        finally:
            if prompt_file and prompt_file.parent == self._prompts.path:
                prompt_file.unlink(missing_ok=True)

    async def _prompt(self, turn: TurnInProgress) -> tuple[Path | None, str]:
        """The file of the system prompt, and the message as Claude gets it."""
        task, ending = turn.asked, ""
        if self._core.remembers:
            ending = "\n\n".join([*turn.rules, tags.CODE_LINE.format(code=turn.code)])
        zone = await self._zone(task.chat_id)
        message = framed(task, said_at(task, turn.claimed_at), zone, turn.context.speakers, turn.lines)
        system, message = turn.context.placed(message, self._settings.recall_placement, ending)
        return self._write_prompt(system), message

    async def _zone(self, chat_id: str) -> ZoneInfo:
        """The chat's; an answer does not wait for a Redis that cannot tell."""
        try:
            return await asyncio.to_thread(self._core.day.zone_of, chat_id)
        except HmemError as error:
            log.warning("the time of a message is in CHAT_TIMEZONE", reason=str(error))
            return self._settings.timezone

    def _directory(self, task: Task) -> Path:
        """The chat's empty working directory, created if missing; on a full disk, its parent directory."""
        path = self._chats / safe_name(task.chat_id)
        try:
            if not path.is_dir():
                make_dir(self._chats)
                path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            log.error("a chat's directory cannot be created", error=str(error))
            return self._chats if self._chats.is_dir() else self._settings.hmem_state_dir
        return path

    def _write_prompt(self, memory: str) -> Path | None:
        """A prompt file for this message only. It exists for seconds, so it is not synced to disk."""
        text = "\n\n".join(part for part in (self._base_text, memory) if part)
        if not text:
            return None
        path = self._prompts.path / f"{uuid4().hex}.md"
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
                handle.write(text.encode("utf-8", "replace"))
        except OSError as error:  # memory may be missing, but the rules may not: use the base prompt's own file
            log.error("answering without memory: the prompt file cannot be written", error=str(error))
            path.unlink(missing_ok=True)
            return self._settings.claude_base_prompt_file or BASE_PROMPT
        return path


def _base_prompt(settings: Settings) -> str:
    """Our base prompt, or the owner's; "" if that file is empty."""
    try:
        return (settings.claude_base_prompt_file or BASE_PROMPT).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"CLAUDE_BASE_PROMPT_FILE cannot be read: {error}. Fix the path or unset it.") from error
