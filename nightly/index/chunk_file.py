"""The chunks that a step of tonight has made, chat by chat: what embedding, building and summarising read. No step holds those of all chats.

chunks.jsonl    one chunk per line, as a row of a table, with its indexed text at the end; the lines of a chat follow each other, in order of time
chats.json      chat id -> first line, number of lines, first byte, number of bytes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
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
        self.chats: dict[str, tuple[int, int, int, int]] = {}
        self._row = self._byte = 0

    def add(self, chat_id: str, lines: Iterable[bytes]) -> int:
        """Write all lines of a chat; returns how many. A chat without any is left out."""
        content = b"".join(lines)
        if count := content.count(b"\n"):  # none is inside a line: JSON writes it as an escape
            self._handle.write(content)
            self.chats[chat_id] = (self._row, count, self._byte, len(content))
            self._row, self._byte = self._row + count, self._byte + len(content)
        return count


class ChunkFolder:
    """The chunks in a step's folder. `chats`: the ones that have any, each with its rows, counted over all lines."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CHUNKS
        self._places: dict[str, tuple[int, int, int, int]] = orjson.loads((folder / CHATS).read_bytes())
        self.chats = {chat: range(row, row + count) for chat, (row, count, _, _) in self._places.items()}

    def __len__(self) -> int:
        """Chunks of all chats."""
        return sum(map(len, self.chats.values()))

    def __iter__(self) -> Iterator[tuple[str, list[tuple[Chunk, str]]]]:
        """Each chat with its chunks."""
        return ((chat_id, self.read(chat_id)) for chat_id in self.chats)

    def read(self, chat_id: str) -> list[tuple[Chunk, str]]:
        """(chunk, indexed text) of one chat in order of time; none for a chat that is not here."""
        rows = map(orjson.loads, self.content(chat_id).splitlines())
        return [(chunk_of(row), indexed) for *row, indexed in rows]

    def content(self, chat_id: str) -> bytes:
        """The lines of one chat."""
        if chat_id not in self._places:
            return b""
        _, _, start, size = self._places[chat_id]
        with self._path.open("rb") as handle:
            handle.seek(start)
            return handle.read(size)

    def ids(self, chat_id: str) -> list[str]:
        """Of the chunks of one chat: faster to read."""
        return [orjson.loads(line)[0] for line in self.content(chat_id).splitlines()]
