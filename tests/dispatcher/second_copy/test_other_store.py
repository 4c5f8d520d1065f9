"""A copy of the day store that cannot be used, or that is another store's: nothing that it has is thrown away, and nothing else waits for it."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from dispatcher.second_copy.follow import Followed, Follower
from dispatcher.second_copy.store_copy import BaseDamaged, known_version, put_store_back, take_base, version_of
from shared.delivery.journal.files import asides, bases
from shared.errors import JournalUnavailable
from shared.turns.records import Tombstone
from tests.dispatcher.second_copy.conftest import LossyHost
from tests.dispatcher.second_copy.test_store_copy import Store, facts, store
from tests.support.machine import wait_for

__all__ = ["store"]


def words(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as opened:
        return {str(text) for (text,) in opened.execute("SELECT content FROM turns")}


def other_store(store: Store, *said: int) -> None:
    """The store is lost, and a new one is begun and used without a journal."""
    store.database.close()
    for path in store.path.parent.glob(f"{store.path.name}*"):
        path.unlink()
    store.database._record = None
    with store.database.reading():
        pass
    for number in said:
        store.say(number)
    store.database._record = Store.record_into(store.journal)
    store.database.close()


def follow(host: LossyHost, store: Store, *stones: Tombstone) -> Follower:
    follower = Follower(
        Followed(store.journal, host.redis, 1 << 20, lambda: list(stones), lambda stone: None, store.path)
    )
    follower.begin()
    for _ in range(3):
        follower.round(whole=True)
    return follower


def test_a_transaction_of_which_a_part_is_missing_gets_a_new_copy(host: LossyHost, store: Store) -> None:
    before = known_version(store.journal.folder, store.journal.whole())
    with store.database.begin() as connection:
        for chat in ("1", "2", "3"):
            connection.exec_driver_sql(
                "INSERT INTO turns (chat_id, turn_id, task_id, role, content, timestamp) VALUES (?, 'a:user', 'a', 'user', 'x', 1)",
                (chat,),
            )
    segment = max(store.journal.folder.glob("day-*"))
    *lines, last = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines) + last[:40])  # the disk became full in the last line
    for number in (1, 2, 3):
        store.say(number)
    assert known_version(store.journal.folder, store.journal.whole()) == before
    follow(host, store)
    assert known_version(store.journal.folder, store.journal.whole()) == version_of(store.path)
    assert store.rows(store.restored()) == store.rows()


def test_the_copy_of_another_store_is_kept_with_its_changes(host: LossyHost, store: Store) -> None:
    for number in (1, 2):
        store.say(number)
    other_store(store, *range(10, 20))
    follower = follow(host, store)
    [(why, _, kept)] = asides(store.journal.folder)
    assert (why, words(kept)) == ("other", {"number 0", "number 1", "number 2"})
    assert words(store.path) == {f"number {number}" for number in range(10, 20)}
    store.say(20)
    assert store.rows(store.restored()) == store.rows()
    assert follower.store_error is None
    store.journal.compact()
    assert b"number 1" not in b"".join(path.read_bytes() for path in store.journal.folder.glob("day-*"))


def test_another_store_with_fewer_changes_is_not_overwritten(host: LossyHost, store: Store) -> None:
    for number in range(1, 9):
        store.say(number)
    other_store(store, 10)
    follow(host, store)
    assert words(store.path) == {"number 10"}
    [(_, _, kept)] = asides(store.journal.folder)
    assert words(kept) == {f"number {number}" for number in range(9)}


def test_another_store_in_which_nothing_was_kept_gives_way(host: LossyHost, store: Store) -> None:
    other_store(store)
    follow(host, store)
    assert words(store.path) == {"number 0"}
    assert not asides(store.journal.folder)


def test_what_a_restore_replaces_on_purpose_is_kept_too(store: Store) -> None:
    other_store(store, 10)
    put_store_back(store.journal.folder, store.journal.whole(), store.path)
    assert words(store.path) == {"number 0"}
    [(_, _, kept)] = asides(store.journal.folder)
    assert words(kept) == {"number 10"}


def test_a_chat_that_forgets_leaves_the_copies_that_were_set_aside(host: LossyHost, store: Store) -> None:
    store.say(1, chat="-100")
    other_store(store, 10)
    follow(host, store)
    damaged = store.journal.folder / "store-damaged-000000000001-00000001.sqlite"
    damaged.write_bytes(b"number 0, among damage")
    follow(host, store, Tombstone("stone", "9912", time.time() + 1, turn_ids=frozenset({"t0:user"})))
    [(_, _, kept)] = asides(store.journal.folder)
    assert words(kept) == {"number 1"}
    assert b"number 0" not in kept.read_bytes()


def test_a_copy_that_cannot_be_read_is_set_aside(host: LossyHost, store: Store) -> None:
    [(version, base)] = bases(store.journal.folder)
    base.write_bytes(base.read_bytes()[:100] + bytes(3000))
    lost = store.path.with_name("lost.sqlite")
    with pytest.raises(BaseDamaged, match="damaged"):
        put_store_back(store.journal.folder, store.journal.whole(), lost)
    assert not lost.exists()
    assert not bases(store.journal.folder)
    assert [(why, known) for why, known, _ in asides(store.journal.folder)] == [("damaged", version)]
    take_base(store.path, store.journal.folder)
    assert store.rows(store.restored()) == store.rows()


def damaged(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "/memory add a fact")
    host.world.enqueue("t1", "hello")
    host.answered("t0", "t1")
    wait_for(lambda: bases(host.disk), "the copy")
    host.kill_dispatchers()
    host.lose_redis()
    host.lose_state()
    base = next(host.disk.glob("store-*"))
    base.write_bytes(base.read_bytes()[:100] + bytes(3000))


def test_a_damaged_copy_keeps_nothing_else_from_coming_back(host: LossyHost) -> None:
    damaged(host)
    host.world.enqueue("t2", "are you there?")
    dispatcher = host.world.start_dispatcher()
    host.answered("t2")
    assert {b"hcli:memory:t1:user", b"hcli:memory:t1:asst", b"hcli:memory:t2:asst"} <= host.turns().keys()
    assert dispatcher.log.read_bytes().count(b"copy of the day store is damaged") == 1
    host.world.enqueue("t3", "/memory add another fact")
    host.answered("t3")
    assert facts(host) == {"another fact"}
    wait_for(lambda: host.reported()["error"] is None, "a new copy")
    assert "store-damaged-" in host.world.status().stdout


def test_restore_day_brings_the_rest_back_and_says_what_it_could_not(host: LossyHost) -> None:
    damaged(host)
    done = host.world.command("hmem", "restore", "--day", check=False)
    assert done.returncode == JournalUnavailable.exit_code
    assert "the day store could not be brought back: the journal's copy of the day store is damaged" in done.stderr
    assert {b"hcli:memory:t1:user", b"hcli:memory:t1:asst"} <= host.turns().keys()


def test_a_fact_that_was_told_while_the_disk_was_away_stays(host: LossyHost) -> None:
    host.world.start_dispatcher()
    for number in range(3):
        host.world.enqueue(f"t{number}", f"/memory add old fact {number}")
    host.answered("t0", "t1", "t2")
    host.kill_dispatchers()
    host.lose_state()
    host.lose_redis()
    host.disk.rename(host.world.root / "unmounted")
    host.world.start_dispatcher()
    host.world.enqueue("n0", "/memory add told while the disk was away")
    wait_for(lambda: host.redis.exists("hcli:mem:done:n0"), "the answer")
    (host.world.root / "unmounted").rename(host.disk)
    wait_for(lambda: asides(host.disk), "the copy of the old store to be set aside")
    host.followed()
    assert facts(host) == {"told while the disk was away"}
    with closing(sqlite3.connect(asides(host.disk)[0][2])) as kept:
        assert len(kept.execute("SELECT text FROM memories WHERE text LIKE 'old fact%'").fetchall()) == 3


def test_a_store_that_is_being_made_gets_no_copy_yet(host: LossyHost, store: Store) -> None:
    store.database.close()
    for path in (*store.path.parent.glob(f"{store.path.name}*"), bases(store.journal.folder)[0][1]):
        path.unlink()
    store.path.touch()
    follow(host, store)
    assert not bases(store.journal.folder)
    store.say(1)
    follow(host, store)
    assert store.rows(store.restored()) == store.rows()
