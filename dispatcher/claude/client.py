"""The Claude CLI as a child process: one message on stdin, one JSON object on stdout (parsed by dispatcher/claude/reply.py).

The arguments are constant except for ids, model and paths, and never contain the message. Memory is passed in a file of mode 0600 (an argument is
limited to 128 KiB, and arguments are readable in /proc). The child has a time limit (dispatcher/claude/process.py), works in an empty directory for
each chat (the CLI files sessions by working directory), and cannot see our settings, processes and other files (sandbox.py).

What a message could make the CLI do is disarmed in several ways. `@path` sends a file's content: a word joiner after `@` hides it, a rule denies
reading any file, and the CLI's own switches turn it off. A command (`/clear`, a prompt of an MCP server) is not recognised after a word joiner, and
commands from the user's files are switched off, with the skills. The CLI reads the files of the user that it runs as (login, settings, hooks,
CLAUDE.md), but no settings, hooks or MCP servers of the working directory; its own memory, a second one in addition to ours, is off.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import orjson

from dispatcher.claude.environment import NO_ATTACHMENTS, cli_environment, default_model, find_cli
from dispatcher.claude.events import Progress, ProgressReader
from dispatcher.claude.process import OutputTooLarge, run
from dispatcher.claude.reply import (
    GONE,
    SESSION_ID,
    TELL_OWNER,
    WORD_JOINER,
    Answer,
    Follows,
    cannot_start,
    failed,
    read_answer,
)
from dispatcher.claude.sandbox import Walls
from shared.config.settings import Settings
from shared.config.tools import ChatTools, permissions
from shared.system.files import make_dir
from shared.text.logs import Logger
from shared.text.translations import tr

__all__ = ["Answer", "ClaudeCli", "ClaudeRequest"]

log = Logger()

_FILE_MARK = re.compile(r"(?<![A-Za-z0-9])@")
_PLAIN_START = re.compile(r"[\w\"'(*+-]")
DENY_READING = '{"permissions":{"deny":["Read(//**)"]}}'
#: Settings that turn off a second memory, in addition to the switches in environment.py.
NO_SECOND_MEMORY = {"autoMemoryEnabled": False, "autoDreamEnabled": False}
#: Only settings of the user and of these arguments: no settings, hooks or MCP servers of the working directory.
OWNERS_FILES_ONLY = ("--setting-sources", "user", "--strict-mcp-config")
#: Commands and skills from files are off, unless the tool that runs skills is allowed by name.
NO_COMMANDS, SKILL_TOOL = "--disable-slash-commands", "Skill"
#: How the answer is printed: whole at the end, or also each part as it is written (events.py).
ONE_OBJECT = ("--output-format", "json")
STREAMING = ("--output-format", "stream-json", "--verbose", "--include-partial-messages")
#: A larger output of the CLI is not a chat answer.
MAX_OUTPUT_BYTES = 16 << 20
#: Seconds that `claude --help` may take.
HELP_SECONDS = 10.0
#: Passed to a CLI that has them: newer versions keep the system prompt of a conversation's first turn, with its outdated memory; and `--bare`,
#: which reads no login, is announced as the default of `-p`.
SWITCHES = (("--system-prompt-snapshot", "off"), ("--no-bare",))
#: The working directory of questions that belong to no conversation, one session each and never resumed.
ALONE = "~alone"


@dataclass(frozen=True)
class ClaudeRequest:
    """One call: the bare message, the chat's session and whether it exists, the prompt file (None: nothing to add), and what this call has in
    addition to the settings: files that name MCP servers, tools that may be used. `blocks`: content ahead of the message, as the Messages API has
    it (images, documents); their texts and titles are disarmed as the message is. `tools`: those of the chat;
    `approver`: the MCP tool that decides about tools that ask, "" if none do; `alone`: without the owner's MCP servers."""

    message: str
    session: str
    resume: bool
    model: str | None
    directory: Path
    prompt_file: Path | None
    mcp_config_files: tuple[Path, ...] = ()
    more_tools: tuple[str, ...] = ()
    blocks: tuple[dict[str, Any], ...] = ()
    tools: ChatTools = field(default_factory=ChatTools)
    approver: str = ""
    alone: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """All of our files that the call needs."""
        return (self.directory, *((self.prompt_file,) if self.prompt_file else ()), *self.mcp_config_files)


