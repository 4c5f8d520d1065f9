"""The medium store's revisions: from every earlier one with data in it, on both engines, by several processes at once."""

from __future__ import annotations

import os
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
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, text

from dispatcher.memory.store import migrate
from dispatcher.memory.store.actions import Actions
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories, MemoryType
from dispatcher.memory.store.place import store_url
from dispatcher.memory.store.summaries import Summaries
from dispatcher.memory.store.tables import HEAD, REVISIONS, VERSION_TABLE, metadata
from dispatcher.memory.store.turns import Turns
from dispatcher.memory.store.words import indexed_words
from shared.errors import StoreUnavailable
from tests.support.machine import wait_for
from tests.support.stores import PostgreSQL, Stores
from tests.support.world import REPOSITORY

EARLIER = REVISIONS[:-1]
NOW = 1_800_000_000.0


@pytest.fixture
def engine(stores: Stores) -> Iterator[Engine]:
    """The empty store, without any of our connection's settings."""
    stores.folder.mkdir()
    made = create_engine(store_url(stores.url, stores.folder))
    yield made
    made.dispose()


def script() -> ScriptDirectory:
    return ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))


def write_as_of(engine: Engine, revision: str) -> None:
    """A store as the program of that revision left it: its tables, and rows in each of them by plain SQL."""
    with engine.begin() as connection:
        migrate.upgrade(connection, revision)
        rows: list[tuple[str, dict[str, Any]]] = [
            ("chats", {"chat_id": "-1", "epoch": "e", "turns_changed": 7}),
            *(("turns", _turn(chat, n, revision)) for chat in ("-1", "2") for n in range(5)),
        ]
        if revision >= "0002":
            rows += [("summaries", _summary()), ("memories", _memory(1)), ("memories", _memory(2, deadline=NOW))]
        if revision >= "0003":
            rows.append(("actions", {"chat_id": "-1", "task_id": "t", "number": 1, "kind": "fact", "outcome": "noted", "at": NOW}))  # fmt: skip
        for table, values in rows:
            names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), values)
        if revision >= "0002":
            connection.execute(text("UPDATE chats SET last_memory = 2 WHERE chat_id = '-1'"))


def with_user_ids(revision: str) -> bool:
    return REVISIONS.index(revision) >= REVISIONS.index("0005")


def _turn(chat: str, n: int, revision: str) -> dict[str, Any]:
    content = f"Привет {n} of {chat}"
    whose = {"user_id": "7"}
    if not with_user_ids(revision):  # the name stood where the id belongs
        whose = {"channel_type": "telegram", "channel": chat, "user_id": "Ann"}
    return whose | {
        "chat_id": chat, "turn_id": f"t{n}:user", "task_id": f"t{n}", "role": "user", "content": content, "timestamp": NOW + n,
        "name": "Ann", "session": "s", "extra": '{"x": 1}',
        "embedding": bytes(range(256)), "embedding_model": "m", "words": indexed_words(chat, content),
    }  # fmt: skip


def _summary() -> dict[str, Any]:
    return {
        "summary_id": "u", "chat_id": "-1", "session": "s", "text": "in short", "started_at": NOW, "ended_at": NOW, "created_at": NOW,
        "turn_ids": '["t0:user","t1:user"]', "last_turn": "t1:user", "tier": "long", "tokens": 9,
    }  # fmt: skip


def _memory(number: int, **more: Any) -> dict[str, Any]:
    body = f"goal {number}"
    return {"chat_id": "-1", "number": number, "type": "goal", "text": body, "created": NOW, "words": indexed_words("-1", body), **more}  # fmt: skip


def check_all_there(database: Database, revision: str) -> None:
    turns, memories = Turns(database), Memories(database)
    for chat in ("-1", "2"):
        found = turns.get_recent(chat, 1, 99, now=NOW)
        assert [(one.turn.content, one.turn.turn_id) for one in found] == [(f"Привет {n} of {chat}", f"t{n}:user") for n in range(5)]  # fmt: skip
        assert {(one.embedding, one.turn.name, one.turn.extra["x"]) for one in found} == {(bytes(range(256)), "Ann", 1)}
        assert {one.turn.user_id for one in found} == {"7" if with_user_ids(revision) else None}
        assert len(turns.search(chat, "приветы", 99)) == 5
    assert turns.revision("-1") == "e.7"
    if revision >= "0002":
        goals = [(f"goal {number}", number, MemoryType.GOAL, 3) for number in (1, 2)]
        assert [(one.text, one.number, one.type, one.importance) for one in memories.list("-1")] == goals
        assert [one.number for one in memories.search("-1", "goals", 9)] == [2, 1]
        (summary,) = Summaries(database).list("-1", 9)
        assert (summary.text, summary.turn_ids, summary.tier) == ("in short", ("t0:user", "t1:user"), "long")
        assert [one.number for one in memories.due(NOW, 9)] == [2]
        assert [(one.superseded_by, one.superseded_at, one.wordings) for one in memories.list("-1")] == [
            (None, None, ())
        ] * 2
    if revision >= "0003":
        assert Actions(database).apply_once("-1", "t", 1, "fact", lambda _: "again") == "noted"


