"""One question to Claude: its directory, its files, and the call."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from uuid import uuid4
from zoneinfo import ZoneInfo

import structlog

from dispatcher.answering.hooks import claude_called
from dispatcher.answering.media.reading import Read
from dispatcher.answering.partial import PartialAnswers
from dispatcher.claude.client import ClaudeCli, ClaudeRequest
from dispatcher.claude.media_sessions import MediaSessions
from dispatcher.claude.relay.approval_server import APPROVER, approval_server
from dispatcher.claude.relay.memory_server import MemoryServer, allowed_tools
from dispatcher.claude.reply import Answer
from dispatcher.memory.typed import tags
from dispatcher.prompt.context import Context
from dispatcher.prompt.message_header import framed
from dispatcher.queue.chat.approvals import Approvals
from shared.config.settings import Settings
from shared.errors import HmemError, SettingsError
from shared.hooks import Hooks
from shared.system.files import PrivateDir, make_dir, safe_name
from shared.turns.records import Task

log = structlog.get_logger()

#: Tells Claude where it runs, unless CLAUDE_BASE_PROMPT_FILE names another file.
BASE_PROMPT = Path(__file__).parent.parent / "prompt" / "base.md"
#: Is added with SEND_FILES.
SENDING_FILES = """\
Files that you write into your working directory (not into folders below it) are sent to the chat after your answer, once, and again when you change
them. So write one there if somebody asks for a file, and say in a few words what it is."""


class NoteOutcome(Protocol):
    """Notes whether Claude answered."""

    async def __call__(self, *, failed: bool) -> None: ...


class ClaudeCaller:
    """Passes one message to Claude; one per dispatcher. `remembers`: the rules for tags are part of the prompt; `note`: notes each outcome;
    `partial_answers`: take each answer while it is written, None if nobody is shown that; `approvals`: ask in the chat about tools."""

    def __init__(
        self,
        settings: Settings,
        claude: ClaudeCli,
        sessions: MediaSessions,
        hooks: Hooks,
        note: NoteOutcome,
        partial_answers: PartialAnswers | None,
        approvals: Approvals,
        *,
        remembers: bool,
        zone_of: Callable[[str], ZoneInfo],
    ) -> None:
        self._settings, self._claude, self._hooks, self._note = settings, claude, hooks, note
        self._sessions, self._partial_answers, self._approvals = sessions, partial_answers, approvals
        self._remembers, self._zone_of = remembers, zone_of
        self._noting: set[asyncio.Task[None]] = set()  # a task that nobody holds may be collected while it runs
        rules = tags.INSTRUCTIONS if remembers else ""
        sending = SENDING_FILES if settings.send_files else ""
        self._base_text = "\n\n".join(part for part in (_base_prompt(settings), sending, rules) if part)
        self._prompts = PrivateDir(settings.hmem_state_dir / "prompts")
        self._chats = settings.hmem_state_dir / "chats"

    def close(self) -> None:
        self._prompts.remove()

    async def ask(
        self, read: Read, said_at: float, context: Context, session: str, code: str, *, resume: bool
    ) -> Answer:
        """The answer to the message of that time (POSIX seconds); its tags are orders only with this code."""
        task, ending = read.task, ""
        if self._remembers:
            rules = (tags.picture_rule(len(read.pictures)), tags.CODE_LINE.format(code=code))
            ending = "\n\n".join(filter(None, rules))
        message = framed(task, said_at, await self._zone(task.chat_id), context.speakers, read.lines)
        system, message = context.placed(message, self._settings.recall_placement, ending)
        prompt_file, server = self._write_prompt(system), self._memory_server(task)
        try:
            request = ClaudeRequest(
                message,
                session,
                resume,
                task.model,
                self._directory(task),
                prompt_file,
                mcp_config_files=(server.config,) if server else (),
                more_tools=allowed_tools(self._settings) if server else (),
                blocks=tuple(read.blocks),
                tools=await self._approvals.tools_of(task.chat_id),
            )
            began = time.perf_counter()
            async with (
                self._sessions.using(session, task.chat_id, media=bool(read.blocks)),
                self._with_approvals(request, task) as asking,
            ):
                answer = await self._answer(asking, task, code)
            self._hooks.ask(claude_called, seconds=time.perf_counter() - began, model=task.model)
            if not (resume and answer.session_lost):  # else a new session is tried at once
                # The answer does not wait for it.
                noting = asyncio.create_task(self._note(failed=answer.error is not None))
                self._noting.add(noting)
                noting.add_done_callback(self._noting.discard)
            return answer
        finally:
            if prompt_file and prompt_file.parent == self._prompts.path:
                prompt_file.unlink(missing_ok=True)
            if server:
                server.close()

    @asynccontextmanager
    async def _with_approvals(self, request: ClaudeRequest, task: Task) -> AsyncIterator[ClaudeRequest]:
        """The request with somebody to ask about its tools; without those tools if that cannot be."""
        tools = request.tools
        async with AsyncExitStack() as stack:
            if tools and tools.asked:
                try:
                    server = approval_server(self._approvals.of(task, tools), self._prompts.path)
                    config = await stack.enter_async_context(server)
                    request = replace(request, mcp_config_files=(*request.mcp_config_files, config), approver=APPROVER)
                except (HmemError, OSError) as error:
                    log.error("answering without the tools that are asked for", reason=str(error))
            yield request

    async def _answer(self, request: ClaudeRequest, task: Task, code: str) -> Answer:
        if self._partial_answers is None:
            return await self._claude.ask(request)
        async with self._partial_answers.of(task, code) as report:
            return await self._claude.ask(request, report)

    async def _zone(self, chat_id: str) -> ZoneInfo:
        """The chat's; an answer does not wait for a Redis that cannot tell."""
        try:
            return await asyncio.to_thread(self._zone_of, chat_id)
        except HmemError as error:
            log.warning("the time of a message is in CHAT_TIMEZONE", reason=str(error))
            return self._settings.timezone

    def _memory_server(self, task: Task) -> MemoryServer | None:
        """The server that gives Claude this chat's memory as tools; None if MEMORY_MCP is off or the server fails."""
        if not self._settings.memory_mcp:
            return None
        try:
            return MemoryServer(self._settings, task.chat_id, self._prompts.path)
        except (HmemError, OSError) as error:
            log.error("answering without memory tools", reason=str(error))
            return None

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
