"""`cache.sqlite`: vectors by (embedding, text), so that only new text is embedded. May be deleted at any time; it is filled again."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import orjson

from shared.embedding.models import EmbeddingIdentity

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: Ahead of the name of an embedding whose vectors are those of notes.
NOTES = "notes:"
_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (embedding TEXT, text_sha256 BLOB, vector BLOB, PRIMARY KEY (embedding, text_sha256)) WITHOUT ROWID"


class VectorCache:
    """Vectors of one embedding identity. Each batch is committed, so a killed night loses one batch of work."""

    def __init__(self, path: Path, identity: EmbeddingIdentity, kind: Literal["chunks", "notes"] = "chunks") -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(_SCHEMA)
        self._dimensions = identity.dimensions
        self._embedding = _name(identity) if kind == "chunks" else f"{NOTES}{_name(identity)}"

    def get(self, text: str) -> Vectors | None:
        """The text's vector, shape (dimensions,), or None."""
        row = self._connection.execute(
            "SELECT vector FROM vectors WHERE embedding = ? AND text_sha256 = ?", (self._embedding, _digest(text))
        ).fetchone()
        if row is None or len(row[0]) != 4 * self._dimensions:
            return None
        vector: Vectors = np.frombuffer(row[0], dtype="<f4")
        return vector

    def put(self, texts: Sequence[str], vectors: Vectors) -> None:
        rows = [
            (self._embedding, _digest(text), vector.astype("<f4").tobytes())
            for text, vector in zip(texts, vectors, strict=True)
        ]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?,?,?)", rows)

    def close(self) -> None:
        self._connection.close()


def known_texts(path: Path, identity: EmbeddingIdentity, texts: Iterable[str]) -> set[str]:
    """Those that have a vector already. The cache is not touched, nor made where there is none."""
    if not path.exists():
        return set()
    # Without a log the file is complete and can be opened without creating one.
    log = path.with_name(f"{path.name}-wal")
    uri = f"{path.absolute().as_uri()}?mode=ro" + ("" if log.exists() else "&immutable=1")
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'vectors'").fetchone():
            return set()
        rows = connection.execute("SELECT text_sha256 FROM vectors WHERE embedding = ?", (_name(identity),))
        digests = {digest for (digest,) in rows}
    return {text for text in texts if _digest(text) in digests}


def forget(path: Path, texts: Iterable[str]) -> int:
    """Remove the vectors of these texts, of every model, and the model-written texts of a killed night; returns the number of removed vectors."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        gone = 0
        with connection:
            if "texts" in tables:
                connection.execute("DELETE FROM texts")
            if "vectors" in tables:
                models = connection.execute("SELECT DISTINCT embedding FROM vectors").fetchall()
                keys = [(model, digest) for digest in {_digest(text) for text in texts} for (model,) in models]
                before = connection.total_changes
                # A note says in other words what a turn said, so all of them go: embedding them again takes minutes.
                connection.execute("DELETE FROM vectors WHERE embedding LIKE ?", (f"{NOTES}%",))
                # Another chat may have the same text on that day: then it is embedded again.
                connection.executemany("DELETE FROM vectors WHERE embedding = ? AND text_sha256 = ?", keys)
                gone = connection.total_changes - before
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return gone


def _name(identity: EmbeddingIdentity) -> str:
    """The key of a model's vectors: everything that makes them comparable, and the version of the weights."""
    comparable = {name: value for name, value in identity.to_json().items() if name != "probes"}
    return hashlib.sha256(orjson.dumps(comparable, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8")).digest()
