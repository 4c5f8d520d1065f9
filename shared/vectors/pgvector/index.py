"""PostgreSQL with pgvector: the rows of a release in tables that all releases share (tables.py), in place of a file.

By night a release is made in one transaction, to which only rows are sent that the newest release does not have. By day nothing is retried,
for the lookup has a deadline. The search is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shared.config.settings import Settings
from shared.embedding.models import EmbeddingIdentity
from shared.errors import IndexServerUnavailable, ReleaseRefused
from shared.ranking.question import Match
from shared.release.parts import Earlier
from shared.vectors.base import Checked, Corpus, refuse_without_library
from shared.vectors.on_server import (
    DAY_SECONDS,
    NIGHT_SECONDS,
    SELF_CHECK_EVERY,
    Served,
    ServedBackend,
    is_left_over,
    new_name,
    read_served,
    write_served,
)
from shared.vectors.pgvector import tables
from shared.vectors.pgvector.server import DatabaseUnavailable, Pool, answered, connected, limited, schema_of, url_of
from shared.vectors.pgvector.tables import OneChat, as_text, from_text

if TYPE_CHECKING:
    from shared.embedding.models import Vectors
    from shared.vectors.pgvector.server import Connection

#: Raise it when the same vectors would be stored in another way.
LAYOUT = 1
#: A cosine below which a stored vector is not itself, and the most searches of one check.
SAME, MOST_PROBED = 0.999, 1000


class PgvectorBackend(ServedBackend):
    """Searches the rows of one release. Threads share it, each with a connection of its own while it asks."""

    name = "pgvector"
    errors = (DatabaseUnavailable,)

    def __init__(self, settings: Settings, release: Path, indexed_with: EmbeddingIdentity | None) -> None:
        super().__init__(settings, release, indexed_with)
        self._found: tuple[Pool, int, Served] | None = None
        self._pool: Pool | None = None

    def _connect(self, served: Served) -> None:
        pool = self._pool = Pool(self._settings, DAY_SECONDS)
        with pool.use() as connection:
            if connection is None:
                return
            release = tables.release_id(connection, served)
            listed = tables.listed(connection, release) if release is not None else 0
        if release is None or listed != served.vectors:
            pool.close()
            raise ReleaseRefused(
                f"release {self._release.name} has its vectors in PostgreSQL as {served.name}, of which the server has {listed} of "
                f"{served.vectors}. Run the night again"
            )
        self._found = pool, release, served

    def _nearest(self, vector: Vectors, chat_id: str, k: int) -> list[Match]:
        return self._scored(vector, chat_id, k)

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        """Of all chunks that have a row, however many the chat has; NaN for a repeated chunk."""
        matches = self._asked(query, lambda vector: self._scored(vector, chat_id, None)) if chunk_ids else []
        found = {match.chunk_id: match.score for match in matches}
        return np.array([found.get(chunk_id, np.nan) for chunk_id in chunk_ids], dtype=np.float32)

    def _scored(self, vector: Vectors, chat_id: str, k: int | None) -> list[Match]:
        if self._found is None or not self._found[2].vectors:
            return []
        pool, release, _ = self._found
        with pool.use() as connection:
            found = tables.scored(connection, release, chat_id, vector, k) if connection is not None else []
        return [Match(chunk_id, score) for of, chunk_id, score in found if of == chat_id]

    def _close_index(self) -> None:
        pool, self._pool, self._found = self._pool, None, None
        if pool is not None:
            pool.close()


class PgvectorBuilder:
    """Builds the rows of a release beside those of the others. An attempt that fails leaves nothing; `sweep` removes a release that is not used."""

    def __init__(self, settings: Settings, run: int) -> None:
        self._settings, self._run = settings, run

    def refuse_unless_usable(self) -> None:
        refuse_without_library("pgvector")
        url_of(self._settings)
        with self._connection(DAY_SECONDS) as connection, limited(connection, DAY_SECONDS):
            connection.execute("SELECT 1")

    def version(self) -> str:
        return f"pgvector, layout {LAYOUT}"

    def build(self, place: Path, corpus: Corpus, earlier: Earlier | None = None) -> None:  # noqa: ARG002 - the server knows
        served = Served(new_name(self._settings.index_name, self._run), len(corpus), corpus.dimensions)
        with self._connection(NIGHT_SECONDS) as connection:
            tables.put(connection, schema_of(self._settings), served, corpus)
        write_served(place, served)

    def check(self, place: Path, scratch: Path, corpus: Corpus, earlier: Earlier | None = None) -> Checked:  # noqa: ARG002
        """As in `Builder`: every chat's rows are counted, what this release has brought is compared byte for byte, and a sample is searched for."""
        served = read_served(place)
        if (served.vectors, served.dimensions) != (len(corpus), corpus.dimensions):
            raise ReleaseRefused(f"{place} was written for other vectors than these. Run the night again.")
        with self._connection(NIGHT_SECONDS) as connection:
            release = tables.release_id(connection, served)
            if release is None:
                raise ReleaseRefused(f"PostgreSQL has no vectors {served.name}. Run the night again.")
            counts = _check_counts(connection, release, corpus)
            _check_content(connection, release, corpus)
            _check_searches(connection, release, corpus)
        return Checked(counts)

    def follow(self, place: Path) -> None:
        name = read_served(place).name
        with self._connection(NIGHT_SECONDS) as connection:
            if not tables.follow(connection, name):
                raise ReleaseRefused(f"PostgreSQL has no vectors {name}. Run the night again.")

    def left_over(self, named: Collection[str], newest: int | None = None) -> list[str]:
        with self._connection(NIGHT_SECONDS) as connection:
            return sorted(name for name in tables.names(connection) if self._is_left(name, named, newest))

    def sweep(self, named: Collection[str], newest: int | None = None) -> list[str]:
        with self._connection(NIGHT_SECONDS) as connection:
            if not tables.exist(connection):
                return []
            return sorted(tables.remove(connection, lambda name: self._is_left(name, named, newest)))

    def _is_left(self, name: str, named: Collection[str], newest: int | None) -> bool:
        return is_left_over(name, self._settings.index_name, named, newest)

    @contextmanager
    def _connection(self, seconds: float) -> Iterator[Connection]:
        """A connection for the night; what fails is an IndexServerUnavailable, whose text has no password."""
        try:
            connection = connected(self._settings, seconds)
            try:
                with answered():
                    yield connection
            finally:
                connection.close()
        except DatabaseUnavailable as error:
            raise _unavailable(error) from error


