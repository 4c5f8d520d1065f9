"""The connection to the day store: transactions, servers and disks that fail, files on disk, and DAY_STORE_URL."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from dispatcher.memory.store import database
from dispatcher.memory.store.database import Database, reason, store_url
from dispatcher.memory.store.memories import Memories
from dispatcher.memory.store.turns import Turns
from shared.errors import StoreUnavailable
from tests.support.day.store_rows import fact, said
from tests.support.machine import wait_for
from tests.support.stores import PostgreSQL, Stores, at_once, postgresql_server
from tests.support.world import REPOSITORY


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer waits for the others however slow the machine is."""
    monkeypatch.setattr(database, "_BUSY_SECONDS", 300.0)


@pytest.mark.usefixtures("patient")
def test_writers_wait_for_each_other(stores: Stores) -> None:
    connections = [stores.open() for _ in range(4)]

    def write(number: int) -> int:
        turns, memories = Turns(connections[number]), Memories(connections[number])
        for n in range(5):
            turns.store([said(f"w{number}-{n}"), said(f"w{number}-{n}", chat="2")])
            memories.add(fact(f"{number} {n}"))
        return 5

    assert sum(map(int, map(str, at_once(write, 4)))) == 20
    assert len(Turns(connections[0]).ids("1")) == len(Turns(connections[0]).ids("2")) == 20
    assert [one.number for one in Memories(connections[0]).list("1")] == list(range(1, 21))


@pytest.mark.usefixtures("patient")
def test_a_transaction_that_reads_first_may_still_write(stores: Stores) -> None:
    connections = [stores.open() for _ in range(3)]
    for one in connections:
        Turns(one).ids("1")

    def write(number: int) -> bool:
        with connections[number].begin() as connection:
            connection.execute(text("SELECT count(*) FROM actions")).scalar_one()
            time.sleep(0.1)  # another one writes meanwhile, if it may
            connection.execute(text(f"INSERT INTO actions VALUES ('1', 't', {number}, 'k', 'o', 0)"))
        return True

    assert at_once(write, 3) == [True] * 3


def test_a_reader_does_not_wait_for_a_writer(stores: Stores) -> None:
    writer, reader = stores.open(), stores.open()
    Turns(writer).store([said("a")])
    with writer.begin() as connection:
        connection.execute(text("DELETE FROM turns"))
        assert len(Turns(reader).ids("1")) == 1, "one that waited would fail: the writer does not end before"
    assert Turns(reader).ids("1") == {}


HALF = """
import sys, time
from pathlib import Path
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import *
database = Database(sys.argv[1], Path(sys.argv[2]))
memories = Memories(database)
with database.begin() as connection:
    memories.add(Memory("1", MemoryType.FACT, "half", 1.0), connection=connection)
    print("in the middle", flush=True)
    time.sleep(60)
"""


def test_a_kill_in_the_middle_leaves_nothing_half(tmp_path: Path) -> None:
    memories = Memories(database := Database(None, tmp_path))
    memories.add(fact("whole"))
    command = [sys.executable, "-c", HALF, "", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
        assert process.stdout and process.stdout.readline() == b"in the middle\n"
        os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: memories.add(fact("after")), "the lock of the dead to be free")
    assert [one.text for one in memories.list("1")] == ["whole", "after"]
    assert [one.number for one in memories.list("1")] == [1, 2]
    database.close()


def test_a_store_that_was_half_made_is_made_anew(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(stores.open())
    with monkeypatch.context() as broken, pytest.raises(StoreUnavailable):
        broken.setattr(database, "VERSION", "x" * 33 if stores.engine == "postgresql" else object())  # cannot be stored
        turns.ids("1")
    turns.store([said("a")])
    assert set(turns.ids("1")) == {"a:user"}


def test_the_table_of_a_feature_that_was_taken_out_is_named_if_it_has_rows(stores: Stores) -> None:
    """For the receipt of a forgetting (receipt.py), which does not reach it."""
    store = stores.open()
    with store.begin() as connection:
        connection.execute(
            text("CREATE TABLE tides (chat_id TEXT, number INTEGER, uid TEXT, text TEXT, source_turn TEXT)")
        )
        connection.execute(text("CREATE TABLE others (chat_id TEXT)"))
    assert store.left_tables() == []
    with store.begin() as connection:
        connection.execute(text("INSERT INTO tides (chat_id) VALUES ('1')"))
    try:
        assert store.left_tables() == ["tides"]
    finally:
        with store.begin() as connection:
            connection.execute(text("DROP TABLE tides"))
            connection.execute(text("DROP TABLE others"))


def refusal(turns: Turns) -> bool:
    with pytest.raises(StoreUnavailable, match="does not answer") as refused:
        turns.ids("1")
    return "Check that it is running" in str(refused.value)


def test_a_server_that_is_stopped_is_taken_up_when_it_is_there_again(tmp_path: Path) -> None:
    """Whether somebody asked meanwhile or not, and by a program that was started before the server."""
    with postgresql_server() as server:
        known, early = Database(server.database(), tmp_path), Database(server.database(), tmp_path)
        Turns(known).store([said("a")])
        with known.reading(), known.reading():
            pass  # more than one connection in the pool
        server.stop()
        assert refusal(Turns(known))
        assert at_once(lambda _: refusal(Turns(early)), 4) == [True] * 4
        server.start()
        assert Turns(known).ids("1") == {"a:user": None}
        Turns(early).store([said("b")])
        server.stop()
        server.start()  # and nobody asked meanwhile: the connections in the pool are dead
        Turns(known).store([said("b")])
        known.close()
        early.close()


def test_sqlite_is_private_and_keeps_a_log(tmp_path: Path) -> None:
    database = Database(None, tmp_path / "state")
    Turns(database).store([said("a")])
    assert database.path == tmp_path / "state" / "day-store.sqlite"
    for file in (tmp_path / "state").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    with database.reading() as connection:
        found = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "busy_timeout", "foreign_keys")]  # fmt: skip
    assert found == ["wal", 5000, 1]
    database.close()


