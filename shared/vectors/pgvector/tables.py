"""The tables of an installation in PostgreSQL, and how a release becomes a set of their rows.

    releases   id (rising), name, vectors, dimensions, current, scrub
    chats      chat, since, until, vectors, digest of all of its rows
    rows       chat, chunk_id, said_at, digest, since, until, embedding (half precision); 32 partitions by the hash of the chat
    current    a view of the rows of the release that the alias follows, for other programs

A release `r` has the rows with since <= r < until; `until` is null as long as the newest release has the row. So a build writes what
differs from the newest release and nothing else: it ends rows that are gone or changed, and adds the new ones. A row whose interval contains
no release is deleted with the last release that had it; what remains in the files goes by rewriting its partition.

There is no graph (HNSW): a search is within one chat, whose rows are compared one by one, which is exact, and was faster than a graph over
all chats with a filter (docs/measurements.md). Ids are text in which a backslash is doubled and a NUL, which PostgreSQL does not store, is
a backslash and a zero.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shared.vectors.base import Corpus
from shared.vectors.on_server import Served

if TYPE_CHECKING:
    from shared.embedding.models import Vectors
    from shared.vectors.pgvector.server import Connection

PARTITIONS = 32
#: Rows in one COPY, in one batch of chats, and that are read back at a time: of 384 dimensions 20 MB.
BATCH_ROWS = 20_000
#: Any number that only we use: one build or removal at a time in a database.
LOCK = 0x686D7665  # "hmve"
#: Seconds that the rewriting of a partition waits for its readers.
LOCK_SECONDS = 30
#: The share of new rows from which the planner's statistics are taken anew.
ANALYSED_FROM = 0.1

_TABLES = f"""
CREATE TABLE IF NOT EXISTS releases (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
    vectors bigint NOT NULL, dimensions int NOT NULL, current boolean NOT NULL DEFAULT false, scrub boolean NOT NULL DEFAULT false
);
CREATE TABLE IF NOT EXISTS chats (
    chat text COLLATE "C" NOT NULL, since int NOT NULL, until int, vectors int NOT NULL, digest bytea NOT NULL, PRIMARY KEY (chat, since)
);
CREATE TABLE IF NOT EXISTS rows (
    chat text COLLATE "C" NOT NULL, chunk_id text COLLATE "C" NOT NULL, said_at double precision, digest bytea NOT NULL,
    since int NOT NULL, until int, embedding halfvec NOT NULL, PRIMARY KEY (chat, chunk_id, since) INCLUDE (until)
) PARTITION BY HASH (chat);
ALTER TABLE rows ALTER COLUMN embedding SET STORAGE MAIN;
CREATE INDEX IF NOT EXISTS rows_since ON rows USING brin (since);
CREATE INDEX IF NOT EXISTS rows_until ON rows (until) WHERE until IS NOT NULL;
DO $$ BEGIN
    FOR n IN 0 .. {PARTITIONS - 1} LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS rows_%s PARTITION OF rows FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER %s)', n, n);
    END LOOP;
END $$;
CREATE OR REPLACE VIEW current AS
    SELECT r.chat, r.chunk_id, to_timestamp(r.said_at) AS said_at, r.embedding
    FROM rows r JOIN releases s ON s.current AND r.since <= s.id AND (r.until IS NULL OR r.until > s.id);
