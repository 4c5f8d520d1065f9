"""The day store's revisions: a new store, and from one revision to the next with data in it, on both engines, by several processes at once."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, text

from dispatcher.memory.store.actions import Actions
from dispatcher.memory.store.database import Database, store_url
from dispatcher.memory.store.memories import Memories, Memory, MemoryType
from dispatcher.memory.store.migrations import migrate
from dispatcher.memory.store.schedules import Schedule, ScheduleKind, Schedules
from dispatcher.memory.store.summaries import Summaries
from dispatcher.memory.store.tables import HEAD, REVISIONS, VERSION_TABLE
from dispatcher.memory.store.turns import Turns
from shared.errors import StoreUnavailable
from tests.support.machine import wait_for
from tests.support.stores import Stores
from tests.support.world import REPOSITORY

NOW = 1_800_000_000.0
#: A revision that is still to come.
NEXT = "9999"
SCRIPT = f"""
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{NEXT}", "{HEAD}"
def upgrade():
    op.add_column("actions", sa.Column("note", sa.Text))
    op.create_table("more", sa.Column("id", sa.Text, primary_key=True))
"""


@pytest.fixture
def engine(stores: Stores) -> Iterator[Engine]:
    """The empty store, without any of our connection's settings."""
    stores.folder.mkdir()
    made = create_engine(store_url(stores.url, stores.folder))
    yield made
    made.dispose()


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the migrations of a program that has one revision more; it is the one that runs here."""
    folder = tmp_path / "migrations of the next version"
    shutil.copytree(migrate.MIGRATIONS, folder)
    (folder / "versions" / "r9999_next.py").write_text(SCRIPT)
    monkeypatch.setattr(migrate, "MIGRATIONS", folder)
    monkeypatch.setattr(migrate, "REVISIONS", (*REVISIONS, NEXT))
    monkeypatch.setattr(migrate, "HEAD", NEXT)
    return folder


def write_as_of(engine: Engine) -> None:
    """A store as the program of this revision left it: its tables, and rows in each of them by plain SQL."""
    with engine.begin() as connection:
        migrate.create(connection, HEAD)
        rows: list[tuple[str, dict[str, Any]]] = [
            ("chats", {"chat_id": "-1", "epoch": "e", "turns_changed": 7, "last_memory": 2}),
            *(("turns", _turn(chat, n)) for chat in ("-1", "2") for n in range(5)),
            ("summaries", {"summary_id": "u", "chat_id": "-1", "session": "s", "text": "in short", "started_at": NOW, "ended_at": NOW,
                           "created_at": NOW, "turn_ids": '["t0:user","t1:user"]', "last_turn": "t1:user", "tier": "long", "tokens": 9}),
            *(("memories", {"chat_id": "-1", "number": n, "type": "goal", "text": f"goal {n}", "created": NOW, "deadline": due})
              for n, due in ((1, None), (2, NOW))),
            ("actions", {"chat_id": "-1", "task_id": "t", "number": 1, "kind": "fact", "outcome": "noted", "at": NOW}),
            ("schedules", {"chat_id": "-1", "number": 1, "kind": "reminder", "user_id": "7", "text": "Brot", "rule": "weekly:0",
                           "clock": "09:00", "zone": "Europe/Berlin", "due": NOW, "created": NOW}),
        ]  # fmt: skip
        for table, values in rows:
            names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), values)


def _turn(chat: str, n: int) -> dict[str, Any]:
    return {
        "chat_id": chat, "turn_id": f"t{n}:user", "task_id": f"t{n}", "role": "user", "content": f"Привет {n} of {chat}", "timestamp": NOW + n,
        "name": "Ann", "session": "s", "extra": '{"x": 1}', "user_id": "7",
        "embedding": bytes(range(256)), "embedding_model": "m",
    }  # fmt: skip


def check_all_there(database: Database) -> None:
    turns, memories = Turns(database), Memories(database)
    for chat in ("-1", "2"):
        found = turns.get_recent(chat, 1, 99, now=NOW)
        assert [(one.turn.content, one.turn.turn_id) for one in found] == [(f"Привет {n} of {chat}", f"t{n}:user") for n in range(5)]  # fmt: skip
        assert {(one.embedding, one.turn.name, one.turn.extra["x"]) for one in found} == {(bytes(range(256)), "Ann", 1)}
        assert {one.turn.user_id for one in found} == {"7"}
    assert turns.revisions("-1").turns == "e.7"
    goals = [(f"goal {number}", number, MemoryType.GOAL, 3) for number in (1, 2)]
    assert [(one.text, one.number, one.type, one.importance) for one in memories.list("-1")] == goals
    (summary,) = Summaries(database).list("-1", 9)
    assert (summary.text, summary.turn_ids, summary.tier) == ("in short", ("t0:user", "t1:user"), "long")
    assert [one.number for one in memories.due(NOW, 9)] == [2]
    assert [(one.superseded_by, one.superseded_at, one.wordings) for one in memories.list("-1")] == [(None, None, ())] * 2  # fmt: skip
    assert [one.text for one in Schedules(database).due(NOW, 9)] == ["Brot"]
    assert Actions(database).apply_once("-1", "t", 1, "fact", lambda _: "again") == "noted"


def check_usable(database: Database) -> None:
    """What the newest version writes goes in beside what was there."""
    turns, memories = Turns(database), Memories(database)
    (old,) = turns.get_recent("2", 1, 1, now=NOW)
    assert turns.store([old]) == 0
    assert turns.remove("-1", ["t0:user"]) == 1
    assert len(turns.ids("-1")) == 4
    new = memories.add("-1", Memory("-1", MemoryType.GOAL, "new", NOW, deadline=NOW))
    assert new.number == 3
    assert memories.mark_reminded("-1", new.memory_id, NOW)
    planned = Schedules(database).add(Schedule("2", ScheduleKind.REMINDER, "tea", "UTC", NOW + 1, NOW))
    assert Schedules(database).of_chat("2") == [planned]


def test_from_the_version_before_with_data_in_it(stores: Stores, engine: Engine, next_version: Path) -> None:
    write_as_of(engine)
    database = stores.open()
    check_all_there(database)
    check_usable(database)
    with engine.connect() as connection:
        assert migrate.revision(connection) == NEXT
        assert connection.execute(text("SELECT note FROM actions")).scalars().all() == [None]
    copies = [path.name for path in stores.folder.glob("*before*")]
    assert copies == ([f"day-store.sqlite.before-{NEXT}"] if stores.engine == "sqlite" else [])


def test_the_listed_revisions_are_those_of_the_scripts() -> None:
    scripts = ScriptDirectory(str(migrate.MIGRATIONS))
    assert tuple(one.revision for one in reversed(list(scripts.walk_revisions()))) == REVISIONS


def test_a_newer_store_is_refused_and_left_as_it_is(stores: Stores, engine: Engine) -> None:
    write_as_of(engine)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{NEXT}'"))
    database = stores.open()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=rf"{NEXT}.*Upgrade this program"):
            Turns(database).ids("2")
    assert list(stores.folder.glob("*before*")) == []
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{HEAD}'"))
    check_all_there(database)


OPEN = """
import sys, time
from pathlib import Path
from dispatcher.memory.store.migrations import migrate
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.turns import Turns
from dispatcher.memory.store.memories import Memories, Memory, MemoryType
migrate.MIGRATIONS, migrate.HEAD = Path(sys.argv[3]), sys.argv[4]
migrate.REVISIONS += (migrate.HEAD,)
print("ready", flush=True)
sys.stdin.readline()
database = Database(sys.argv[1], Path(sys.argv[2]))
Memories(database).add("x", Memory("x", MemoryType.FACT, "y", 1.0))
print(len(Turns(database).ids("2")), "alembic" in sys.modules, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("revision", [None, HEAD])
def test_processes_that_migrate_at_once(
    stores: Stores, engine: Engine, next_version: Path, revision: str | None
) -> None:
    if revision:
        write_as_of(engine)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    opening = [sys.executable, "-c", OPEN, stores.url, str(stores.folder), str(next_version), NEXT]
    processes = [subprocess.Popen(opening, cwd=REPOSITORY, text=True, **pipes) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=6000) for process in processes]
    assert [error for _, error in ended] == [""] * 4
    assert {out.split()[0] for out, _ in ended} == {"5" if revision else "0"}
    assert [out.split()[1] for out, _ in ended].count("True") == bool(revision), (
        "one migrates; the others load nothing for it"
    )
    assert [one.number for one in Memories(stores.open()).list("x")] == [1, 2, 3, 4]


