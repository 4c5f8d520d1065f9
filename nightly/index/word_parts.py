"""A large keyword index from nothing, as several parts that are written as tasks (nightly/workers/task.py): chunks to the bytes of a part.

The parts follow from the chunks alone. An index that is added to gets one part a night, as shared/release/parts.py merges them; of these four
it is four of the seven that may be of one level.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from nightly.index.chunk_file import ChunkFolder, parse_lines
from nightly.workers.task import Frames, ResultRefused, TaskKind
from shared.search import lexical

#: Parts, and the numbers of chunks between which there are so many: SQLite makes a part of at most some 2 GB in memory.
PARTS, LEAST_CHUNKS, MOST_CHUNKS = 4, 50_000, 4_000_000


def divided(folder: ChunkFolder) -> list[list[str]]:
    """The chats of each part; none if the index is written as one part."""
    if not LEAST_CHUNKS < len(folder) <= MOST_CHUNKS:
        return []
    parts: list[list[str]] = [[] for _ in range(PARTS)]
    for chat_id in sorted(folder.chats):
        parts[int.from_bytes(hashlib.sha256(chat_id.encode()).digest()[:8]) % PARTS].append(chat_id)
    return [part for part in parts if part]


def writing(folder: ChunkFolder, parts: list[list[str]]) -> Iterator[Frames]:
    """A task a part: the lines of its chats."""
    return (tuple(map(folder.content, part)) for part in parts)


def write_part(task: Frames) -> Frames:
    """The task itself."""
    return (lexical.part_content(row for content in task for row in parse_lines(content)),)


def _prove(task: Frames, answer: Frames) -> None:
    """ResultRefused unless it is a part with as many chunks; what is in it is proven when it is in its place (`lexical.check`)."""
    try:
        (content,) = answer
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(content)
            (count,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
    except (ValueError, TypeError, sqlite3.Error) as error:
        raise ResultRefused("the part that it wrote cannot be read") from error
    if count != sum(lines.count(b"\n") for lines in task):
        raise ResultRefused("the part that it wrote has another number of chunks")


WRITING = TaskKind("write", write_part, prove=_prove, ahead=0)