def as_plain_text(message: str) -> str:
    """The message without anything that the CLI would act on. Mail addresses are unchanged: after a letter or digit `@` names no file.

    The allowed first characters are those of sentences, numbers and lists, instead of a list of what commands may start with.
    """
    disarmed = _FILE_MARK.sub("@" + WORD_JOINER, message)
    return disarmed if _PLAIN_START.match(disarmed) else WORD_JOINER + disarmed


def _input(question: ClaudeRequest) -> bytes:
    """What the CLI reads: the text, or one message with its blocks as JSON."""
    text = as_plain_text(question.message).encode("utf-8", "replace")
    if not question.blocks:
        return text
    content = [*map(_disarmed, question.blocks), {"type": "text", "text": text.decode("utf-8")}]
    return orjson.dumps({"type": "user", "message": {"role": "user", "content": content}}) + b"\n"


def _disarmed(block: dict[str, Any]) -> dict[str, Any]:
    """A content block whose words the CLI does not act on."""
    words: dict[str, Any] = {
        name: as_plain_text(block[name]) for name in ("text", "title", "context") if isinstance(block.get(name), str)
    }
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") == "text":
        words["source"] = source | {"data": as_plain_text(source["data"])}
    return block | words


def _rules(every_use: tuple[str, ...], rule: Literal["ask", "deny"]) -> str:
    """Settings of this call. A rule is stronger than what the CLI, or its user's settings, would let run without a question: `ask`, or `deny` where
    nobody can be asked."""
    rules = orjson.loads(DENY_READING) | NO_SECOND_MEMORY
    if every_use:
        permissions = rules.setdefault("permissions", {})
        permissions[rule] = [*permissions.get(rule, []), *every_use]
    return orjson.dumps(rules).decode()


def built_in_tools(allowed: str) -> tuple[str, ...]:
    """The tools that a list of permissions names, without those of MCP servers: `Bash(git *), mcp__core__*` names Bash."""
    names = [one.partition("(")[0] for one in permissions(allowed)]
    return tuple(dict.fromkeys(name for name in names if name and not name.startswith("mcp__")))


def _not_run(error: OSError, directory: Path) -> Answer:
    """Nothing was started. Python names the working directory if that is what cannot be used."""
    if str(error.filename) == str(directory):
        unusable = tr(
            "this chat's directory cannot be used ({error}), and my owner has to check it (hmem doctor shows more)"
        )
        return failed(unusable.format(error=error.strerror), str(error), TELL_OWNER)
    return cannot_start(str(error))