"""
#: Of a release: the condition on its rows, and on its chats.
_OF = "since <= %(release)s AND (until IS NULL OR until > %(release)s)"
#: No release has it. Of these rows only some can be meant: ended ones, and those of a newest release that is removed.
_NOBODYS = (
    "(until IS NOT NULL OR since > %(head)s) AND NOT EXISTS (SELECT 1 FROM releases s WHERE NOT s.name = ANY(%(gone)s) "
    "AND s.id >= since AND (until IS NULL OR s.id < until))"
)


def as_text(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\x00", "\\0")


def from_text(text: str) -> str:
    """The opposite of `as_text`."""
    return "\\".join(part.replace("\\0", "\x00") for part in text.split("\\\\"))


@dataclass(frozen=True)
class OneChat:
    """What a chat has in an index. Ids as they are stored."""

    chat: str
    ids: Sequence[str]
    vectors: Vectors
    said_at: Sequence[float] | None

    @classmethod
    def of(cls, corpus: Corpus, chat_id: str) -> OneChat:
        ids, vectors = corpus.chats[chat_id]
        said_at = corpus.said_at.get(chat_id)
        times = [float(one) for one in said_at] if said_at is not None else None
        return cls(as_text(chat_id), [as_text(one) for one in ids], vectors, times)

    def digests(self, count: int = 0) -> tuple[bytes, bytes]:
        """Of its first `count` rows, and of all of them."""
        made = [hashlib.blake2b(repr((self.chat, self.vectors.shape[1], self.said_at is None)).encode())]
        made += [hashlib.blake2b(), hashlib.blake2b(), hashlib.blake2b()]
        found = list[bytes]()
        for part in (slice(0, count), slice(count, len(self.ids))):
            made[1].update("".join(f"{len(one)}:{one}" for one in self.ids[part]).encode())
            made[2].update(np.array(self.said_at[part] if self.said_at is not None else [], dtype="<f8").data)
            made[3].update(np.ascontiguousarray(self.vectors[part], dtype="<f4").data)
            found.append(hashlib.blake2b(b"".join(one.digest() for one in made), digest_size=16).digest())
        return found[0], found[1]

    def row_digest(self, row: int) -> bytes:
        made = hashlib.blake2b(repr((self.ids[row], self.time(row))).encode(), digest_size=16)
        made.update(np.ascontiguousarray(self.vectors[row], dtype="<f4").data)
        return made.digest()

    def time(self, row: int) -> float | None:
        return self.said_at[row] if self.said_at is not None else None


def exist(connection: Connection) -> bool:
    """Whether the tables are in our schema, the first in the search path; the others in it are not ours."""
    own = "split_part(current_setting('search_path'), ',', 1)"
    row = connection.execute(f"SELECT to_regclass({own} || '.rows') IS NOT NULL".encode()).fetchone()
    return bool(row and row[0])


def put(connection: Connection, schema: str, served: Served, corpus: Corpus) -> int:
    """Make a release of the corpus, in one transaction; returns how many rows were sent."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        _create(connection, schema)
        inserted = connection.execute(
            "INSERT INTO releases (name, vectors, dimensions) VALUES (%s, %s, %s) RETURNING id",
            [served.name, served.vectors, served.dimensions],
        )
        (release,) = inserted.fetchone() or (0,)
        sent = _bring_up_to(connection, int(release), corpus)
    if sent > len(corpus) * ANALYSED_FROM:
        connection.execute("ANALYZE rows")
    return sent


def _create(connection: Connection, schema: str) -> None:
    from psycopg import sql

    (there,) = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", [f'"{schema}"']).fetchone() or (False,)
    if not there:  # IF NOT EXISTS needs the right to create even if it exists
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    if not exist(connection):
        connection.execute(_TABLES.encode())


def _bring_up_to(connection: Connection, release: int, corpus: Corpus) -> int:
    """From the newest release to this one; returns how many rows were sent."""
    found = connection.execute("SELECT chat, vectors, digest FROM chats WHERE until IS NULL").fetchall()
    held = {chat: (int(count), bytes(digest)) for chat, count, digest in found}
    gone = held.keys() - {as_text(chat_id) for chat_id in corpus.chats}
    news, digests = dict[str, int | None](), dict[str, tuple[int, bytes]]()
    for chat_id in corpus.chats:
        own = OneChat.of(corpus, chat_id)
        count, digest = held.get(own.chat, (0, b""))
        first, whole = own.digests(count)
        if whole != digest:
            # Most chats only grow: then the server is not asked what it has.
            news[chat_id] = count if own.chat not in held or first == digest else None
            digests[own.chat] = (len(own.ids), whole)
    ended = [*gone, *(chat for chat in digests if chat in held)]
    connection.execute("UPDATE chats SET until = %s WHERE until IS NULL AND chat = ANY(%s)", [release, ended])
    connection.execute("UPDATE rows SET until = %s WHERE until IS NULL AND chat = ANY(%s)", [release, list(gone)])
    with connection.cursor() as cursor, cursor.copy("COPY chats (chat, since, vectors, digest) FROM STDIN") as copy:
        for chat, (count, digest) in digests.items():
            copy.write_row((chat, release, count, digest))
    sent = [_renew(connection, release, batch) for batch in _batches(corpus, news)]
    return sum(sent)


