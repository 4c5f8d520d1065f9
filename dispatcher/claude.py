"""The Claude CLI as a child process: one message in on stdin, one JSON object out.

The argument list is constant but for ids, model and paths; the message never stands in it. Memory goes in by a file of mode 0600
(one argument is limited to 128 KiB, and arguments are readable in /proc). The child is a process group of its own with a time limit,
in an empty directory per chat (the CLI files sessions by working directory), and sees none of our settings.

Two things in a message would act instead of being read: `@path` makes the CLI send that file's content, a leading `/` is taken for a
command. Both are disarmed twice: in the text (a word joiner after `@`, one before `/`) and by a rule that denies reading any file.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import structlog

from shared.errors import ClaudeUnavailable
from shared.settings import Settings

log = structlog.get_logger()

WORD_JOINER = "\u2060"
_FILE_MARK = re.compile(r"(?<![A-Za-z0-9])@")
DENY_READING = '{"permissions":{"deny":["Read(//**)"]}}'
#: More than this from the CLI is no chat answer.
MAX_OUTPUT_BYTES = 16 << 20
#: Seconds between asking the process group to end and killing it.
KILL_GRACE_SECONDS = 5.0
#: Seconds that `claude --help` may take.
HELP_SECONDS = 10.0
#: From some version on the CLI keeps the system prompt of a conversation's first turn unless told not to: yesterday's memory for ever.
FRESH_PROMPT = ("--system-prompt-snapshot", "off")

#: What the CLI may see of our environment: its own variables, and what any program needs.
_PASSED = frozenset(
    """
    HOME PATH USER LOGNAME SHELL LANG LANGUAGE TZ TERM TMPDIR HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy
    https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS CLOUD_ML_REGION
    """.split()
)
_PASSED_PREFIXES = ("LC_", "XDG_", "ANTHROPIC_", "CLAUDE_", "AWS_", "VERTEX_", "GOOGLE_")


@dataclass(frozen=True)
class Question:
    """One call: the bare message, the chat's session and whether it exists, the prompt file (None: nothing to add)."""

    message: str
    session: str
    resume: bool
    model: str | None
    directory: Path
    prompt_file: Path | None


@dataclass(frozen=True)
class Answer:
    """What the CLI said. `error` is None for an answer; `session_lost` means that another session must be started."""

    text: str
    error: str | None = None
    session_lost: bool = False
    usage: dict[str, Any] = field(default_factory=dict)


def as_plain_text(message: str) -> str:
    """The message with nothing in it that the CLI would act on. Mail addresses stay: after a letter or digit `@` names no file."""
    disarmed = _FILE_MARK.sub("@" + WORD_JOINER, message)
    return WORD_JOINER + disarmed if disarmed.lstrip().startswith("/") else disarmed


def child_environment(environment: Mapping[str, str], own_names: set[str], extra: str) -> dict[str, str]:
    """What the CLI gets: a list of what is let through, never our settings, plus what CLAUDE_ENV names."""
    wanted = {name.strip() for name in extra.split(",") if name.strip()}
    return {
        name: value
        for name, value in environment.items()
        if name in wanted or (name not in own_names and (name in _PASSED or name.startswith(_PASSED_PREFIXES)))
    }


def find_cli(settings: Settings) -> str:
    """Path of the CLI, or ClaudeUnavailable."""
    beside_us = str(Path(sys.executable).parent)  # where scripts/setup --with-claude puts it
    found = shutil.which(settings.claude_bin) or shutil.which(settings.claude_bin, path=beside_us)
    if found is None:
        raise ClaudeUnavailable(
            f"The Claude CLI {settings.claude_bin!r} is not installed or not executable. "
            "Install it (scripts/setup --with-claude), run it once as this user to log in, or set CLAUDE_BIN."
        )
    return str(Path(found).absolute())


def cli_environment(settings: Settings) -> dict[str, str]:
    """The environment that the CLI gets from this process."""
    own = {name.upper() for name in Settings.model_fields}
    return child_environment(os.environ, own, settings.claude_env)


