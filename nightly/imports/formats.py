"""The formats that a backfill reads from files: of each, the files that it takes from a directory, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nightly.imports.candidates import ReadCandidate, Wanted
from nightly.imports.readers import hcli_audit_log, hcli_sessions, jsonl, signal, telegram, whatsapp
from nightly.imports.readers.chatgpt import CHATGPT
from nightly.imports.readers.claude import CLAUDE
from nightly.imports.readers.conversations import Assistant
from nightly.imports.readers.memories import mem0, notes
from shared.config.settings import Settings


@dataclass(frozen=True)
class Source:
    """What a reader is made for. From the command line: `bot`, the bot's name or id; `only`, the conversation or user that is wanted; `dates`, the
    order in which dates are written."""

    files: list[Path]
    wanted: Wanted
    settings: Settings
    bot: str | None = None
    only: str | None = None
    dates: str | None = None


#: Reads one file, given with its number in the import.
Reader = Callable[[Path, int], Iterator[ReadCandidate]]


class Format(NamedTuple):
    """`pattern`: of the files in a directory; None: the reader takes what was named as it is, a directory or a ZIP archive, too.

    `of_a_chat`: whether the files, or the bot's settings, say which chats of ours they belong to; otherwise --chat must.
    """

    pattern: str | None
    reader: Callable[[Source], Reader]
    of_a_chat: bool = False


def _jsonl(source: Source) -> Reader:
    return lambda path, unit: jsonl.read(path, unit, source.wanted)


def _hcli_sessions(source: Source) -> Reader:
    return lambda path, unit: hcli_sessions.read(path, unit, source.wanted)


def _hcli_audit_log(source: Source) -> Reader:
    return hcli_audit_log.Log(source.files, source.wanted).read


def _telegram(source: Source) -> Reader:
    secret = source.settings.telegram_bot_token
    token = secret.get_secret_value().partition(":")[0] if secret else None
    return lambda path, unit: telegram.read(path, unit, source.wanted, source.settings.timezone, source.bot, token)


def _assistant(assistant: Assistant) -> Callable[[Source], Reader]:
    return lambda source: (
        lambda path, unit: assistant.read(path, unit, source.wanted, source.settings.timezone, source.only)
    )


def _whatsapp(source: Source) -> Reader:
    zone = source.settings.timezone
    return lambda path, unit: whatsapp.read(path, unit, source.wanted, zone, source.bot, source.dates)


def _signal(source: Source) -> Reader:
    zone = source.settings.timezone
    return lambda path, unit: signal.read(path, unit, source.wanted, zone, source.bot, source.only)


def _openclaw(source: Source) -> Reader:
    return lambda path, unit: notes.read_openclaw(path, unit, source.wanted, source.settings.timezone)


def _basic_memory(source: Source) -> Reader:
    return lambda path, unit: notes.read_basic_memory(path, unit, source.wanted, source.settings.timezone)


def _mem0(source: Source) -> Reader:
    return lambda path, unit: mem0.read(path, unit, source.wanted, source.settings.timezone, source.only)


#: By the name of the command, `hmem-night backfill NAME` or `hmem-night backfill from NAME`.
FORMATS: dict[str, Format] = {
    "jsonl": Format("*.jsonl", _jsonl, of_a_chat=True),
    "chunks": Format("chunk_*.txt", _hcli_sessions, of_a_chat=True),
    "audit": Format("*.jsonl", _hcli_audit_log, of_a_chat=True),
    "telegram": Format("result.json", _telegram, of_a_chat=True),
    "chatgpt": Format(None, _assistant(CHATGPT)),
    "claude": Format(None, _assistant(CLAUDE)),
    "whatsapp": Format(None, _whatsapp),
    "signal": Format(None, _signal),
    "openclaw": Format(None, _openclaw),
    "basic-memory": Format(None, _basic_memory),
    "mem0": Format(None, _mem0),
}