def _unavailable(error: DatabaseUnavailable) -> IndexServerUnavailable:
    if error.refused:
        return IndexServerUnavailable(
            f"The PostgreSQL that stores vectors (PGVECTOR_URL, DAY_STORE_URL if unset) refuses the night ({error}). "
            "Check the address, the password and the rights of this user (docs/indexes.md), then run the night again."
        )
    return IndexServerUnavailable(
        f"The PostgreSQL that stores vectors (PGVECTOR_URL, DAY_STORE_URL if unset) does not answer ({error}). "
        "Check that it runs, that its address is right and that its disk has space, then run the night again."
    )


def _check_counts(connection: Connection, release: int, corpus: Corpus) -> dict[str, int]:
    """The number of rows of each chat, which must be those of the corpus."""
    counts = {from_text(chat): count for chat, count in tables.counted(connection, release).items()}
    wanted = {chat: len(ids) for chat, (ids, _) in corpus.chats.items()}
    if counts == wanted:
        return counts
    chat = next(chat for chat in (*wanted, *counts) if counts.get(chat) != wanted.get(chat))
    raise ReleaseRefused(
        f"PostgreSQL has {counts.get(chat, 0)} of {wanted.get(chat, 0)} vectors of a chat. Run the night again."
    )


def _check_content(connection: Connection, release: int, corpus: Corpus) -> None:
    """What this release has brought is stored as it was given; the digests of all chats are those of the corpus."""
    digests, new = tables.chat_digests(connection, release), tables.new_chats(connection, release)
    changed = [chat for chat in corpus.chats if as_text(chat) in new]
    if len(digests) != len(corpus.chats) or any(
        digests.get(as_text(chat)) != OneChat.of(corpus, chat).digest() for chat in corpus.chats
    ):
        raise ReleaseRefused("PostgreSQL lists other chats or vectors than it was given. Run the night again.")
    for batch in tables.batches(corpus, changed):
        found = tables.stored(connection, release, [own.chat for own in batch])
        for own in batch:
            _check_rows(own, found[own.chat])


def _check_rows(own: OneChat, found: Mapping[str, tuple[object, ...]]) -> None:
    from pgvector import HalfVector

    for row, chunk in enumerate(own.ids):
        if found.get(chunk) != (own.time(row), own.row_digest(row), HalfVector(own.vectors[row])):
            raise ReleaseRefused(
                f"PostgreSQL has another vector of chunk {chunk} than it was given. Run the night again."
            )


def _check_searches(connection: Connection, release: int, corpus: Corpus) -> None:
    """Every SELF_CHECK_EVERY-th vector finds itself; of very many, a sample."""
    probes = [(chat, row) for chat, (ids, _) in corpus.chats.items() for row in range(0, len(ids), SELF_CHECK_EVERY)]
    for chat, row in probes[:: max(1, len(probes) // MOST_PROBED)]:
        ids, vectors = corpus.chats[chat]
        best = tables.scored(connection, release, chat, vectors[row], 1)
        if not best or best[0][0] != chat or best[0][2] < SAME:
            raise ReleaseRefused(f"PostgreSQL does not find the vector of chunk {ids[row]}. Run the night again.")