def check_usable(database: Database, memories_before: int) -> None:
    """What the newest version writes goes in beside what was there."""
    turns, memories = Turns(database), Memories(database)
    (old,) = turns.get_recent("2", 1, 1, now=NOW)
    assert turns.store([old]) == 0
    assert turns.remove("-1", ["t0:user"]) == 1
    assert len(turns.search("-1", "привет", 99)) == 4
    new = memories.add("-1", memories_of("-1"))
    assert new.number == memories_before + 1
    assert memories.mark_reminded("-1", new.memory_id, NOW)


def memories_of(chat: str) -> Any:
    from dispatcher.memory.store.memories import Memory

    return Memory(chat, MemoryType.GOAL, "new", NOW, deadline=NOW)


@pytest.mark.parametrize("revision", REVISIONS)
def test_from_every_earlier_version_with_data_in_it(stores: Stores, engine: Engine, revision: str) -> None:
    write_as_of(engine, revision)
    database = stores.open()
    check_all_there(database, revision)
    check_usable(database, 2 if revision >= "0002" else 0)
    with engine.connect() as connection:
        assert migrate.revision(connection) == HEAD
    copies = [path.name for path in stores.folder.glob("*before*")]
    assert copies == ([f"medium.sqlite.before-{HEAD}"] if stores.engine == "sqlite" and revision != HEAD else [])


def test_the_tables_are_what_the_migrations_make(stores: Stores) -> None:
    def ours(_object: Any, name: str | None, kind: str, *_: Any) -> bool:
        # Full text is the engine's own: SQLite's shadow tables, PostgreSQL's index of an expression.
        return not (kind == "table" and "_fts" in str(name)) and not str(name).endswith("_words")

    with stores.open().reading() as connection:
        options = {"compare_type": True, "include_object": ours, "version_table": VERSION_TABLE}
        found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    assert found == []


def test_the_listed_revisions_are_those_of_the_scripts() -> None:
    assert tuple(one.revision for one in reversed(list(script().walk_revisions()))) == REVISIONS


@pytest.mark.parametrize("revision", EARLIER)
def test_there_is_no_way_back(stores: Stores, engine: Engine, revision: str) -> None:
    write_as_of(engine, HEAD)
    config = Config()
    config.set_main_option("script_location", str(script().dir))
    with pytest.raises(StoreUnavailable, match="does not go back"), engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
    check_all_there(stores.open(), HEAD)


def test_a_newer_store_is_refused_and_left_as_it_is(stores: Stores, engine: Engine) -> None:
    write_as_of(engine, HEAD)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0999'"))
    database = stores.open()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"0999.*Upgrade this program"):
            Turns(database).ids("2")
    assert list(stores.folder.glob("*before*")) == []
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{HEAD}'"))
    check_all_there(database, HEAD)


OPEN = """
import sys, time
from pathlib import Path
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.turns import Turns
from dispatcher.memory.store.memories import Memories, Memory, MemoryType
print("ready", flush=True)
sys.stdin.readline()
database = Database(sys.argv[1], Path(sys.argv[2]))
Memories(database).add("x", Memory("x", MemoryType.FACT, "y", 1.0))
print(len(Turns(database).ids("2")), "alembic" in sys.modules, flush=True)
"""


@pytest.mark.parametrize("revision", [None, "0001"])
def test_processes_that_migrate_at_once(stores: Stores, engine: Engine, revision: str | None) -> None:
    if revision:
        write_as_of(engine, revision)
    line = [sys.executable, "-c", OPEN, stores.url, str(stores.folder)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [subprocess.Popen(line, cwd=REPOSITORY, text=True, **pipes) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=600) for process in processes]
    assert [error for _, error in ended] == [""] * 4
    assert {out.split()[0] for out, _ in ended} == {"5" if revision else "0"}
    assert [out.split()[1] for out, _ in ended].count("True") == (
        1 if revision else 0
    )  # one migrates, the others find it done
    assert [one.number for one in Memories(stores.open()).list("x")] == [1, 2, 3, 4]


def test_alembic_is_loaded_only_to_migrate(stores: Stores) -> None:
    """Neither for a new store, nor for one that is as it should be."""
    line = [sys.executable, "-c", OPEN, stores.url, str(stores.folder)]
    for _ in range(2):
        done = subprocess.run(line, cwd=REPOSITORY, text=True, input="\n", capture_output=True, check=True, timeout=600)
        assert done.stdout.split() == ["ready", "0", "False"]


