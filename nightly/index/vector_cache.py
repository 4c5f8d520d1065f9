"""`cache.sqlite`: vectors by (embedding, text), so that only new text is embedded. May be deleted at any time; it is filled again.

A row is some 1,600 bytes; a page of 16 KB holds ten. The rows lie in the order in which they came, and an index leads to them: the keys are
hashes, and rows in the order of their keys would leave a fifth of each page free.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import orjson

from nightly.index.recipe import comparable
from nightly.night.folder import damaged_removed, open_cache
from shared.embedding.models import EmbeddingIdentity

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: What the vectors are of.
Kind = Literal["chunks", "notes"]
#: Ahead of the name of an embedding whose vectors are those of notes.
NOTES = "notes:"
#: Texts of one query: more make it no faster.
TEXTS_OF_A_QUERY = 256


class VectorCache:
    """Vectors of one embedding identity. Each batch is committed, so a killed night loses one batch of work."""

    def __init__(
        self, path: Path, identity: EmbeddingIdentity, say: Callable[[str], None], kind: Kind = "chunks"
    ) -> None:
        """A damaged file is removed, and said to be."""
        self._connection = open_cache(path, say)
        self._dimensions = identity.dimensions
        with self._connection:
            self._embedding = _id_of(self._connection, _name(identity, kind))

    def get_many(self, texts: Sequence[str]) -> Iterator[Vectors | None]:
        """The vector of each text, shape (dimensions,), or None, in order; some hundred of them are in memory at once."""
        for start in range(0, len(texts), TEXTS_OF_A_QUERY):
            digests = [_digest(text) for text in texts[start : start + TEXTS_OF_A_QUERY]]
            rows = self._connection.execute(
                f"SELECT text_sha256, vector FROM vectors WHERE embedding = ? AND text_sha256 IN ({','.join('?' * len(digests))})",  # noqa: S608
                (self._embedding, *digests),
            )
            found: dict[bytes, Vectors] = {
                digest: np.frombuffer(vector, dtype="<f4")
                for digest, vector in rows
                if len(vector) == 4 * self._dimensions
            }
            yield from map(found.get, digests)

    def put(self, texts: Sequence[str], vectors: Vectors) -> None:
        rows = [
            (self._embedding, _digest(text), vector.astype("<f4").tobytes())
            for text, vector in zip(texts, vectors, strict=True)
        ]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?,?,?)", rows)

    def close(self) -> None:
        self._connection.close()


def forget(path: Path, texts: Iterable[str], say: Callable[[str], None]) -> int:
    """Remove the vectors of these texts, of every model; returns the number of removed vectors. Of a damaged file all are removed, uncounted."""
    if not path.exists():
        return 0
    gone = 0
    with damaged_removed(path) as damage, closing(open_cache(path, say)) as connection:
        with connection:
            before = connection.total_changes
            # A note says in other words what a turn said, so all of them go: embedding them again takes minutes.
            connection.execute(
                "DELETE FROM vectors WHERE embedding IN (SELECT id FROM embeddings WHERE name LIKE ?)", (f"{NOTES}%",)
            )
            # Another chat may have the same text on that day: then it is embedded again.
            connection.executemany(
                "DELETE FROM vectors WHERE embedding IN (SELECT id FROM embeddings) AND text_sha256 = ?",
                [(digest,) for digest in {_digest(text) for text in texts}],
            )
            gone = connection.total_changes - before
            connection.execute("DELETE FROM embeddings WHERE name LIKE ?", (f"{NOTES}%",))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return 0 if damage else gone


def _id_of(connection: sqlite3.Connection, name: str) -> int:
    connection.execute("INSERT OR IGNORE INTO embeddings (name) VALUES (?)", (name,))
    (number,) = connection.execute("SELECT id FROM embeddings WHERE name = ?", (name,)).fetchone()
    return int(number)


def _name(identity: EmbeddingIdentity, kind: Kind) -> str:
    """The name of a model's vectors: everything that makes them comparable, and the version of the weights."""
    name = hashlib.sha256(orjson.dumps(comparable(identity.to_json()), option=orjson.OPT_SORT_KEYS)).hexdigest()
    return name if kind == "chunks" else f"{NOTES}{name}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8")).digest()