class ClaudeCli:
    """The installed CLI with this dispatcher's settings."""

    def __init__(self, settings: Settings) -> None:
        self._binary = find_cli(settings)
        self._settings = settings
        self._environment = cli_environment(settings)
        self._walls = Walls(settings, self._environment, self._binary)
        self._flags: tuple[str, ...] = ()
        self._flags_of: int | None = None
        self._asking = asyncio.Lock()

    async def ask(self, question: ClaudeRequest, report: Callable[[Progress], None] | None = None) -> Answer:
        """Run the CLI once; `report` gets the answer while it is written. Never raises for what the CLI does; a cancelled call ends the whole
        process group."""
        if not SESSION_ID.fullmatch(question.session):  # it could be read as an option
            return failed(GONE, f"not a session id: {question.session!r}", follows=Follows.NEW_SESSION)
        streams = report is not None or bool(question.blocks)
        arguments = self._arguments(question, await self.flags(), streams=streams)
        limit = self._settings.task_timeout
        try:
            ended = await run(
                arguments,
                _input(question),
                directory=question.directory,
                environment=self._environment_for(question),
                seconds=limit,
                most_bytes=MAX_OUTPUT_BYTES,
                on_line=ProgressReader(report or (lambda _: None)) if streams else None,
                start=self._walls.around(question.files),
            )
        except TimeoutError:
            return failed(tr("no answer within {seconds} s").format(seconds=f"{limit:g}"))
        except OSError as error:
            return _not_run(error, question.directory)
        except OutputTooLarge:
            return failed(tr("the answer is larger than {size} MiB").format(size=MAX_OUTPUT_BYTES >> 20))
        return read_answer(ended, question.session, resumed=question.resume, model=question.model)

    async def ask_alone(self, prompt: str, model: str = "") -> Answer:
        """One question without a chat's session, memory, tools or MCP servers: what it says reaches nothing."""
        directory = make_dir(self._settings.hmem_state_dir / "chats" / ALONE)
        return await self.ask(ClaudeRequest(prompt, str(uuid4()), False, model or None, directory, None, alone=True))

    async def flags(self) -> tuple[str, ...]:
        """Flags that this version of the CLI supports: read once for each version of the file (the CLI updates itself)."""
        async with self._asking:
            try:
                version = Path(self._binary).stat().st_mtime_ns
            except OSError:  # the call itself will report what is wrong
                return ()
            if self._flags_of != version and (flags := await self._ask_for_flags()) is not None:
                self._flags, self._flags_of = flags, version
            return self._flags

    async def _ask_for_flags(self) -> tuple[str, ...] | None:
        """None if the CLI gave no answer: then the next question tries again."""
        try:
            ended = await run(
                [self._binary, "--help"],
                b"",
                directory=Path("/"),
                environment=self._environment,
                seconds=HELP_SECONDS,
                most_bytes=MAX_OUTPUT_BYTES,
            )
        except (OSError, OutputTooLarge):  # TimeoutError is an OSError
            ended = None
        if ended is None or ended.exit_code != 0:
            log.warning("claude --help failed; until it works, memory may be outdated in resumed sessions")
            return None
        words = set(ended.output.decode("utf-8", "replace").replace(",", " ").split())
        return tuple(word for switch in SWITCHES if switch[0] in words for word in switch)

    def _environment_for(self, question: ClaudeRequest) -> dict[str, str]:
        more = self._servers(question) or built_in_tools(question.tools.allowed)
        return self._environment if more else self._environment | NO_ATTACHMENTS

    def _servers(self, question: ClaudeRequest) -> list[Path]:
        """Files that name MCP servers: the owner's, then those of this call."""
        own = None if question.alone else self._settings.claude_mcp_config
        return [*([own] if own else []), *question.mcp_config_files]

    def _arguments(self, question: ClaudeRequest, flags: tuple[str, ...], *, streams: bool) -> list[str]:
        """Options with several values come last, each followed by another option, so that none takes the values of another."""
        may = question.tools
        asked = may.asked if question.approver else ()
        tools = built_in_tools(",".join([may.allowed, *asked]))
        arguments = [
            self._binary,
            "-p",
            *(STREAMING if streams else ONE_OBJECT),
            *(("--input-format", "stream-json") if question.blocks else ()),
            "--settings",
            _rules(may.every_use, "ask" if question.approver else "deny"),
            *OWNERS_FILES_ONLY,
            *flags,
        ]
        arguments += [] if SKILL_TOOL in tools else [NO_COMMANDS]
        arguments += ["--resume" if question.resume else "--session-id", question.session]
        if question.prompt_file:
            arguments += ["--append-system-prompt-file", str(question.prompt_file)]
        model = question.model or (default_model(self._environment) if question.resume else "")
        arguments += ["--model", model] if model else []
        if servers := self._servers(question):
            arguments += ["--mcp-config", *map(str, servers)]
        arguments += ["--permission-prompt-tool", question.approver] if question.approver else []
        if allowed := [*filter(None, [may.allowed]), *question.more_tools]:
            arguments += ["--allowedTools", ",".join(allowed)]
        return [*arguments, "--tools", ",".join(tools)]
