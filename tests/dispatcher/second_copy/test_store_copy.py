"""The day store in the journal: what a transaction changes, the base copies, and the way back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.kept import back_up, put_back
from dispatcher.memory.store.memories import Memories
from dispatcher.memory.store.turns import StoredTurn, Turns
from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.place import store_entries
from dispatcher.second_copy.store_changes import Record
from dispatcher.second_copy.store_copy import known_version, put_store_back, take_base, version_of
from shared.delivery.journal.files import bases
from shared.turns.records import Turn
from tests.dispatcher.second_copy.conftest import LossyHost
from tests.support.machine import wait_for


class Store:
    """A day store whose changes go into a journal."""

    def __init__(self, folder: Path) -> None:
        (folder / "disk").mkdir(exist_ok=True)
        self.journal = DayJournal(folder / "disk")
        self.journal.create()
        self.path = folder / "state" / "day-store.sqlite"
        self.database = Database(None, folder / "state", self.record_into(self.journal))
        self.turns, self.memories = Turns(self.database), Memories(self.database)

    @staticmethod
    def record_into(journal: DayJournal) -> Record:
        return lambda change: journal.append(store_entries(change))

    def rows(self, path: Path | None = None) -> dict[str, list[Any]]:
        """Everything but vectors."""
        with closing(sqlite3.connect(path or self.path)) as store:
            tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            found = {}
            for table in sorted(set(tables) - {"sqlite_sequence"}):
                names = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
                kept = ", ".join(name for name in names if not name.startswith("embedding"))
                found[table] = sorted(store.execute(f"SELECT {kept} FROM {table}"), key=repr)
            return found

    def say(self, number: int, chat: str = "9912") -> None:
        said = Turn(f"t{number}", "user", chat, f"number {number}", 1_707_500_000.0 + number)
        self.turns.store([StoredTurn(said)])

    def restored(self) -> Path:
        target = self.path.with_name("restored.sqlite")
        target.unlink(missing_ok=True)
        put_store_back(self.journal.folder, self.journal.whole(), target)
        return target


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    made.say(0)
    take_base(made.path, made.journal.folder)
    yield made
    made.database.close()


def test_base_and_changes_give_the_same_rows(store: Store) -> None:
    for number in range(1, 30):
        store.say(number, chat=("9912", "-100")[number % 2])
    store.turns.remove("9912", ["t2:user", "t0:user"])
    assert store.rows(store.restored()) == store.rows()
    assert version_of(store.restored()) == version_of(store.path)


def test_a_rolled_back_transaction_is_not_in_the_journal(store: Store) -> None:
    before = store.journal.whole().last
    with pytest.raises(ZeroDivisionError), store.database.begin() as connection:
        connection.exec_driver_sql("UPDATE turns SET content = 'never said'")
        raise ZeroDivisionError
    assert store.journal.whole().last == before
    assert store.rows(store.restored()) == store.rows()


def test_each_entry_of_a_transaction_over_several_chats_has_rows_of_one(store: Store) -> None:
    with store.database.begin() as connection:
        for chat in ("1", "2", "3"):
            connection.exec_driver_sql(
                "INSERT INTO turns (chat_id, turn_id, task_id, role, content, timestamp) VALUES (?, 'a:user', 'a', 'user', 'x', 1)",
                (chat,),
            )
    entries = [one for one in store.journal.whole().store if one.data["parts"] == 3]
    assert sorted(one.chat or "" for one in entries) == ["1", "2", "3"]
    assert all(row["row"]["chat_id"] == one.chat for one in entries for row in one.data["rows"])


def test_a_change_without_rows_of_ours_is_counted_too(store: Store) -> None:
    """Vectors are not in the journal, and without a journal nothing is: a later one sees by the count that it has missed something."""
    with closing(Database(None, store.path.parent)) as other, other.begin() as connection:
        connection.exec_driver_sql("UPDATE turns SET content = 'changed without a journal'")
    state = store.journal.whole()
    assert version_of(store.path) == known_version(store.journal.folder, state) + 1


def test_a_gap_ends_what_can_be_brought_back(store: Store) -> None:
    store.say(1)
    known = known_version(store.journal.folder, store.journal.whole())
    with closing(Database(None, store.path.parent)) as other, other.begin() as connection:
        connection.exec_driver_sql("UPDATE turns SET content = 'changed without a journal'")
    store.say(2)
    assert known_version(store.journal.folder, store.journal.whole()) == known
    take_base(store.path, store.journal.folder)
    assert known_version(store.journal.folder, store.journal.whole()) == version_of(store.path)
    assert store.rows(store.restored()) == store.rows()


def test_dispatcher_and_forget_may_copy_the_store_at_the_same_time(store: Store) -> None:
    with ThreadPoolExecutor(2) as both:
        copying = [both.submit(take_base, store.path, store.journal.folder) for _ in range(60)]
        for number in range(1, 10):
            store.say(number)
        for one in copying:
            one.result()
    assert store.rows(store.restored()) == store.rows()


def test_a_store_that_has_gone_is_not_copied_as_an_empty_one(store: Store) -> None:
    (base,) = bases(store.journal.folder)
    store.path.rename(store.path.with_name("elsewhere"))
    with pytest.raises(sqlite3.OperationalError):
        take_base(store.path, store.journal.folder)
    assert not store.path.exists()
    assert bases(store.journal.folder) == [base]


def test_what_an_upgrade_puts_back_on_purpose_is_not_taken_for_an_older_copy(store: Store, tmp_path: Path) -> None:
    back_up(store.path, tmp_path / "kept.sqlite")
    store.say(1)
    put_back(tmp_path / "kept.sqlite", store.path)
    assert version_of(store.path) > known_version(store.journal.folder, store.journal.whole())


def facts(host: LossyHost) -> set[str]:
    with closing(sqlite3.connect(host.state_dir / "day-store.sqlite")) as store:
        return {str(text) for (text,) in store.execute("SELECT text FROM memories")}


def test_a_lost_day_store_comes_back_with_its_facts(host: LossyHost) -> None:
    host.world.start_dispatcher()
    for number in range(3):
        host.world.enqueue(f"t{number}", f"/memory add fact{number} is kept here")
    host.answered("t0", "t1", "t2")
    before = facts(host)
    assert len(before) == 3
    host.kill_dispatchers()
    host.lose_state()
    host.world.start_dispatcher()
    assert facts(host) == before


def test_an_older_day_store_is_brought_up_to_date(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "/memory add the first fact")
    host.answered("t0")
    back_up(host.state_dir / "day-store.sqlite", host.world.root / "older.sqlite")
    host.world.enqueue("t1", "/memory add the second one")
    host.answered("t1")
    host.kill_dispatchers()
    for path in host.state_dir.glob("day-store.sqlite*"):
        path.unlink()
    (host.world.root / "older.sqlite").rename(host.state_dir / "day-store.sqlite")
    host.world.start_dispatcher()
    assert facts(host) == {"the first fact", "the second one"}


def test_commands_of_the_owner_are_in_the_journal_too(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "hello")
    host.answered("t0")
    host.kill_dispatchers()
    host.world.command("hmem", "memory", "add", "9912", "said by the owner")
    host.lose_state()
    host.world.start_dispatcher()
    assert facts(host) == {"said by the owner"}


def test_a_forgotten_fact_is_in_no_copy(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "/memory add my password is heronplanet")
    host.answered("t0")
    host.world.command("hmem", "forget", "--matching", "heronplanet", "--yes", "--later", check=False)

    def copies() -> bytes:
        time.sleep(0.05)
        return b"".join(path.read_bytes() for path in host.disk.iterdir())

    wait_for(lambda: b"heronplanet" not in copies(), "the journal to be without it")
    host.kill_dispatchers()
    host.lose_state()
    host.world.start_dispatcher()
    assert facts(host) == set()
