"""A large keyword index from nothing, as several parts that are written as tasks (nightly/workers.py): chunks to the bytes of a part.

The parts follow from the chunks alone. An index that is added to gets one part a night, as shared/release/parts.py merges them; of these four
it is four of the seven that may be of one level.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from nightly.index.chunk_file import ChunkFolder, parse_lines
from nightly.workers import Frames
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