class ClaudeCli:
    """The installed CLI with this dispatcher's settings."""

    def __init__(self, settings: Settings) -> None:
        self._binary = find_cli(settings)
        self._settings = settings
        self._environment = cli_environment(settings)
        self._flags: tuple[str, ...] = ()
        self._flags_of: int | None = None
        self._asking = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """Run the CLI once. Never raises for what the CLI does; a cancelled call ends the whole process group."""
        arguments = self._arguments(question, await self.flags())
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=question.directory,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            return Answer("", error=f"the Claude CLI could not be started ({error.strerror})")
        try:
            async with asyncio.timeout(self._settings.task_timeout):
                output, errors = await _converse(process, as_plain_text(question.message).encode("utf-8", "replace"))
        except TimeoutError:
            return Answer("", error=f"no answer within {self._settings.task_timeout:g} s")
        except _TooMuch:
            return Answer("", error=f"the answer is larger than {MAX_OUTPUT_BYTES >> 20} MiB")
        finally:
            await _end_group(process)
        return read_answer(process.returncode or 0, output, errors)

    async def flags(self) -> tuple[str, ...]:
        """Flags that this version of the CLI needs and knows: asked once for each version of the file (the CLI updates itself)."""
        async with self._asking:
            try:
                version = Path(self._binary).stat().st_mtime_ns
            except OSError:  # the question itself will say what is wrong
                return ()
            if self._flags_of != version and (flags := await self._ask_for_flags()) is not None:
                self._flags, self._flags_of = flags, version
            return self._flags

    async def _ask_for_flags(self) -> tuple[str, ...] | None:
        """None if the CLI did not say: then it is asked again at the next question."""
        output, process = b"", None
        with suppress(OSError, TimeoutError):
            process = await asyncio.create_subprocess_exec(
                self._binary, "--help", env=self._environment, start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            async with asyncio.timeout(HELP_SECONDS):
                output, _ = await process.communicate()
        if process is not None:
            await _end_group(process)
        if process is None or process.returncode != 0:
            log.warning("the Claude CLI did not answer --help; memory may be stale on resumed turns until it does")
            return None
        return FRESH_PROMPT if FRESH_PROMPT[0].encode() in output else ()

    def _arguments(self, question: Question, flags: tuple[str, ...]) -> list[str]:
        settings = self._settings
        arguments = [self._binary, "-p", "--output-format", "json", "--settings", DENY_READING, *flags]
        arguments += ["--resume" if question.resume else "--session-id", question.session]
        if question.prompt_file:
            arguments += ["--append-system-prompt-file", str(question.prompt_file)]
        if question.model:
            arguments += ["--model", question.model]
        if settings.claude_mcp_config:
            arguments += ["--mcp-config", str(settings.claude_mcp_config)]
        if settings.claude_allowed_tools:
            arguments += ["--allowedTools", settings.claude_allowed_tools]
        else:
            arguments += ["--tools", ""]
        return arguments


class _TooMuch(Exception):
    pass


async def _converse(process: asyncio.subprocess.Process, message: bytes) -> tuple[bytes, bytes]:
    """Write the message and read both outputs at the same time, so that neither side waits for the other."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise AssertionError("the child was started with pipes")
    _, output, errors, _ = await asyncio.gather(
        _feed(process.stdin, message), _read(process.stdout), _read(process.stderr), process.wait()
    )
    return output, errors


async def _feed(stdin: asyncio.StreamWriter, message: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # a child that ends early says why on stderr
        stdin.write(message)
        await stdin.drain()
    stdin.close()


async def _read(stream: asyncio.StreamReader) -> bytes:
    content = bytearray()
    while block := await stream.read(1 << 16):
        content += block
        if len(content) > MAX_OUTPUT_BYTES:
            raise _TooMuch
    return bytes(content)


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """TERM, then KILL, to all that the child started; its own exit alone would leave its children."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_GRACE_SECONDS):
                await process.wait()
    _signal_group(process.pid, signal.SIGKILL)
    await process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def read_answer(exit_code: int, output: bytes, errors: bytes) -> Answer:
    """An Answer from what the CLI printed. `No conversation found`, or an exit without JSON, means the session cannot be resumed."""
    complaint = errors.decode("utf-8", "replace").strip()
    try:
        record = orjson.loads(output.decode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        record = None
    lost = b"No conversation found" in output + errors or (exit_code != 0 and not isinstance(record, dict))
    if not isinstance(record, dict):
        reason = complaint.splitlines()[-1][:300] if complaint else f"exit {exit_code}, no answer"
        return Answer("", error=f"the Claude CLI failed ({reason})", session_lost=lost)
    text = record.get("result")
    usage = _usage(record)
    if record.get("is_error") or exit_code != 0:
        reason = text if isinstance(text, str) and text else complaint or f"exit {exit_code}"
        return Answer("", error=f"the Claude CLI reported an error ({reason[:300]})", session_lost=lost, usage=usage)
    if not isinstance(text, str) or not text.strip():
        return Answer("", error="the answer was empty", usage=usage)
    return Answer(text.replace("@" + WORD_JOINER, "@"), usage=usage)


def _usage(record: dict[str, Any]) -> dict[str, Any]:
    """The counters of one call, under the names of `hcli:stats`."""
    usage = record.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    values = {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cache_read": usage.get("cache_read_input_tokens"),
        "cost_usd": record.get("total_cost_usd"),
        "duration_ms": record.get("duration_ms"),
        "num_turns": record.get("num_turns"),
    }
    numbers = {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }
    return {name: float(value) if name == "cost_usd" else round(value) for name, value in numbers.items()}
