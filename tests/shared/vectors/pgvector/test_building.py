"""The night with PostgreSQL: what is sent, which rows a release has, what is removed with one, and what a check finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable, ReleaseRefused
from shared.vectors.base import Corpus
from shared.vectors.on_server import read_served
from shared.vectors.pgvector import tables
from shared.vectors.pgvector.index import PgvectorBuilder
from shared.vectors.pgvector.server import connected
from tests.support.night.index_world import corpus_of, notes

if TYPE_CHECKING:
    from shared.vectors.pgvector.server import Connection

Build = Callable[[Corpus, int], Path]
FIRST = corpus_of({"1": notes("1", 120), "-100": notes("-100", 60), "anna": notes("anna", 3)})
#: A night later: two more in one chat, a new chat, and one that is gone.
SECOND = corpus_of({"1": notes("1", 122), "-100": notes("-100", 60), "new": notes("new", 4)})


def rows_of(looking: Connection, place: Path) -> dict[tuple[str, str], tuple[Any, ...]]:
    """All rows of a release, by chat and chunk."""
    release = tables.release_id(looking, read_served(place))
    assert release is not None
    query = f"SELECT chat, chunk_id, said_at, digest, embedding FROM rows WHERE {tables._OF}"
    found = looking.execute(query.encode(), {"release": release}).fetchall()
    made = {(chat, chunk): tuple(rest) for chat, chunk, *rest in found}
    assert len(made) == len(found) == tables.listed(looking, release)
    return made


def count(looking: Connection, what: str = "rows") -> int:
    row = looking.execute(f"SELECT count(*) FROM {what}".encode()).fetchone()
    return int(row[0]) if row else 0


def keys_of(corpus: Corpus) -> set[tuple[str, str]]:
    return {(chat, one) for chat, (ids, _) in corpus.chats.items() for one in ids}


def test_each_row_is_sent_once(settings: Settings, build: Build, looking: Connection) -> None:
    first = build(FIRST, 1)
    assert count(looking) == 183
    second = build(SECOND, 2)
    assert count(looking) == 183 + 2 + 4, "the rest is shared"
    assert (set(rows_of(looking, first)), set(rows_of(looking, second))) == (keys_of(FIRST), keys_of(SECOND))
    build(SECOND, 3)
    assert count(looking) == 189, "nothing is new"
    assert count(looking, "rows WHERE since = 3") == 0


def changed(corpus: Corpus, row: int) -> Corpus:
    """Another vector, and another time, of one chunk of the chat "1"."""
    ids, vectors = corpus.chats["1"]
    other = vectors.copy()
    other[row] = -other[row]
    times = [*corpus.said_at["1"]]
    times[row] += 1
    chats, said_at = {**corpus.chats, "1": (ids, other)}, {**corpus.said_at, "1": times}
    return Corpus(chats, corpus.repeats, said_at)


def test_a_changed_vector_is_sent_and_the_earlier_release_keeps_its_own(build: Build, looking: Connection) -> None:
    first = build(FIRST, 1)
    before = rows_of(looking, first)
    second = build(changed(FIRST, 7), 2)
    assert count(looking) == 184
    assert rows_of(looking, first) == before
    after = rows_of(looking, second)
    assert {key for key in before if before[key] != after[key]} == {("1", "1/7")}


def test_a_release_takes_what_nobody_else_has_along(settings: Settings, build: Build, looking: Connection) -> None:
    """The oldest, one in the middle, the newest, and then all."""
    places = [build(corpus, run) for run, corpus in enumerate((FIRST, SECOND, changed(SECOND, 3), FIRST, SECOND), 1)]
    names = [read_served(place).name for place in places]
    kept = {run: rows_of(looking, places[run - 1]) for run in (2, 4)}
    builder = PgvectorBuilder(settings, 5)
    for gone, left in (([0], [1, 2, 3, 4]), ([2], [1, 3, 4]), ([4], [1, 3])):
        assert builder.sweep([names[one] for one in left]) == [names[one] for one in gone]
        assert {run: rows_of(looking, places[run - 1]) for run in kept} == kept
        assert all(tables.release_id(looking, read_served(places[one])) is None for one in gone)
    nobodys = "rows r WHERE NOT EXISTS (SELECT 1 FROM releases s WHERE s.id >= r.since AND (r.until IS NULL OR s.id < r.until))"
    assert count(looking, nobodys) == 0
    assert count(looking, "rows WHERE until > (SELECT max(id) FROM releases)") == 0, "the newest release has them"
    build(SECOND, 6)
    assert builder.sweep([]) == [names[1], names[3], read_served(places[0].parents[1] / "6" / places[0].name).name]
    assert count(looking) == count(looking, "chats") == 0


def test_what_was_removed_is_in_no_file(settings: Settings, build: Build, looking: Connection) -> None:
    """Rewritten, not only deleted: PostgreSQL leaves a deleted row's bytes on its page. Only the partition concerned is rewritten."""
    gone = "1/forgotten-seven"
    ids, vectors = FIRST.chats["1"]
    build(replace(FIRST, chats={**FIRST.chats, "1": ([*ids[:-1], gone], vectors)}), 1)
    second = build(FIRST, 2)
    files = "SELECT relname, pg_relation_filenode(oid) FROM pg_class WHERE relname LIKE 'rows\\_%' AND relkind = 'r'"
    before: dict[str, int] = dict(looking.execute(files))
    assert _in_files(looking, gone)
    PgvectorBuilder(settings, 2).sweep([read_served(second).name])
    assert not _in_files(looking, gone)
    assert len([name for name, node in looking.execute(files) if before[name] != node]) == 1