def test_a_new_store_is_what_the_migrations_make(
    stores: Stores, engine: Engine, server: PostgreSQL, tmp_path: Path
) -> None:
    """Every table, column, default, index, trigger and full-text index, and the note of the revision."""
    with engine.begin() as connection:
        migrate.upgrade(connection)
        by_migrations = schema(connection)
    fresh = Stores(stores.engine, tmp_path / "new", server)
    with fresh.open().reading() as connection:
        assert schema(connection) == by_migrations
    assert len(by_migrations) > 60
    fresh.close()


def schema(connection: Connection) -> list[Any]:
    """All that the engine knows of the tables, however their statements were written."""
    sqlite_master = (
        "SELECT type, name, tbl_name FROM sqlite_master WHERE name NOT LIKE 'sqlite_autoindex%' ORDER BY 1, 2"
    )
    columns = """SELECT m.name, c.cid, c.name, upper(c.type), c."notnull", c.dflt_value, c.pk
        FROM sqlite_master m, pragma_table_xinfo(m.name) c WHERE m.type = 'table' ORDER BY 1, 2"""
    indexes = """SELECT m.name, i.name, i."unique", x.seqno, x.name FROM sqlite_master m, pragma_index_list(m.name) i, pragma_index_info(i.name) x
        WHERE m.type = 'table' ORDER BY 1, 2, 4"""
    written = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' OR sql LIKE 'CREATE VIRTUAL%' OR name LIKE 'sqlite_seq%' ORDER BY 1"
    in_postgresql = [
        # The number of a column that was dropped is not given again: only the order counts.
        """SELECT table_name, row_number() OVER (PARTITION BY table_name ORDER BY ordinal_position), column_name,
            data_type, is_nullable, column_default, character_maximum_length
            FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2""",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2",
        """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
    ]
    asked = [sqlite_master, columns, indexes, written] if connection.dialect.name == "sqlite" else in_postgresql
    asked.append(f"SELECT version_num FROM {VERSION_TABLE}")
    return [tuple(row) for one in asked for row in connection.execute(text(one))]


KILLED = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import event
from dispatcher.memory.store.database import Database
database = Database(sys.argv[1], Path(sys.argv[2]))
made = database._new_engine
def new_engine():
    engine = made()
    @event.listens_for(engine, "before_cursor_execute")
    def look(connection, cursor, statement, *rest):
        if "ADD COLUMN reminded_at" in statement:  # the last revision has begun, the one before is done
            os.kill(os.getpid(), signal.SIGKILL)
    return engine
database._new_engine = new_engine
database.begin().__enter__()
"""


def test_a_kill_in_mid_migration_leaves_the_store_as_it_was(stores: Stores, engine: Engine) -> None:
    write_as_of(engine, "0001")
    line = [sys.executable, "-c", KILLED, stores.url, str(stores.folder)]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, check=False, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    def as_it_was() -> bool:
        with engine.connect() as connection:
            return migrate.revision(connection) == "0001" and not connection.dialect.has_table(connection, "memories")

    wait_for(as_it_was, "the dead process's transaction to end")
    check_all_there(stores.open(), "0001")


def test_the_copy_before_a_migration_is_whole_and_the_only_one(tmp_path: Path) -> None:
    engine = create_engine(store_url("", tmp_path))
    write_as_of(engine, "0001")
    engine.dispose()
    (tmp_path / "medium.sqlite.before-0002").write_bytes(b"of an earlier upgrade")
    (tmp_path / f".medium.sqlite.before-{HEAD}.tmp").write_bytes(b"cut short")
    database = Database(None, tmp_path)
    Memories(database).count("2")
    (copy,) = tmp_path.glob("*before*")
    assert copy.name == f"medium.sqlite.before-{HEAD}"
    assert list(tmp_path.glob(".*before*")) == []
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as raw:
        assert raw.execute("SELECT count(*) FROM turns").fetchone() == (10,)
        assert raw.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() == ("0001",)
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_no_copy_no_migration(tmp_path: Path) -> None:
    engine = create_engine(store_url("", tmp_path))
    write_as_of(engine, "0001")
    (tmp_path / f".medium.sqlite.before-{HEAD}.tmp").mkdir()  # in the copy's way
    database = Database(None, tmp_path)
    with pytest.raises(StoreUnavailable):
        Turns(database).ids("2")
    with engine.connect() as connection:
        assert migrate.revision(connection) == "0001"
    os.rmdir(tmp_path / f".medium.sqlite.before-{HEAD}.tmp")  # noqa: PTH106
    check_all_there(database, "0001")
    engine.dispose()
    database.close()