def _batches(corpus: Corpus, news: Mapping[str, int | None]) -> Iterator[list[tuple[OneChat, int | None]]]:
    """These chats, about BATCH_ROWS rows at a time, each with the number of its first new row; None if it has to be compared."""
    batch, rows = list[tuple[OneChat, int | None]](), 0
    for chat_id, start in news.items():
        own = OneChat.of(corpus, chat_id)
        batch.append((own, start))
        rows += len(own.ids) - (start or 0)
        if rows >= BATCH_ROWS:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _renew(connection: Connection, release: int, batch: Sequence[tuple[OneChat, int | None]]) -> int:
    """End the rows of these chats that are gone or changed, and send the new ones; how many were sent."""
    compared = [own.chat for own, start in batch if start is None]
    query = "SELECT chat, chunk_id, digest FROM rows WHERE until IS NULL AND chat = ANY(%s)"
    there = {(chat, chunk): digest for chat, chunk, digest in connection.execute(query, [compared])} if compared else {}
    new = list[tuple[OneChat, int, bytes]]()
    for own, start in batch:
        for row in range(start or 0, len(own.ids)):
            digest = own.row_digest(row)
            if there.get((own.chat, own.ids[row])) == digest:
                del there[own.chat, own.ids[row]]
            else:
                new.append((own, row, digest))
    if there:
        connection.execute(
            "UPDATE rows SET until = %s FROM unnest(%s::text[], %s::text[]) AS ended (chat, chunk_id) "
            "WHERE rows.until IS NULL AND rows.chat = ended.chat AND rows.chunk_id = ended.chunk_id",
            [release, [chat for chat, _ in there], [chunk for _, chunk in there]],
        )
    for first in range(0, len(new), BATCH_ROWS):
        _send(connection, release, new[first : first + BATCH_ROWS])
    return len(new)


def _send(connection: Connection, release: int, new: Sequence[tuple[OneChat, int, bytes]]) -> None:
    from pgvector import HalfVector

    command = "COPY rows (chat, chunk_id, said_at, digest, since, embedding) FROM STDIN WITH (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(command) as copy:
        copy.set_types(["text", "text", "float8", "bytea", "int4", "halfvec"])
        for own, row, digest in new:
            vector = HalfVector(own.vectors[row])
            copy.write_row((own.chat, own.ids[row], own.time(row), digest, release, vector))


def release_id(connection: Connection, served: Served) -> int | None:
    """The number of a release; None if it is gone, or has other vectors than it should."""
    if not exist(connection):
        return None
    query = "SELECT id FROM releases WHERE name = %s AND vectors = %s AND dimensions = %s AND NOT scrub"
    row = connection.execute(query, [served.name, served.vectors, served.dimensions]).fetchone()
    return int(row[0]) if row else None


def chats_of(connection: Connection, release: int) -> dict[str, tuple[int, bytes]]:
    """Chat -> its number of rows and their digest, as a release lists them."""
    query = f"SELECT chat, vectors, digest FROM chats WHERE {_OF}"
    found = connection.execute(query.encode(), {"release": release})
    return {chat: (int(count), bytes(digest)) for chat, count, digest in found}


def listed(connection: Connection, release: int) -> int:
    """The vectors of a release by its list of chats, of which there are far fewer than rows."""
    query = f"SELECT coalesce(sum(vectors), 0) FROM chats WHERE {_OF}"
    row = connection.execute(query.encode(), {"release": release}).fetchone()
    return int(row[0]) if row else 0


def counted(connection: Connection, release: int, chats: Sequence[str]) -> dict[str, int]:
    """The rows of each of these chats in a release, counted."""
    query = f"SELECT chat, count(*) FROM rows WHERE chat = ANY(%(chats)s) AND {_OF} GROUP BY chat"
    return dict(connection.execute(query.encode(), {"release": release, "chats": list(chats)}).fetchall())


def new_chats(connection: Connection, release: int) -> set[str]:
    """The chats that differ from those of the release before."""
    return {chat for (chat,) in connection.execute("SELECT chat FROM chats WHERE since = %s", [release])}