def _in_files(looking: Connection, text: str) -> bool:
    """Whether a file of a table or index has these bytes."""
    looking.execute("CHECKPOINT")
    query = (
        "SELECT pg_read_binary_file(pg_relation_filepath(oid)) FROM pg_class "
        "WHERE relkind IN ('r', 'i', 't') AND relname ~ '^(rows|chats|releases)' AND pg_relation_filepath(oid) IS NOT NULL"
    )
    return any(text.encode() in content for (content,) in looking.execute(query))


def test_a_removal_that_dies_before_the_files_are_rewritten_is_repeated(
    settings: Settings, build: Build, looking: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a reader of the table is in its way for too long."""
    first, second = build(FIRST, 1), build(SECOND, 2)
    names = [read_served(place).name for place in (first, second)]
    builder = PgvectorBuilder(settings, 2)
    monkeypatch.setattr(tables, "LOCK_SECONDS", 1)
    with connected(settings, 30) as reader, reader.transaction():
        reader.execute("SELECT count(*) FROM rows")
        with pytest.raises(IndexServerUnavailable, match="lock timeout"):
            builder.sweep(names[1:])
    assert builder.left_over(names[1:]) == names[:1], "it is not done"
    assert tables.release_id(looking, read_served(first)) is None, "nobody opens it"
    assert builder.sweep(names[1:]) == names[:1]
    assert not _in_files(looking, "anna/2")


def test_an_attempt_that_fails_leaves_nothing(
    settings: Settings, build: Build, looking: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the connection in the middle of the rows."""
    build(FIRST, 1)
    send, sent = tables._send, list[int]()

    def ended(connection: Connection, release: int, new: Any) -> None:
        sent.append(len(new))
        if len(sent) == 3:
            looking.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
        send(connection, release, new)

    monkeypatch.setattr(tables, "_send", ended)
    monkeypatch.setattr(tables, "BATCH_ROWS", 50)
    with pytest.raises(IndexServerUnavailable, match="does not answer"):
        PgvectorBuilder(settings, 2).build(tmp_path / "2.json", corpus_of({"big": notes("big", 200)}))
    assert sent == [50, 50, 50]
    assert (count(looking), count(looking, "releases"), count(looking, "chats")) == (183, 1, 3)
    assert not (tmp_path / "2.json").exists()
    monkeypatch.undo()
    build(corpus_of({"big": notes("big", 200)}), 3)


DAMAGE = {
    "a row is lost": ("DELETE FROM rows WHERE chunk_id = '1/5'", "119 of 120"),
    "another chat's row": ("UPDATE rows SET chat = 'anna' WHERE chunk_id = '1/5'", r"\d+ of \d+"),
    "another vector": (
        "UPDATE rows SET embedding = (SELECT embedding FROM rows WHERE chunk_id = '1/6') WHERE chunk_id = '1/5'",
        "another vector as chunk 1/5",
    ),
    "another time": ("UPDATE rows SET said_at = 1e9 WHERE chunk_id = '1/5'", "another vector as chunk 1/5"),
    "another chunk": ("UPDATE rows SET chunk_id = '1/x' WHERE chunk_id = '1/5'", "another vector as chunk 1/x"),
    "a chat is not listed": ("DELETE FROM chats WHERE chat = 'anna'", "other chats"),
    "no such release": ("DELETE FROM releases", "has no vectors"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_not_as_it_was_given_is_refused(
    settings: Settings, build: Build, looking: Connection, tmp_path: Path, damage: str
) -> None:
    place, (statement, why) = build(FIRST, 1), DAMAGE[damage]
    looking.execute(statement.encode())
    with pytest.raises(ReleaseRefused, match=why):
        PgvectorBuilder(settings, 1).check(place, tmp_path / "scratch", FIRST)


def test_other_programs_see_the_release_that_the_alias_follows(
    settings: Settings, build: Build, looking: Connection
) -> None:
    first, second = build(FIRST, 1), build(SECOND, 2)
    builder = PgvectorBuilder(settings, 2)
    assert count(looking, "current") == 0
    for place, corpus in ((first, FIRST), (second, SECOND), (second, SECOND), (first, FIRST)):
        builder.follow(place)
        seen = looking.execute("SELECT chat, chunk_id, said_at, embedding FROM current").fetchall()
        assert {(chat, chunk) for chat, chunk, *_ in seen} == keys_of(corpus)
    builder.sweep([])
    with pytest.raises(ReleaseRefused, match="has no vectors"):
        builder.follow(first)


def test_another_model_has_other_dimensions(build: Build, looking: Connection) -> None:
    """Long vectors too are in the row, not beside it, where each would be another read."""
    first = build(FIRST, 1)
    made = np.random.default_rng(1).standard_normal((40, 1536)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    second = build(Corpus({"1": ([f"1/{row}" for row in range(40)], made)}), 2)
    assert {len(rows_of(looking, place)) for place in (first, second)} == {183, 40}
    beside = "SELECT sum(pg_relation_size(reltoastrelid)) FROM pg_class WHERE relname LIKE 'rows\\_%' AND relkind = 'r'"
    assert looking.execute(beside).fetchone() == (0,)


@given(st.text())
def test_every_id_comes_back(name: str) -> None:
    stored = tables.as_text(name)
    assert "\x00" not in stored
    assert tables.from_text(stored) == name


@given(st.lists(st.text(alphabet="a\\0\x00"), min_size=2, max_size=2, unique=True))
def test_no_two_ids_become_one(names: list[str]) -> None:
    assert tables.as_text(names[0]) != tables.as_text(names[1])
