"""Encryption at rest of the day store, on both engines: no word in the files, stores from before it, and keys that are gone."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from dispatcher.memory.store.actions import Actions
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories
from dispatcher.memory.store.schedules import Schedule, ScheduleKind, Schedules
from dispatcher.memory.store.sealed import at_rest
from dispatcher.memory.store.sealed.columns import as_stored
from dispatcher.memory.store.summaries import Summaries
from dispatcher.memory.store.tables import metadata
from dispatcher.memory.store.turns import StoredTurn, Turns
from shared.errors import EncryptionKeyMissing, StoreUnavailable
from shared.system.keys import sealing
from shared.system.keys.sealing import Sealing, chat_key
from shared.turns.records import Turn
from tests.support.day.store_rows import NOW, contents, fact, said, summary
from tests.support.stores import PostgreSQL, Stores, use_new_key
from tests.support.world import REPOSITORY

#: A word in every column that has some; none is part of an id.
SECRETS = ["zanzibar", "quokka", "жираф", "vermilion", "lighthouse", "obelisk", "tangerine", "walrus", "marzipan"]
VECTOR = bytes(range(7, 263 - 7))


@pytest.fixture(params=["sqlite", "postgresql"])
def plain(request: pytest.FixtureRequest, tmp_path: Path, server: PostgreSQL) -> Iterator[Stores]:
    """An empty store; encryption is off."""
    made = Stores(request.param, tmp_path, server)
    yield made
    made.close()
    sealing.use(None)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "encrypt.key"


def fill(database: Database, chat: str, *, more: int = 0) -> None:
    """A row of every kind, with a word in every column that has some."""
    first = said(f"a{chat}", "zanzibar", chat, name="quokka", extra={"x": "жираф"}, embedding=VECTOR)
    Turns(database).store([first, *(said(f"m{n}", f"vermilion {n}", chat, NOW + 1) for n in range(more))])
    Summaries(database).store(summary(f"a{chat}:user", chat=chat, embedding=VECTOR))
    memory = fact("vermilion", chat, category="lighthouse", name="obelisk", user_id="7", wordings=("tangerine",))
    memories = Memories(database)
    stored = memories.add(chat, memory)
    memories.update_embedding(chat, stored.memory_id, VECTOR, "m")
    Schedules(database).add(Schedule(chat, ScheduleKind.REMINDER, "walrus", "UTC", NOW, NOW, name="quokka"))
    Actions(database).apply_once(chat, "t", 1, "fact", lambda _: "marzipan", now=NOW)


def texts_of(database: Database, chat: str) -> list[object]:
    """Everything that `fill` wrote, as it is read."""
    turn = Turns(database).named(chat, [f"a{chat}:user"])
    memory = Memories(database).list(chat)
    return [
        [(one.turn.content, one.turn.name, one.turn.extra, one.embedding) for one in turn],
        [(one.text, one.embedding) for one in Summaries(database).list(chat, 9)],
        [(one.text, one.category, one.name, one.wordings, one.embedding) for one in memory],
        [(one.text, one.name) for one in Schedules(database).every(chat)],
        [row[3] for row in Actions(database).every(chat)],
    ]


ALL = [
    [("zanzibar", "quokka", {"x": "жираф"}, VECTOR)],
    [("in short", VECTOR)],
    [("vermilion", "lighthouse", "obelisk", ("tangerine",), VECTOR)],
    [("walrus", "quokka")],
    ["marzipan"],
]
NOTHING: list[object] = [[], [], [], [], []]


def destroy(keys: Sealing) -> None:
    """As `hmem forget` does with chat 1."""
    ids = keys.ids_of([chat_key("1")])
    keys.retire(ids)
    keys.destroy(ids)


def bytes_of(stores: Stores) -> bytes:
    """Everything that is stored: SQLite's files as they are, PostgreSQL's rows."""
    if stores.engine == "sqlite":
        return b"".join(path.read_bytes() for path in stores.folder.rglob("*") if path.is_file())
    found = b""
    with psycopg.connect(stores.url) as connection:
        for table in ("turns", "summaries", "memories", "schedules", "actions"):
            with connection.cursor().copy(f"COPY {table} TO STDOUT".encode()) as copy:
                found += b"".join(bytes(block) for block in copy)
    return found


def write(database: Database) -> None:
    """A transaction that writes, and changes nothing."""
    Actions(database).prune(0.0)


def words_in(stores: Stores) -> set[str]:
    found = bytes_of(stores)
    escaped = found.replace(VECTOR, b"a vector") + (b"a vector" if VECTOR.hex().encode() in found else b"")
    return {
        one
        for one in [*SECRETS, "in short", "a vector"]
        if one.encode() in escaped or ascii(one)[1:-1].encode() in escaped
    }


def test_the_scan_sees_every_word_where_encryption_is_off(plain: Stores) -> None:
    fill(plain.open(), "1")
    assert words_in(plain) == {*SECRETS, "in short", "a vector"}


def test_no_word_is_in_the_files_and_all_is_read_as_it_was(plain: Stores, key_file: Path) -> None:
    use_new_key(key_file.parent)
    fill(plain.open(), "1")
    assert words_in(plain) == set()
    assert texts_of(plain.open(), "1") == ALL


@pytest.mark.parametrize("killed", [False, True])
def test_a_plain_store_is_sealed_by_the_first_write_and_leaves_no_word(
    plain: Stores, key_file: Path, killed: bool
) -> None:
    database = plain.open()
    fill(database, "1", more=700)
    Turns(database).store([said("gone", "obelisk obelisk", "1")])
    Turns(database).remove("1", ["gone:user"])
    database.close()
    use_new_key(key_file.parent)
    if killed:
        assert open_in_a_child(plain, key_file, "store:sealed-some") == -signal.SIGKILL
    opened = plain.open()
    assert texts_of(opened, "1") == ALL
    assert len(Turns(opened).ids("1")) == 701
    assert "zanzibar" in words_in(plain) or killed, "who reads changes nothing"
    write(opened)
    assert texts_of(opened, "1") == ALL
    assert words_in(plain) == set()
    with opened.reading() as connection:
        assert at_rest.sample(connection, 1000)[1] == 0
    began = time.monotonic()
    write(plain.open())
    assert time.monotonic() - began < 1, "the second time nothing is sealed"


OPENING = """
import sys
from pathlib import Path
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.actions import Actions
from shared.config.settings import load_settings
from shared.system import faults
from shared.system.keys import sealing
faults.arm(load_settings(hmem_crash_at=sys.argv[4]))
sealing.use(lambda: sealing.Sealing(Path(sys.argv[3]), "day"))
Actions(Database(sys.argv[1], Path(sys.argv[2]))).prune(0.0)
"""


def open_in_a_child(stores: Stores, key_file: Path, crash_at: str) -> int:
    command = [sys.executable, "-c", OPENING, stores.url, str(stores.folder), str(key_file), crash_at]
    return subprocess.run(command, cwd=REPOSITORY, check=False, env={**os.environ, "DAY_STORE_URL": ""}).returncode


def test_without_the_key_the_store_is_away_and_says_why(plain: Stores, key_file: Path) -> None:
    use_new_key(key_file.parent)
    fill(plain.open(), "1")
    for said_so in ("ENCRYPT_KEY_FILE is not set", "cannot be read"):
        sealing.use(None)
        if said_so == "cannot be read":
            key_file.unlink()
            sealing.use(lambda: Sealing(key_file, "day"))
        with pytest.raises(StoreUnavailable, match=said_so) as caught:
            Turns(plain.open()).get_recent("1", 9, 9, now=NOW)
        assert isinstance(caught.value, EncryptionKeyMissing)
        assert caught.value.exit_code == 53


def test_a_row_cannot_be_moved_to_another_column(plain: Stores, key_file: Path) -> None:
    use_new_key(key_file.parent)
    database = plain.open()
    fill(database, "1")
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE turns SET content = name")
    with pytest.raises(StoreUnavailable, match="damaged"):
        Turns(database).named("1", ["a1:user"])


def test_a_destroyed_key_takes_its_chat_and_nothing_else(plain: Stores, key_file: Path) -> None:
    use_new_key(key_file.parent)
    database = plain.open()
    fill(database, "1", more=3)
    fill(database, "2")
    destroy(sealing.keys())
    assert texts_of(database, "1") == NOTHING
    assert texts_of(database, "2") == ALL
    everywhere = [
        Turns(database).every(),
        Memories(database).every(),
        Summaries(database).every(),
        Schedules(database).every(),
    ]
    assert [len(list(rows)) for rows in everywhere] == [1, 1, 1, 1]
    assert contents(Turns(database).needing_embedding("m", 9)) == ["zanzibar"]
    assert not any("vermilion 1" in text for _, text in database.rows_as_text())
    fill(database, "1")  # the chat goes on with another key, also under the same ids
    assert texts_of(database, "1")[0] == ALL[0]
    removed = at_rest.remove_gone(database.begin, "1")
    assert removed == {"turns": 3, "memories": 1, "schedules": 1, "summaries": 1}
    assert at_rest.remove_gone(database.begin, "2") == {}


def test_what_was_written_under_a_retired_key_can_be_kept(plain: Stores, key_file: Path) -> None:
    use_new_key(key_file.parent)
    database = plain.open()
    fill(database, "1")
    retired = sealing.keys().ids_of([chat_key("1")])
    sealing.keys().retire(retired)
    assert at_rest.reseal(database.begin, "1", retired) == 5
    sealing.keys().destroy(retired)
    assert texts_of(database, "1") == ALL
    assert at_rest.remove_gone(database.begin, "1") == {}


def test_another_process_that_writes_uses_no_retired_key(plain: Stores, key_file: Path) -> None:
    use_new_key(key_file.parent)
    database = plain.open()
    fill(database, "1")
    other = Sealing(key_file, "day")  # as another process has it
    destroy(other)
    Turns(database).store([said("later", "walrus", "1")])
    use_again = Sealing(key_file, "day")
    sealing.use(lambda: use_again)
    assert contents(Turns(plain.open()).named("1", ["later:user"])) == ["walrus"]


def test_a_vector_stays_with_the_same_text_and_comes_after_a_change_of_keys(plain: Stores, key_file: Path) -> None:
    use_new_key(key_file.parent)
    turns = Turns(plain.open())
    turns.store([said("a", "zanzibar", embedding=VECTOR, embedding_model="m")])
    turns.store([said("a", "zanzibar")])
    assert turns.named("1", ["a:user"])[0].embedding == VECTOR
    turns.store([said("b", "quokka")])
    sealing.keys().retire(sealing.keys().ids_of([chat_key("1")]))  # what is stored has the earlier key
    assert turns.update_embedding("1", "b:user", VECTOR, "m", content="quokka")
    assert not turns.update_embedding("1", "b:user", VECTOR, "m", content="another text")
    assert turns.named("1", ["b:user"])[0].embedding == VECTOR


def test_words_that_look_sealed_are_words(plain: Stores, key_file: Path) -> None:
    forged = sealing.TEXT_MARK + "AGhtc2VhbDEAAAAAAAAAAAAAAAA="
    Turns(plain.open()).store([StoredTurn(Turn("before", "user", "1", forged, NOW))])
    use_new_key(key_file.parent)
    turns = Turns(plain.open())
    turns.store([StoredTurn(Turn("after", "user", "1", forged, NOW + 1))])
    assert contents(turns.get_recent("1", 9, 9, now=NOW)) == ["\ufffd" + forged[1:], forged]


def test_the_copy_of_a_migration_goes_when_the_store_is_sealed(tmp_path: Path, key_file: Path) -> None:
    database = Database("", tmp_path / "state")
    fill(database, "1")
    database.close()
    path = tmp_path / "state" / "day-store.sqlite"
    copy = path.with_name(f"{path.name}.before-0004")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    use_new_key(key_file.parent)
    try:
        write(Database("", tmp_path / "state"))
    finally:
        sealing.use(None)
    assert not copy.exists()


def test_rows_are_copied_between_stores_as_they_are_stored(plain: Stores, key_file: Path, tmp_path: Path) -> None:
    use_new_key(key_file.parent)
    database, copy = plain.open(), Database("", tmp_path / "copy")
    fill(database, "1")
    with as_stored(), database.reading() as read, copy.begin() as write:
        for table in metadata.sorted_tables:
            if rows := [dict(row) for row in read.execute(sa.select(table)).mappings()]:
                write.execute(sa.insert(table), rows)
    assert texts_of(copy, "1") == ALL
    copy.close()
    files = [path for path in (tmp_path / "copy").iterdir() if path.is_file()]
    assert not any(b"zanzibar" in path.read_bytes() for path in files)
