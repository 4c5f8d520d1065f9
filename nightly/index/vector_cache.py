"""`cache.sqlite`: vectors by (embedding, text), so that only new text is embedded. May be deleted at any time; it is filled again.

A row is some 1,600 bytes; a page of 16 KB holds ten. The rows lie in the order in which they came, and an index leads to them: the keys are
hashes, and rows in the order of their keys would leave a fifth of each page free. A file of an earlier version (rows in the order of their
keys, each in a page of 4 KB of its own and part of another) is copied once.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import orjson

from nightly.night.folder import discard_cache, is_damage
from nightly.night.progress import Reporter
from shared.embedding.models import EmbeddingIdentity
from shared.system.files import fsync_dir

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: Ahead of the name of an embedding whose vectors are those of notes.
NOTES = "notes:"
#: Bytes of a page.
PAGE = 16_384
#: Texts of one query: more make it no faster.
TEXTS_OF_A_QUERY = 256
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS embeddings (id INTEGER PRIMARY KEY, name TEXT UNIQUE)",
    "CREATE TABLE IF NOT EXISTS vectors (embedding INTEGER, text_sha256 BLOB, vector BLOB, PRIMARY KEY (embedding, text_sha256))",
)


class VectorCache:
    """Vectors of one embedding identity. Each batch is committed, so a killed night loses one batch of work."""

    def __init__(
        self,
        path: Path,
        identity: EmbeddingIdentity,
        kind: Literal["chunks", "notes"] = "chunks",
        report: Reporter | None = None,
    ) -> None:
        """`report` shows how far a file of an earlier version is copied. A damaged file is removed, and said to be."""
        report = report or Reporter(quiet=True)
        try:
            self._open(path, identity, kind, report)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            discard_cache(path)
            report.say(f"  {path} was damaged ({error}). It begins anew, and all texts are embedded again.")
            self._open(path, identity, kind, report)

    def _open(
        self, path: Path, identity: EmbeddingIdentity, kind: Literal["chunks", "notes"], report: Reporter
    ) -> None:
        _make_compact(path, report)
        self._connection = _connect(path)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._dimensions = identity.dimensions
        with self._connection:
            _create(self._connection)
            self._embedding = _id_of(self._connection, _name(identity, kind))

    def get(self, text: str) -> Vectors | None:
        """The text's vector, shape (dimensions,), or None."""
        return next(self.get_many([text]))

    def get_many(self, texts: Sequence[str]) -> Iterator[Vectors | None]:
        """The same of each text, in order; some hundred of them are in memory at once."""
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


def known_texts(path: Path, identity: EmbeddingIdentity, texts: Sequence[str]) -> set[str]:
    """Those of some texts that have a vector already. The cache is not touched, nor made where there is none."""
    if not path.exists():
        return set()
    # Without a log the file is complete and can be opened without creating one.
    log = path.with_name(f"{path.name}-wal")
    uri = f"{path.absolute().as_uri()}?mode=ro" + ("" if log.exists() else "&immutable=1")
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        tables = _tables(connection)
        if "vectors" not in tables:
            return set()
        named = "(SELECT id FROM embeddings WHERE name = ?)" if "embeddings" in tables else "?"
        sql = f"SELECT 1 FROM vectors WHERE embedding = {named} AND text_sha256 = ?"  # noqa: S608
        name = _name(identity)
        return {text for text in texts if connection.execute(sql, (name, _digest(text))).fetchone()}


def forget(path: Path, texts: Iterable[str], report: Reporter | None = None) -> int:
    """Remove the vectors of these texts, of every model, and the model-written texts of a killed night; returns the number of removed vectors.
    Of a damaged file all are removed, uncounted."""
    if not path.exists():
        return 0
    try:
        return _forget(path, texts, report or Reporter(quiet=True))
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        discard_cache(path)
        return 0


def _forget(path: Path, texts: Iterable[str], report: Reporter) -> int:
    _make_compact(path, report)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        with connection:
            if "texts" in _tables(connection):
                connection.execute("DELETE FROM texts")
            _create(connection)
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
    return gone


def _make_compact(path: Path, report: Reporter) -> None:
    """Copy a file of an earlier version into one of this version, which then takes its name in one step: a kill leaves one or the other."""
    copy = path.with_name(f"{path.name}.tmp")
    copy.unlink(missing_ok=True)  # of a night that was killed here: it would outlive what is forgotten
    if not path.exists():
        return
    with closing(sqlite3.connect(path)) as old:
        tables = _tables(old)
        compact = old.execute("PRAGMA page_size").fetchone() == (PAGE,) and (
            "embeddings" in tables or "vectors" not in tables
        )
        if compact:
            return
        # The log's rows into the file, and the log away: it must not be read with the file that takes its name.
        if old.execute("PRAGMA journal_mode=DELETE").fetchone() != ("delete",):
            raise sqlite3.OperationalError(f"{path.name} is open elsewhere")
        try:
            _copy(old, tables, copy, report)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
    copy.replace(path)
    fsync_dir(path.parent)


def _copy(old: sqlite3.Connection, tables: set[str], path: Path, report: Reporter) -> None:
    """All rows into a new file, which is on the disk afterwards."""
    with closing(_connect(path)) as new:
        new.execute("PRAGMA journal_mode=OFF")  # an unfinished copy is deleted
        new.execute("PRAGMA synchronous=OFF")
        with new:
            _create(new)
            if "texts" in tables:
                new.execute(*old.execute("SELECT sql FROM sqlite_master WHERE name = 'texts'").fetchone())
                new.executemany("INSERT INTO texts VALUES (?,?)", old.execute("SELECT key, record FROM texts"))
            if "vectors" in tables:
                _copy_vectors(old, new, "embeddings" in tables, report)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _copy_vectors(old: sqlite3.Connection, new: sqlite3.Connection, named_by_id: bool, report: Reporter) -> None:
    (count,) = old.execute("SELECT count(*) FROM vectors").fetchone()
    if count:
        report.say(f"  cache.sqlite is made compact, once: {count} vectors are copied.")
    name = "(SELECT name FROM embeddings WHERE id = embedding)" if named_by_id else "embedding"
    rows = old.execute(f"SELECT {name}, text_sha256, vector FROM vectors")  # noqa: S608
    ids: dict[str, int] = {}

    def with_id() -> Iterator[tuple[int, bytes, bytes]]:
        for embedding, digest, vector in report.track(rows, count, "cache.sqlite"):
            if embedding not in ids:
                ids[embedding] = _id_of(new, embedding)
            yield ids[embedding], digest, vector

    new.executemany("INSERT INTO vectors VALUES (?,?,?)", with_id())
    copied = new.execute("SELECT count(*) FROM vectors").fetchone()
    if copied != (count,):
        raise sqlite3.DatabaseError(f"{copied[0]} of {count} vectors were copied")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size={PAGE}")  # of a new file; that of another one stays
    return connection


def _create(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _id_of(connection: sqlite3.Connection, name: str) -> int:
    connection.execute("INSERT OR IGNORE INTO embeddings (name) VALUES (?)", (name,))
    (number,) = connection.execute("SELECT id FROM embeddings WHERE name = ?", (name,)).fetchone()
    return int(number)


def _name(identity: EmbeddingIdentity, kind: Literal["chunks", "notes"] = "chunks") -> str:
    """The name of a model's vectors: everything that makes them comparable, and the version of the weights."""
    comparable = {name: value for name, value in identity.to_json().items() if name != "probes"}
    name = hashlib.sha256(orjson.dumps(comparable, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return name if kind == "chunks" else f"{NOTES}{name}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8")).digest()
