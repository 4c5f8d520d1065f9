"""The output of chunking, which embedding, building and summarising read: the chunks line by line, and the columns that are read as a whole.

chunks.jsonl    one chunk per line, with its indexed text, in order of chat and time
columns.json    for each line: chat, chunk id, time, digest; 20 times faster to read
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from shared.system.files import write_atomic
from shared.turns.chunk import Chunk
from shared.turns.message_origin import Origin

CHUNKS, COLUMNS = "chunks.jsonl", "columns.json"
#: Bytes of the digest that distinguishes the rows of an index.
DIGEST_BYTES = 16


@dataclass(frozen=True)
class Columns:
    """One entry a line of `chunks.jsonl`. Times are POSIX seconds; the digest covers the whole line."""

    chat_ids: list[str] = field(default_factory=list)
    chunk_ids: list[str] = field(default_factory=list)
    started_at: list[float] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.chunk_ids)

    def add(self, chunk: Chunk, line: bytes) -> None:
        self.chat_ids.append(chunk.chat_id)
        self.chunk_ids.append(chunk.chunk_id)
        self.started_at.append(chunk.started_at)
        self.digests.append(digest_of_bytes(line))

    def by_chat(self) -> dict[str, dict[str, str]]:
        """Chat id -> chunk id -> digest."""
        found: dict[str, dict[str, str]] = {}
        for chat_id, chunk_id, digest in zip(self.chat_ids, self.chunk_ids, self.digests, strict=True):
            found.setdefault(chat_id, {})[chunk_id] = digest
        return found


def digest_of_bytes(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).digest()[:DIGEST_BYTES].hex()


def line_of(chunk: Chunk, indexed: str) -> bytes:
    """One line of `chunks.jsonl`."""
    record = {**vars(chunk), "indexed": indexed} | {"origin": chunk.origin.to_json()}
    if not record["origin"]:
        del record["origin"]
    return orjson.dumps(record) + b"\n"


def write_columns(folder: Path, columns: Columns) -> None:
    write_atomic(folder / COLUMNS, orjson.dumps(asdict(columns)))


def read_columns(folder: Path) -> Columns:
    return Columns(**orjson.loads((folder / COLUMNS).read_bytes()))


def read_chunks(folder: Path, rows: Container[int] | None = None) -> Iterator[tuple[Chunk, str]]:
    """(chunk, indexed text) in order of chat and time: all of them, or those of these rows, counted from 0."""
    with (folder / CHUNKS).open("rb") as handle:
        for row, line in enumerate(handle):
            if rows is None or row in rows:
                yield _parse(line)


def _parse(line: bytes) -> tuple[Chunk, str]:
    record = orjson.loads(line)
    indexed = record.pop("indexed")
    origin = Origin.parse(record.pop("origin", {}))
    return Chunk(**record | {"turn_ids": tuple(record["turn_ids"])}, origin=origin), indexed
