"""PostgreSQL with pgvector: the rows of a release in tables that all releases share (tables.py), in place of a file.

By night a release is made in one transaction, to which only rows are sent that the newest release does not have. By day nothing is retried,
for the lookup has a deadline. The search is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

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
#: A cosine below which a stored vector is not itself, the most searches of one check, and in how many checks every chat is counted.
SAME, MOST_PROBED, TURNS = 0.999, 1000, 7


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
        return [Match(chunk_id, score) for chunk_id, score in self._scored(vector, chat_id, k)]

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        """Of all chunks that have a row, however many the chat has; NaN for a repeated chunk."""
        found: dict[str, float] = {}
        if chunk_ids:
            found = self._asked(query, lambda vector: dict(self._scored(vector, chat_id, None)), found)
        return np.array([found.get(chunk_id, np.nan) for chunk_id in chunk_ids], dtype=np.float32)

    def _scored(self, vector: Vectors, chat_id: str, k: int | None) -> list[tuple[str, float]]:
        if self._found is None or not self._found[2].vectors:
            return []
        pool, release, _ = self._found
        with pool.use() as connection:
            return tables.scored(connection, release, chat_id, vector, k) if connection is not None else []

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
        """As in `Builder`: what this release has brought is counted and compared byte for byte; a sample is searched for."""
        served = read_served(place)
        if (served.vectors, served.dimensions) != (len(corpus), corpus.dimensions):
            raise ReleaseRefused(f"{place} was written for other vectors than these. Run the night again.")
        with self._connection(NIGHT_SECONDS) as connection:
            release = tables.release_id(connection, served)
            if release is None:
                raise ReleaseRefused(f"PostgreSQL has no vectors {served.name}. Run the night again.")
            counts = _check_chats(connection, release, corpus)
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


def _check_chats(connection: Connection, release: int, corpus: Corpus) -> dict[str, int]:
    """The number of rows of each chat: listed as in the corpus, and counted where the release has brought any, elsewhere in turns."""
    listed, wanted = tables.chats_of(connection, release), {as_text(chat): chat for chat in corpus.chats}
    digests = {chat: (count, digest) for chat, (count, digest) in listed.items()}
    if digests != {
        chat: (len(corpus.chats[of][0]), OneChat.of(corpus, of).digests()[1]) for chat, of in wanted.items()
    }:
        raise ReleaseRefused("PostgreSQL lists other chats or vectors than it was given. Run the night again.")
    new = tables.new_chats(connection, release)
    counted = [chat for chat in wanted if chat in new or crc32(chat.encode()) % TURNS == release % TURNS]
    found = tables.counted(connection, release, counted)
    for chat in counted:
        if found.get(chat, 0) != listed[chat][0]:
            raise ReleaseRefused(
                f"PostgreSQL has {found.get(chat, 0)} of {listed[chat][0]} vectors of a chat. Run the night again."
            )
    return {of: listed[chat][0] for chat, of in wanted.items()}


def _check_content(connection: Connection, release: int, corpus: Corpus) -> None:
    """What this release has brought is stored as it was given."""
    from pgvector import HalfVector

    chats, rows = dict[str, OneChat](), dict[str, dict[str, int]]()
    for chat, chunk, *stored in tables.brought(connection, release):
        if chat not in chats:
            own = chats[chat] = OneChat.of(corpus, from_text(chat))
            rows[chat] = {one: row for row, one in enumerate(own.ids)}
        own, row = chats[chat], rows[chat].get(chunk, -1)
        if row < 0 or stored != [own.time(row), own.row_digest(row), HalfVector(own.vectors[row])]:
            raise ReleaseRefused(
                f"PostgreSQL has another vector as chunk {from_text(chunk)} than it was given. Run the night again."
            )


def _check_searches(connection: Connection, release: int, corpus: Corpus) -> None:
    """Every SELF_CHECK_EVERY-th vector finds itself; of very many, a sample."""
    probes = [(chat, row) for chat, (ids, _) in corpus.chats.items() for row in range(0, len(ids), SELF_CHECK_EVERY)]
    for chat, row in probes[:: max(1, len(probes) // MOST_PROBED)]:
        ids, vectors = corpus.chats[chat]
        best = tables.scored(connection, release, chat, vectors[row], 1)
        if not best or best[0][1] < SAME:
            raise ReleaseRefused(f"PostgreSQL does not find the vector of chunk {ids[row]}. Run the night again.")