def brought(connection: Connection, release: int) -> Iterator[tuple[Any, ...]]:
    """(chat, chunk, said_at, digest, vector) of each row that came with a release."""
    query = "SELECT chat, chunk_id, said_at, digest, embedding FROM rows WHERE since = %s"
    with connection.transaction(), connection.cursor("brought", binary=True) as cursor:
        cursor.itersize = BATCH_ROWS
        yield from cursor.execute(query, [release])


_SCORED = f"SELECT chat, chunk_id, - (embedding <#> %(asked)s) FROM rows WHERE chat = %(chat)s AND {_OF}"
_NEAREST = f"{_SCORED} ORDER BY embedding <#> %(asked)s, chunk_id LIMIT %(k)s"


def scored(
    connection: Connection, release: int, chat_id: str, vector: Vectors, k: int | None = None
) -> list[tuple[str, float]]:
    """(chunk id, cosine) of the chat's k nearest, best first; of all of its rows in any order if k is None."""
    from pgvector import HalfVector

    chat = as_text(chat_id)
    given = {"asked": HalfVector(vector), "chat": chat, "release": release, "k": k}
    with connection.cursor(binary=True) as cursor:
        found = cursor.execute((_SCORED if k is None else _NEAREST).encode(), given).fetchall()
    return [(from_text(chunk) if "\\" in chunk else chunk, score) for of, chunk, score in found if of == chat]


def follow(connection: Connection, name: str) -> bool:
    """Show this release in `current`; whether it is there."""
    if not exist(connection):
        return False
    with connection.transaction():
        moved = connection.execute("UPDATE releases SET current = (name = %s) WHERE current OR name = %s", [name, name])
        there = connection.execute("SELECT 1 FROM releases WHERE name = %s", [name]).fetchone()
        return bool(moved.rowcount and there)


def names(connection: Connection) -> list[str]:
    """Of all releases, in their order."""
    if not exist(connection):
        return []
    return [name for (name,) in connection.execute("SELECT name FROM releases ORDER BY id")]


def remove(connection: Connection, is_left: Callable[[str], bool]) -> list[str]:
    """Remove these releases and the rows that only they have, from the files as well; returns their names.

    A release is listed until its rows are gone from the files, so an attempt that dies is repeated.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        gone = [name for name in names(connection) if is_left(name)]
        if not gone:
            return []
        dirty = _delete(connection, gone)
    if dirty:
        _rewrite(connection, dirty)
    connection.execute("DELETE FROM releases WHERE name = ANY(%s)", [gone])
    return gone


def _delete(connection: Connection, gone: Sequence[str]) -> list[str]:
    """Delete the rows that no other release has; the tables whose files have to be rewritten."""
    names = list(gone)
    (head,) = connection.execute("SELECT max(id) FROM releases WHERE NOT name = ANY(%s)", [names]).fetchone() or (None,)
    if head is None:
        connection.execute("TRUNCATE rows, chats")  # which removes the files
        return []
    given = {"head": head, "gone": names}
    dirty = _delete_from(connection, "rows", given) | _delete_from(connection, "chats", given)
    if connection.execute("SELECT 1 FROM releases WHERE scrub LIMIT 1").fetchone():  # an attempt died while it rewrote
        dirty |= {"chats", *(f"rows_{number}" for number in range(PARTITIONS))}
    if dirty:
        connection.execute("UPDATE releases SET scrub = true, current = false WHERE name = ANY(%s)", [names])
    return sorted(dirty)


def _delete_from(connection: Connection, table: str, given: Mapping[str, Any]) -> set[str]:
    """The table, or the partitions of it, from which rows were deleted."""
    query = f"WITH d AS (DELETE FROM {table} WHERE {_NOBODYS} RETURNING tableoid) SELECT DISTINCT tableoid::regclass::text FROM d"
    dirty = {name for (name,) in connection.execute(query.encode(), given)}
    # The newest release has what was ended by one that is removed.
    connection.execute(f"UPDATE {table} SET until = NULL WHERE until > %(head)s".encode(), given)
    return dirty


def _rewrite(connection: Connection, tables: Sequence[str]) -> None:
    """Rewrite the files of these; a lookup there waits for it."""
    connection.execute("SET statement_timeout = 0")
    connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'".encode())
    for table in tables:
        connection.execute(f"VACUUM (FULL, ANALYZE) {table}".encode())
