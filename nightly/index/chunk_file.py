"""The chunks that a step of tonight has made, chat by chat: what embedding, building and summarising read. No step holds those of all chats.

chunks.jsonl    one chunk per line, as a row of a table, with its indexed text at the end; the lines of a chat follow each other, in order of time
chats.json      chat id -> first line, number of lines, first byte
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from sys import intern
from typing import IO

import orjson

from shared.system.files import atomic_writer, write_atomic
from shared.turns.chunk import Chunk, chunk_of, values_of

CHUNKS, CHATS = "chunks.jsonl", "chats.json"


def line_of(chunk: Chunk, indexed: str) -> bytes:
    """One line of `chunks.jsonl`."""
    return orjson.dumps([*values_of(chunk), indexed]) + b"\n"


@contextmanager
def writing_chunks(folder: Path) -> Iterator[ChunkWriter]:
    """The files get their names at the end."""
    with atomic_writer(folder / CHUNKS) as handle:
        writer = ChunkWriter(handle)
        yield writer
    write_atomic(folder / CHATS, orjson.dumps(writer.chats))


class ChunkWriter:
    """Writes the chunks of one chat after the other."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self.chats: dict[str, tuple[int, int, int]] = {}
        self._row = self._byte = 0

    def add(self, chat_id: str, lines: Iterable[bytes]) -> int:
        """Write all lines of a chat; returns how many. A chat without any is left out."""
        first, start = self._row, self._byte
        for line in lines:
            self._handle.write(line)
            self._row, self._byte = self._row + 1, self._byte + len(line)
        if count := self._row - first:
            self.chats[chat_id] = (first, count, start)
        return count


class ChunkFolder:
    """The chunks in a step's folder. `chats`: the ones that have any, each with its rows, counted over all lines."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CHUNKS
        self._places: dict[str, tuple[int, int, int]] = orjson.loads((folder / CHATS).read_bytes())
        self.chats = {chat: range(row, row + count) for chat, (row, count, _) in self._places.items()}

    def __len__(self) -> int:
        """Chunks of all chats."""
        return sum(map(len, self.chats.values()))

    def __iter__(self) -> Iterator[tuple[str, list[tuple[Chunk, str]]]]:
        """Each chat with its chunks."""
        return ((chat_id, [*self.read(chat_id)]) for chat_id in self.chats)

    def read(self, chat_id: str) -> Iterator[tuple[Chunk, str]]:
        """(chunk, indexed text) of one chat in order of time; none for a chat that is not here."""
        return map(_parse, self._lines(chat_id))

    def _lines(self, chat_id: str) -> Iterator[bytes]:
        _, count, start = self._places.get(chat_id, (0, 0, 0))
        with self._path.open("rb") as handle:
            handle.seek(start)
            yield from islice(handle, count)

    def ids(self, chat_id: str) -> list[str]:
        """Of the chunks of one chat: faster to read."""
        return [orjson.loads(line)[0] for line in self._lines(chat_id)]


def _parse(line: bytes) -> tuple[Chunk, str]:
    chunk_id, chat_id, exchange, turn_ids, role, speaker, *rest, indexed = orjson.loads(line)
    same = map(intern, (role, speaker))  # one string each, however many chunks
    return chunk_of([chunk_id, intern(chat_id), exchange, turn_ids, *same, *rest]), indexed
