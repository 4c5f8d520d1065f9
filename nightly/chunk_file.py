"""Reading `chunk/chunks.jsonl`, where chunking, embedding, building and summarising meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from shared.lexical import Chunk


def read_chunks(folder: Path) -> Iterator[tuple[Chunk, str]]:
    """(chunk, indexed text) in order of chat and time."""
    with (folder / "chunks.jsonl").open("rb") as handle:
        for line in handle:
            record = orjson.loads(line)
            indexed = record.pop("indexed")
            yield Chunk(**record | {"turn_ids": tuple(record["turn_ids"])}), indexed