KILLED = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import event
from dispatcher.memory.store.migrations import migrate
from dispatcher.memory.store.database import Database
migrate.MIGRATIONS, migrate.HEAD = Path(sys.argv[3]), sys.argv[4]
migrate.REVISIONS += (migrate.HEAD,)
database = Database(sys.argv[1], Path(sys.argv[2]))
made = database._new_engine
def new_engine():
    engine = made()
    @event.listens_for(engine, "before_cursor_execute")
    def look(connection, cursor, statement, *rest):
        if "CREATE TABLE more" in statement or "CREATE TABLE turns" in statement:  # half of the work is done
            os.kill(os.getpid(), signal.SIGKILL)
    return engine
database._new_engine = new_engine
database.begin().__enter__()
"""


@pytest.mark.parametrize("revision", [None, HEAD])
def test_a_kill_in_mid_migration_leaves_the_store_as_it_was(
    stores: Stores, engine: Engine, next_version: Path, revision: str | None
) -> None:
    if revision:
        write_as_of(engine)
    line = [sys.executable, "-c", KILLED, stores.url, str(stores.folder), str(next_version), NEXT]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, check=False, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    def as_it_was() -> bool:
        with engine.connect() as connection:
            there = [connection.dialect.has_table(connection, name) for name in ("turns", "more")]
            return migrate.revision(connection) == revision and there == [revision is not None, False]

    wait_for(as_it_was, "the dead process's transaction to end")
    if revision:
        check_all_there(stores.open())
    else:
        assert Turns(stores.open()).ids("2") == {}


def test_the_copy_before_a_migration_is_whole_and_the_only_one(tmp_path: Path, next_version: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    engine = create_engine(store_url("", state))
    write_as_of(engine)
    engine.dispose()
    (state / "day-store.sqlite.before-0002").write_bytes(b"of an earlier migration")
    (state / f".day-store.sqlite.before-{NEXT}.tmp").write_bytes(b"cut short")
    database = Database(None, state)
    Memories(database).count("2")
    (copy,) = state.glob("*before*")
    assert copy.name == f"day-store.sqlite.before-{NEXT}"
    assert list(state.glob(".*before*")) == []
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as raw:
        assert raw.execute("SELECT count(*) FROM turns").fetchone() == (10,)
        assert raw.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() == (HEAD,)
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_no_copy_no_migration(tmp_path: Path, next_version: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    engine = create_engine(store_url("", state))
    write_as_of(engine)
    (state / f".day-store.sqlite.before-{NEXT}.tmp").mkdir()  # in the copy's way
    database = Database(None, state)
    with pytest.raises(StoreUnavailable):
        Turns(database).ids("2")
    with engine.connect() as connection:
        assert migrate.revision(connection) == HEAD
    os.rmdir(state / f".day-store.sqlite.before-{NEXT}.tmp")  # noqa: PTH106
    check_all_there(database)
    engine.dispose()
    database.close()
