"""Cutting chats as tasks (nightly/night/workers.py): the records of some chats with their tombstones, to chunks and accounts.

A task is some chats: their number and sizes follow from the archive, never from who does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from nightly.archive.chat_chunks import ChatReader, StoredChat, StoredLine, cut
from nightly.index.chunk_file import line_of
from nightly.night.workers import Frames
from shared.turns.records import Tombstone

#: Bytes of records that are one task; a chat is never divided.
TASK_BYTES = 1_000_000


@dataclass(frozen=True)
class CutLines:
    """What became of one chat: its chunks as lines of `chunks.jsonl`, and why turns could not be cut."""

    account: dict[str, int]
    turns: int  # to recall
    set_aside: dict[str, str]  # turn id -> reason
    lines: bytes


def cut_tasks(reader: ChatReader, chats: Iterable[str], zone: ZoneInfo) -> Iterator[Frames]:
    """The chats, read from the archive; ArchiveDamaged."""
    about: list[dict[str, Any]] = []
    frames: list[bytes] = []
    size = 0
    for stored in map(reader.stored, chats):
        about.append(
            {
                "chat": [stored.chat_id, stored.archived, stored.forgotten],
                "tombstones": [one.to_json().decode() for one in stored.tombstones],
                "lines": [(line.segment, line.start, line.sha256, len(line.content)) for line in stored.lines],
            }
        )
        frames.append(b"".join(line.content for line in stored.lines))
        size += len(frames[-1])
        if size >= TASK_BYTES:
            yield orjson.dumps([zone.key, about]), *frames
            about, frames, size = [], [], 0
    if about:
        yield orjson.dumps([zone.key, about]), *frames


def cut_chats(task: Frames, directory: Path = Path()) -> Frames:
    """The task itself: ArchiveDamaged if a record is not the one that the catalog knows."""
    zone, about = orjson.loads(task[0])
    made = [_cut(one, content, ZoneInfo(zone), directory) for one, content in zip(about, task[1:], strict=True)]
    return orjson.dumps([(one.account, one.turns, one.set_aside) for one in made]), *(one.lines for one in made)


def answered(answer: Frames) -> Iterator[CutLines]:
    """What a task answered, in the order of its chats."""
    for (account, turns, set_aside), lines in zip(orjson.loads(answer[0]), answer[1:], strict=True):
        yield CutLines(account, turns, set_aside, lines)


def _cut(about: dict[str, Any], content: bytes, zone: ZoneInfo, directory: Path) -> CutLines:
    lines, start = list[StoredLine](), 0
    for segment, place, sha256, length in about["lines"]:
        lines.append(StoredLine(segment, place, sha256, content[start : start + length]))
        start += length
    chat_id, archived, forgotten = about["chat"]
    tombstones = [Tombstone.parse(one.encode()) for one in about["tombstones"]]
    made = cut(StoredChat(chat_id, archived, forgotten, tombstones, lines), directory, zone)
    set_aside = {turn_id: type(error).__name__ for turn_id, error in made.set_aside.items()}
    return CutLines(made.account, made.turns, set_aside, b"".join(line_of(*chunk) for chunk in made.chunks))
