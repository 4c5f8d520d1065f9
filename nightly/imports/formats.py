"""The formats that a backfill reads from files: of each, the files that it takes from a directory, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nightly.imports.candidates import ReadCandidate, Wanted
from nightly.imports.readers import hcli_audit_log, hcli_sessions, jsonl, telegram
from shared.config.settings import Settings


@dataclass(frozen=True)
class Source:
    """What a reader is made for. `bot`: the bot's name or id from the command line."""

    files: list[Path]
    wanted: Wanted
    settings: Settings
    bot: str | None = None


#: Reads one file, given with its number in the import.
Reader = Callable[[Path, int], Iterator[ReadCandidate]]


class Format(NamedTuple):
    pattern: str  # of the files in a directory
    reader: Callable[[Source], Reader]


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


#: By the name of the command, `hmem-night backfill NAME`.
FORMATS: dict[str, Format] = {
    "jsonl": Format("*.jsonl", _jsonl),
    "chunks": Format("chunk_*.txt", _hcli_sessions),
    "audit": Format("*.jsonl", _hcli_audit_log),
    "telegram": Format("result.json", _telegram),
}