def test_a_file_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    database = Database(None, tmp_path)
    turns = Turns(database)
    turns.store([said("a")])
    for file in tmp_path.glob("day-store.sqlite*"):
        file.unlink()
    with capture_logs() as logs:
        assert turns.ids("1") == {}
    assert ["creating a new one" in line["event"] for line in logs] == [True], (
        "nobody loses what he asked to be kept in silence"
    )
    turns.store([said("b")])
    other = Database(None, tmp_path)
    assert set(Turns(other).ids("1")) == {"b:user"}
    database.close()
    other.close()


def test_what_is_not_a_database_is_said_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "day-store.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    database = Database(None, tmp_path)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="not a database"):
            Turns(database).ids("1")
    assert path.read_bytes() == b"not a database at all" * 100
    path.unlink()
    assert Turns(database).ids("1") == {}
    database.close()


def test_a_full_disk_is_said_and_passes(tmp_path: Path) -> None:
    database = Database(None, tmp_path)
    turns = Turns(database)
    turns.store([said("a")])
    with database.reading() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
    with pytest.raises(StoreUnavailable, match="full") as refused, database.begin() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")  # of this connection: SQLite's own full disk
        connection.execute(text("INSERT INTO actions VALUES ('1', 'the secret', 1, 'k', hex(zeroblob(100000)), 0)"))
    assert "the secret" not in str(refused.value)
    database.close()
    turns.store([said("b")])
    assert set(turns.ids("1")) == {"a:user", "b:user"}
    database.close()


def test_what_was_forgotten_is_not_in_the_files(tmp_path: Path) -> None:
    database = Database(None, tmp_path)
    turns, memories = Turns(database), Memories(database)
    turns.store([said(f"t{n}", f"ordinary talk number {n}") for n in range(50)])
    turns.store([said("s", "the password is Xyzzyplugh")])
    kept = memories.add(fact("Xyzzyplugh opens it"))

    def holding() -> list[str]:
        return [file.name for file in sorted(tmp_path.iterdir()) if b"xyzzyplugh" in file.read_bytes().lower()]

    assert holding()
    turns.remove("1", ["s:user"])
    memories.delete("1", kept.memory_id)
    database.scrub()
    assert holding() == []
    assert len(turns.ids("1")) == 50
    database.close()


def test_a_url_says_which_store(tmp_path: Path) -> None:
    for url in ("postgres://u:p@h/d", "postgresql://u:p@h/d", "postgresql+psycopg://u:p@h/d"):
        assert store_url(url, tmp_path).render_as_string(hide_password=False) == "postgresql+psycopg://u:p@h/d"
    default = str(tmp_path / "day-store.sqlite")
    for given, path in (("sqlite:///other.sqlite", str(tmp_path / "other.sqlite")), ("sqlite:////x/y.sqlite", "/x/y.sqlite"),
                        ("", default), (None, default)):  # fmt: skip
        assert store_url(given, tmp_path).database == path


@pytest.mark.parametrize(
    "url", ["postgresql://u:hunter2@127.0.0.1:1/d", "postgresql://u@127.0.0.1:1/d?password=hunter2&sslmode=disable"]
)
def test_errors_never_show_the_password(url: str, tmp_path: Path) -> None:
    database = Database(url, tmp_path)
    with pytest.raises(StoreUnavailable) as refused:
        Turns(database).ids("1")
    assert "hunter2" not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)
    assert "hunter2" not in database.place


@pytest.mark.parametrize("url", ["postgresql://u:hunter%402@h/d", "postgresql://u@h/d?password=hunter%402"])
def test_an_error_that_repeats_the_password_is_cut(url: str, tmp_path: Path) -> None:
    said_so = reason(OSError("no entry for hunter@2 at h\nand more"), store_url(url, tmp_path))
    assert said_so == "no entry for *** at h"


def test_a_file_that_cannot_be_opened_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "taken.sqlite").mkdir()
    with pytest.raises(StoreUnavailable) as refused:
        Turns(Database("sqlite:///taken.sqlite", tmp_path)).ids("1")
    assert "taken.sqlite cannot be used: unable to open database file. Check that its disk has" in str(refused.value)


def test_postgresql_statements_have_a_limit(server: PostgreSQL, tmp_path: Path) -> None:
    separator = "&" if "?" in server.url() else "?"
    database = Database(f"{server.database()}{separator}options=-c%20statement_timeout%3D300", tmp_path)
    with database.reading() as connection:
        assert connection.execute(text("SHOW statement_timeout")).scalar() == "300ms"  # the owner's word comes last
    with pytest.raises(StoreUnavailable, match="statement timeout"), database.reading() as connection:
        connection.execute(text("SELECT pg_sleep(5)"))
    assert Turns(database).ids("1") == {}
    database.close()
    plain = Database(server.database(), tmp_path)
    with plain.reading() as connection:
        assert connection.execute(text("SHOW statement_timeout")).scalar() == "10s"
    plain.close()
