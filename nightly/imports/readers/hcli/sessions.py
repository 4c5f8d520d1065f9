"""Session files of h-cli, `chunk_<UTC>.txt`: lines such as `Chat: 9912`, then blocks, each closed by a line `---`.

    [2026-02-09 17:33:20 UTC] USER:
    the message

    ---

A `---` that is not followed by a block belongs to the message. The files have no task ids: a turn's id is made of chat, time, role, words,
and its number among equal turns, so the same block has the same id in every file. An answer right after a question gets the question's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from nightly.imports.candidates import BOM, MadeUpIds, ReadCandidate, open_input
from nightly.imports.containers.opening import Export
from nightly.imports.formats import Source
from nightly.imports.recognition import beginnings
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused, Turn, chat_id_of

_HEAD = re.compile(rb"\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?: ?(?:UTC|Z))?\] +(\w+):[ \t]*\Z")
_CHAT = re.compile(rb"[\s#]*chat(?:[ _-]?id)?\s*[:=]\s*(\S+)\s*\Z", re.IGNORECASE)
_ROLES = {"user": "user", "asst": "asst", "assistant": "asst"}


@dataclass(frozen=True)
class Block:
    """`line`: number of its first line. `done`: bytes up to its end."""

    line: int
    moment: str
    role: str
    content: bytes
    done: int


def read(path: Path, source: Source) -> Iterator[ReadCandidate]:
    with open_input(path) as handle:
        content: bytes = handle.read().removeprefix(BOM)
    preamble, blocks = split(content)
    if not blocks:
        yield ReadCandidate(
            len(content), unreadable="it has no block [YYYY-MM-DD HH:MM:SS UTC] ROLE:", place=f"{path}:1"
        )
        return
    chat_id = _chat_of(preamble) or source.wanted.chat
    if chat_id is None:
        raise InvalidInput(f"{path} does not name its chat. Name it with --chat; nothing was imported.")
    reading = _Reading(chat_id)
    for block in blocks:
        yield ReadCandidate.of(block.done, f"{path}:{block.line}", partial(reading.turn, block))


def recognise(export: Export) -> str | None:
    for where, content in beginnings(export, export.fitting("chunk_*.txt")):
        if any(block.role.lower() in _ROLES for block in split(content)[1]):
            return f"{where} whose blocks begin with a time in brackets and USER or ASSISTANT"
    return None


def split(content: bytes) -> tuple[list[bytes], list[Block]]:
    """The lines before the first block, and the blocks."""
    lines = content.split(b"\n")
    if lines[0].endswith(b"\r"):  # written, or copied here, by a system with such line ends
        lines = [line.removesuffix(b"\r") for line in lines]
    heads = [number for number in range(len(lines)) if _HEAD.match(lines[number])]
    if not heads:
        return lines, []
    starts = [heads[0], *(number for number in heads[1:] if _closed_before(lines, number))]
    ends = [*starts[1:], len(lines)]
    done = 0
    blocks = []
    for start, end in zip(starts, ends, strict=True):
        head = _HEAD.match(lines[start])
        assert head  # noqa: S101 - it is one of `heads`
        done += sum(len(line) + 1 for line in lines[start:end])
        about = start + 1, head[1].decode("ascii"), head[2].decode("utf-8", "replace")
        blocks.append(Block(*about, _content(lines[start + 1 : end]), done))
    return lines[: heads[0]], blocks


def _closed_before(lines: list[bytes], number: int) -> bool:
    """Whether only blank lines are between a line and a `---` above it."""
    above = number - 1
    while above >= 0 and not lines[above].strip():
        above -= 1
    return above >= 0 and lines[above].rstrip() == b"---"


def _content(lines: list[bytes]) -> bytes:
    """Without the closing line and the one blank line before it; a truncated file has neither."""
    last = len(lines)
    while last and not lines[last - 1].strip():
        last -= 1
    if not last or lines[last - 1].rstrip() != b"---":
        return b"\n".join(lines[:last])
    message = lines[: last - 1]
    return b"\n".join(message[:-1] if message and not message[-1] else message)


def _chat_of(preamble: list[bytes]) -> str | None:
    for line in preamble:
        if found := _CHAT.match(line):
            try:
                return chat_id_of(found[1].decode("utf-8"))
            except (RecordRefused, UnicodeDecodeError):
                return None
    return None


class _Reading:
    """The blocks of one file, in order."""

    def __init__(self, chat_id: str) -> None:
        self._chat_id, self._ids = chat_id, MadeUpIds("chunk")
        self._asked: str | None = None  # the id of the question right before

    def turn(self, block: Block) -> Turn | str:
        asked, self._asked = self._asked, None
        role = _ROLES.get(block.role.lower())
        if role is None:
            raise RecordRefused("the role is neither USER nor ASSISTANT")
        try:
            content = block.content.decode("utf-8")
            moment = datetime.fromisoformat(block.moment).replace(tzinfo=UTC).timestamp()
        except UnicodeDecodeError as error:
            raise RecordRefused(f"not UTF-8 at byte {error.start} of the block") from error
        except ValueError as error:
            raise RecordRefused("the block's time is not a valid time") from error
        if not content.strip():
            return "without text"
        if moment < 0:
            raise RecordRefused("the block's time is before 1970")
        own = self._ids.next(self._chat_id, moment, role, content)
        self._asked = own if role == "user" else None
        return Turn(asked if asked and role == "asst" else own, role, self._chat_id, content, moment)
