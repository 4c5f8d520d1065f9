"""The day store: turns, summaries, typed memories and actions, on SQLite and on PostgreSQL."""

from __future__ import annotations

import dataclasses
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from structlog.testing import capture_logs

from dispatcher.memory.store.actions import Actions
from dispatcher.memory.store.database import Database, reason, store_url
from dispatcher.memory.store.memories import Memories, Memory, MemoryType
from dispatcher.memory.store.rows import own
from dispatcher.memory.store.summaries import SessionSummary, Summaries
from dispatcher.memory.store.turns import StoredTurn, Turns
from shared.errors import InvalidInput, SettingsError, StoreUnavailable
from shared.turns.records import Turn
from tests.support.machine import wait_for
from tests.support.stores import PostgreSQL, Stores, at_once, postgresql_server
from tests.support.world import REPOSITORY

NOW = 1_800_000_000.0
DAY = 86_400.0
#: `é` in one character and in two: alike to the eye, two chats.
ODD_CHATS = (
    "-100123",
    "100123",
    "a' OR 1=1 --",
    "*",
    "%",
    "_",
    "caf\u00e9",
    "cafe\u0301",
    'a"b',
    "NULL",
    "\\",
    "A",
    "a",
)
FACT, GOAL, DONE, PREFERENCE = MemoryType.FACT, MemoryType.GOAL, MemoryType.COMPLETED_GOAL, MemoryType.PREFERENCE


@pytest.fixture
def database(stores: Stores) -> Database:
    return stores.open()


def said(task: str, content: str = "hello", chat: str = "1", at: float = NOW, **more: Any) -> StoredTurn:
    own = {name: more.pop(name) for name in ("name", "session", "extra", "user_id") if name in more}
    return StoredTurn(Turn(task, more.pop("role", "user"), chat, content, at, **own), **more)


def fact(body: str, chat: str = "1", kind: MemoryType = FACT, **more: Any) -> Memory:
    return Memory(chat, kind, body, more.pop("created", NOW), **more)


def summary(*turn_ids: str, chat: str = "1", session: str = "s", at: float = NOW, **more: Any) -> SessionSummary:
    return SessionSummary(chat, session, "in short", at - 60, at, at, turn_ids, **more)


def contents(found: Collection[StoredTurn]) -> list[str]:
    return [one.turn.content for one in found]


# --- turns


def test_a_turn_comes_back_as_it_was_stored(database: Database) -> None:
    turns = Turns(database)
    whole = said(
        "t1", "Hello Wörld", "-100123", 1.5, name="Ann", session="s1", extra={"x": [1, "\ud800"]}, user_id="7",
        embedding=b"\0\1", embedding_model="m",
    )  # fmt: skip
    assert turns.store([whole]) == 1
    (found,) = turns.get_recent("-100123", 1, 10, now=2)
    assert found == whole
    assert found.turn.extra == {"x": [1, "\ud800"]}


def test_storing_again_replaces_and_counts_only_what_is_new(database: Database) -> None:
    turns = Turns(database)
    assert turns.store([said("a"), said("b"), said("a", role="asst")]) == 3
    assert turns.store([said("a", "changed", session="later"), said("c")]) == 1
    assert turns.store([]) == 0
    assert sorted(contents(turns.get_recent("1", 1, 10, now=NOW))) == ["changed", "hello", "hello", "hello"]
    assert turns.ids("1") == {"a:user": "later", "b:user": None, "a:asst": None, "c:user": None}


def test_a_vector_stays_with_its_text_only(database: Database) -> None:
    turns = Turns(database)
    turns.store([said("a", embedding=b"v", embedding_model="m")])
    turns.store([said("a", session="s")])
    assert turns.get_recent("1", 1, 1, now=NOW)[0].embedding == b"v"
    turns.store([said("a", "another text")])
    assert turns.get_recent("1", 1, 1, now=NOW)[0].embedding is None
    assert turns.get_recent("1", 1, 1, now=NOW)[0].embedding_model is None


def test_the_same_task_id_in_two_chats_is_two_turns(database: Database) -> None:
    turns = Turns(database)
    assert turns.store([said("a", "one", "1"), said("a", "two", "2")]) == 2
    assert contents(turns.get_recent("1", 1, 9, now=NOW)) == ["one"]


def test_recent_turns_are_the_newest_in_the_order_of_time(database: Database) -> None:
    turns = Turns(database)
    turns.store([said(f"t{n}", str(n), at=NOW - n * DAY) for n in range(10)])
    assert contents(turns.get_recent("1", 7, 3, now=NOW)) == ["2", "1", "0"]
    assert contents(turns.get_recent("1", 7, 99, now=NOW)) == ["7", "6", "5", "4", "3", "2", "1", "0"]
    assert turns.get_recent("1", 7, 0, now=NOW) == []
    turns.store([said("q", "question", at=NOW + 5), said("r", "answer", at=NOW + 5)])  # one clock reading: as they came
    assert contents(turns.get_recent("1", 1, 2, now=NOW)) == ["question", "answer"]


@pytest.mark.parametrize("batch", [1, 2, 3, 500])
def test_turns_are_read_back_from_the_newest(database: Database, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.memory.store.turns.BATCH", batch)
    turns = Turns(database)
    turns.store([said(f"t{n}", str(n), at=NOW + n) for n in range(5)])
    turns.store(
        [said("q", "question", at=NOW + 2), said("x", chat="2")]
    )  # as they came: after the other one of that time
    assert [one.content for one in turns.back("1")] == ["4", "3", "question", "2", "1", "0"]
    assert [one.content for one in turns.back("1", NOW + 1, NOW + 3)] == ["question", "2", "1"]
    assert list(turns.back("3")) == []


def test_turns_of_a_session(database: Database) -> None:
    turns = Turns(database)
    turns.store([said("b", "2", at=NOW + 1, session="s"), said("a", "1", session="s"), said("c", "3", session="r")])
    assert contents(turns.of_session("1", "s")) == ["1", "2"]
    assert turns.of_session("2", "s") == []


def test_very_long_and_very_odd_texts_are_stored_whole(database: Database) -> None:
    turns = Turns(database)
    long = " ".join(f"w{n}" for n in range(60_000)) + " " + "ß" * 5_000
    turns.store([said("a", long), said("b", "日本語テキスト 😀 \u202e abc"), said("c", "x" * 1_000_000)])
    found = {one.turn.turn_id: one.turn.content for one in turns.get_recent("1", 1, 9, now=NOW)}
    assert found == {"a:user": long, "b:user": "日本語テキスト 😀 \u202e abc", "c:user": "x" * 1_000_000}


def test_nul_and_lone_surrogates_become_the_replacement_character(database: Database) -> None:
    turns = Turns(database)
    turns.store([said("a", "nul\x00 half\ud83d", name="N\x00", session="s\ud800", extra={"k\x00": "\ud800"})])
    (found,) = turns.of_session("1", "s\ud800")
    assert (found.turn.content, found.turn.name) == ("nul\ufffd half\ufffd", "N\ufffd")
    assert found.turn.extra == {"k\x00": "\ud800"}  # JSON writes them as escapes: they survive
    memories = Memories(database)
    kept = memories.add("1", fact("a\x00b\udfff", category="\x00"))
    assert memories.get("1", kept.memory_id) == kept
    assert (kept.text, kept.category) == ("a\ufffdb\ufffd", "\ufffd")
    Summaries(database).store(dataclasses.replace(summary("t"), text="\x00"))
    assert Summaries(database).list("1", 1)[0].text == "\ufffd"


def test_the_revision_changes_with_the_turns_of_the_chat(database: Database) -> None:
    turns = Turns(database)
    seen = [turns.revision("1")]

    def moved() -> bool:
        seen.append(turns.revision("1"))
        return seen[-1] not in seen[:-1]

    turns.store([said("a"), said("b")])
    assert moved()
    turns.store([said("a", "changed")])
    assert moved()
    turns.update_embedding("1", "a:user", b"v", "m")
    assert moved()
    turns.remove("1", ["a:user"])
    assert moved()
    Summaries(database).store(summary("b:user"))
    assert moved()
    turns.store([said("a", chat="2")])
    assert turns.revision("1") == seen[-1]
    Summaries(database).remove("1", [one.summary_id for one in Summaries(database).list("1", 9)])
    turns.remove("1", turns.ids("1"))
    assert turns.revision("1") == "0"
    turns.store([said("a"), said("b")])
    assert moved()  # not the number it had the first time


def test_embeddings_are_filled_in_later(database: Database) -> None:
    turns = Turns(database)
    turns.store([said("a", at=1), said("b", at=3, chat="2"), said("c", at=2, embedding=b"v", embedding_model="old")])
    turns.store([said("d", embedding=b"v", embedding_model="new")])
    assert [one.turn.turn_id for one in turns.needing_embedding("new", 9)] == ["b:user", "a:user", "c:user"]
    assert len(turns.needing_embedding("new", 2)) == 2
    assert turns.update_embedding("2", "b:user", b"vec", "new")
    assert turns.update_embedding("1", "c:user", None, "new")  # the model cannot embed it
    assert not turns.update_embedding("2", "a:user", b"vec", "new")  # another chat's
    assert not turns.update_embedding("1", "a:user", b"vec", "new", content="what it was before")
    assert [one.turn.turn_id for one in turns.needing_embedding("new", 9)] == ["a:user"]
    assert turns.get_recent("2", 9e9, 9, now=NOW)[0].embedding == b"vec"


def test_removal_by_id(database: Database) -> None:
    turns = Turns(database)
    for chat in ("1", "2"):
        turns.store([said(f"t{n}", f"word{n}", chat, at=NOW + n) for n in range(1_200)])
    assert turns.remove("1", [f"t{n}:user" for n in range(1_100)] + ["t0:user", "unknown:user"]) == 1_100
    assert turns.remove("1", []) == 0
    assert set(turns.ids("1")) == {f"t{n}:user" for n in range(1_100, 1_200)}
    assert len(turns.ids("2")) == 1_200


def test_prune_takes_what_is_old_and_released_and_nothing_else(database: Database) -> None:
    turns = Turns(database)
    turns.store([said(f"t{n}", at=NOW - n * DAY, chat=chat) for n in range(10) for chat in ("1", "2")])
    asked: dict[str, set[str]] = {}

    def released(chat: str, ids: Collection[str]) -> Collection[str]:
        asked[chat] = set(ids)
        return {"t9:user", "t0:user", "foreign:user"} if chat == "1" else ()

    assert turns.prune(NOW - 7 * DAY, released) == 1
    assert asked == {chat: {"t8:user", "t9:user"} for chat in ("1", "2")}
    assert set(turns.ids("1")) == {f"t{n}:user" for n in range(9)}
    assert len(turns.ids("2")) == 10


# --- isolation


def test_a_chat_sees_only_itself_whatever_its_name(database: Database) -> None:
    turns, memories, summaries = Turns(database), Memories(database), Summaries(database)
    for chat in ODD_CHATS:
        turns.store([said("t", f"secret of {chat}", chat, session="s")])
        memories.add(chat, fact(f"secret of {chat}", chat, embedding=b"v", embedding_model="m"))
        summaries.store(summary("t:user", chat=chat))
    for chat in ODD_CHATS:
        for found in (turns.get_recent(chat, 9, 99, now=NOW), turns.of_session(chat, "s")):
            assert contents(found) == [f"secret of {chat}"]
        assert [one.content for one in turns.back(chat)] == [f"secret of {chat}"]
        assert [(one.text, one.number) for one in memories.list(chat)] == [(f"secret of {chat}", 1)]
        assert [one.chat_id for one in summaries.containing(chat, ["t:user"])] == [chat]
    own = {one.chat_id: one.memory_id for chat in ODD_CHATS for one in memories.list(chat)}
    others = [memory_id for chat, memory_id in own.items() if chat != "*"]
    assert not any(memories.get("*", memory_id) or memories.delete("*", memory_id) for memory_id in others)
    assert memories.touch("*", others, NOW) == 0
    assert turns.remove("*", ["t:user"]) == 1
    assert memories.delete("%", own["%"])
    assert summaries.remove("_", [one.summary_id for one in summaries.every()]) == 1
    left = sum(len(turns.ids(chat)) + memories.count(chat) + len(summaries.list(chat, 9)) for chat in ODD_CHATS)
    assert left == 3 * len(ODD_CHATS) - 3


def test_a_row_of_another_chat_is_held_back_on_the_way_out(database: Database) -> None:
    Turns(database).store([said("a", chat="1"), said("b", chat="2"), said("c", chat="1")])
    with database.reading() as connection:
        unscoped = connection.execute(text("SELECT chat_id, task_id FROM turns ORDER BY task_id"))
        assert [row.task_id for row in own(unscoped, "1")] == ["a", "c"]


@pytest.mark.parametrize("chat", ["", "a\x00b", "\ud800"])
def test_a_chat_id_that_could_not_be_kept_is_refused(database: Database, chat: str) -> None:
    with pytest.raises(InvalidInput, match="is not a chat id"):
        Turns(database).ids(chat)
    with pytest.raises(InvalidInput):
        Memories(database).add(chat, fact("x", chat))
    with pytest.raises(InvalidInput):
        Actions(database).apply_once(chat, "t", 1, "fact", lambda _: "")


def test_a_memory_is_added_to_its_own_chat_only(database: Database) -> None:
    with pytest.raises(InvalidInput, match="of chat 2"):
        Memories(database).add("1", fact("x", "2"))
    with pytest.raises(InvalidInput, match="1 to 5"):
        Memories(database).add("1", fact("x", importance=6))
    assert Memories(database).count("1") == Memories(database).count("2") == 0


# --- summaries


def test_summaries_are_stored_once_and_promoted(database: Database) -> None:
    summaries = Summaries(database)
    first = summary("a:user", "a:asst", embedding=b"v", embedding_model="m", tokens=50_000)
    assert summaries.store(first)
    assert not summaries.store(summary("x:user", "a:asst"))  # the same session up to the same turn
    assert not summaries.store(dataclasses.replace(summary("z:user"), summary_id=first.summary_id))
    second = summary("b:user", at=NOW + 1)
    assert summaries.store(second)
    assert summaries.store(summary("a:asst", session="other", at=NOW + 2))
    assert summaries.list("1", 2)[0] == second
    assert summaries.list("1", 9)[0] == first
    assert summaries.containing("1", ["a:user", "unknown"]) == [first]
    assert summaries.promote("1", [first.summary_id]) == 1
    assert summaries.promote("1", [first.summary_id]) == summaries.promote("2", [second.summary_id]) == 0
    assert summaries.list("1", 9, "long") == [dataclasses.replace(first, tier="long")]
    assert [one.summary_id for one in summaries.needing_embedding("m", 9)][-1] == second.summary_id
    assert summaries.update_embedding("1", second.summary_id, b"w", "m")
    assert second.summary_id not in [one.summary_id for one in summaries.needing_embedding("m", 9)]
    assert summaries.remove("1", [second.summary_id]) == 1


# --- memories


def test_a_memory_comes_back_as_it_was_stored(database: Database) -> None:
    memories = Memories(database)
    whole = Memory(
        "1", GOAL, "Run a marathon", NOW, deadline=NOW + DAY, priority=2, importance=5, category="sport", session="s", source_turn="t:user",
        last_accessed=NOW, access_count=3, embedding=b"v", embedding_model="m",
    )  # fmt: skip
    kept = memories.add("1", whole)
    assert dataclasses.replace(kept, memory_id=0, number=0) == whole
    assert memories.get("1", kept.memory_id) == memories.by_number("1", 1) == kept
    assert memories.list("1") == [kept]
    assert memories.get("1", 999) is memories.by_number("1", 2) is None


def test_numbers_are_the_chats_own_and_never_given_twice(database: Database) -> None:
    memories = Memories(database)
    for chat in ("1", "1", "2", "1"):
        memories.add(chat, fact("x", chat))
    assert [one.number for one in memories.list("1")] == [1, 2, 3]
    assert [one.number for one in memories.list("1", limit=2)] == [2, 3]
    last = memories.by_number("1", 3)
    assert last and memories.delete("1", last.memory_id) == last
    assert memories.add("1", fact("y")).number == 4


def test_memories_by_type(database: Database) -> None:
    memories = Memories(database)
    for kind in (FACT, GOAL, PREFERENCE, FACT):
        memories.add("1", fact(f"a {kind}", kind=kind))
    assert [one.type for one in memories.list("1", [FACT, PREFERENCE])] == [FACT, PREFERENCE, FACT]
    assert (memories.count("1"), memories.count("1", [FACT]), memories.count("1", []), memories.count("2")) == (
        4,
        2,
        0,
        0,
    )


def test_use_and_repetition_are_noted(database: Database) -> None:
    memories = Memories(database)
    ids = [memories.add("1", fact(f"f{n}")).memory_id for n in range(3)]
    assert memories.touch("1", [*ids[:2], ids[0], 999], NOW + 1) == 2
    assert memories.reinforce("1", ids[0], NOW + 2)
    assert not memories.reinforce("2", ids[0], NOW + 9)
    found = memories.list("1")
    assert [(one.access_count, one.last_accessed, one.importance) for one in found] == [(2, NOW + 2, 4), (1, NOW + 1, 3), (0, None, 3)]  # fmt: skip
    for _ in range(3):
        memories.reinforce("1", ids[0], NOW)
    assert memories.list("1")[0].importance == 5


def test_a_goal_is_completed_once(database: Database) -> None:
    memories = Memories(database)
    goal, other = memories.add("1", fact("run", kind=GOAL)), memories.add("1", fact("x"))
    done = memories.complete("1", goal.memory_id, NOW + 5)
    assert done == dataclasses.replace(goal, type=DONE, completed_at=NOW + 5)
    assert memories.complete("1", goal.memory_id, NOW + 6) is memories.complete("1", other.memory_id, NOW) is None


def test_reminders_are_taken_once_each(stores: Stores) -> None:
    memories = Memories(stores.open())
    for number, deadline in enumerate((NOW + 9, NOW + 1, NOW + 100, None)):
        memories.add("1", fact(f"g{number}", kind=GOAL, deadline=deadline))
    memories.add("2", fact("theirs", "2", GOAL, deadline=NOW + 5))
    memories.add("1", fact("no goal", deadline=NOW))
    due = memories.due(NOW + 10, 9)
    assert [one.text for one in due] == ["g1", "theirs", "g0"]
    assert [one.text for one in memories.due(NOW + 10, 1)] == ["g1"]
    both = [Memories(stores.open()) for _ in range(4)]
    assert sorted(map(str, at_once(lambda n: both[n].mark_reminded("1", due[0].memory_id, NOW), 4))) == ["False"] * 3 + ["True"]  # fmt: skip
    memories.complete("1", due[2].memory_id, NOW)
    assert not memories.mark_reminded("1", due[2].memory_id, NOW)
    assert not memories.mark_reminded("1", due[1].memory_id, NOW)
    assert [one.text for one in memories.due(NOW + 10, 9)] == ["theirs"]


def test_memories_are_embedded_later_and_say_when_they_change(database: Database) -> None:
    memories = Memories(database)
    seen = {memories.revision("1")}
    one = memories.add("1", fact("x"))
    seen.add(memories.revision("1"))
    assert [found.memory_id for found in memories.needing_embedding("m", 9)] == [one.memory_id]
    assert not memories.update_embedding("2", one.memory_id, b"v", "m")
    assert memories.update_embedding("1", one.memory_id, b"v", "m")
    seen.add(memories.revision("1"))
    assert memories.needing_embedding("m", 9) == []
    assert memories.list("1")[0].embedding == b"v"
    memories.touch("1", [one.memory_id], NOW)
    assert memories.revision("1") in seen  # use changes nothing that is cached
    memories.delete("1", one.memory_id)
    assert memories.revision("1") not in seen, "it changes also when the last one goes; numbers go on"
    assert len(seen) == 3


# --- actions


def test_an_action_is_applied_once_with_its_effect(database: Database) -> None:
    actions, memories = Actions(database), Memories(database)

    def remember(connection: Connection) -> str:
        return f"remembered {memories.add('1', fact('x'), connection=connection).number}"

    def fail(connection: Connection) -> str:
        remember(connection)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        actions.apply_once("1", "t", 1, "fact", fail)
    assert memories.count("1") == 0
    assert actions.apply_once("1", "t", 1, "fact", remember) == "remembered 1"
    assert actions.apply_once("1", "t", 1, "fact", remember) == "remembered 1"
    assert actions.apply_once("1", "t", 2, "fact", remember) == "remembered 2"
    assert memories.count("1") == 2
    assert actions.prune(time.time() - 60) == 0
    assert actions.prune(time.time() + 60) == 2
    assert actions.apply_once("1", "t", 1, "fact", remember) == "remembered 3"


def test_actions_that_come_at_once_are_applied_once(stores: Stores) -> None:
    connections = [stores.open() for _ in range(6)]

    def finish(number: int) -> str:
        memories = Memories(connections[number])

        def remember(connection: Connection) -> str:
            kept = memories.add("1", fact(f"by {number}"), connection=connection)
            time.sleep(0.1)  # the others come meanwhile
            return kept.text

        return Actions(connections[number]).apply_once("1", "task", 1, "fact", remember)

    outcomes = at_once(finish, 6)
    (kept,) = Memories(connections[0]).list("1")
    assert outcomes == [kept.text] * 6


# --- the connection


def test_writers_wait_for_each_other(stores: Stores) -> None:
    connections = [stores.open() for _ in range(6)]

    def write(number: int) -> int:
        turns, memories = Turns(connections[number]), Memories(connections[number])
        for n in range(15):
            turns.store([said(f"w{number}-{n}"), said(f"w{number}-{n}", chat="2")])
            memories.add("1", fact(f"{number} {n}"))
        return 15

    assert sum(map(int, map(str, at_once(write, 6)))) == 90
    assert len(Turns(connections[0]).ids("1")) == len(Turns(connections[0]).ids("2")) == 90
    assert [one.number for one in Memories(connections[0]).list("1")] == list(range(1, 91))


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
        began = time.monotonic()
        assert len(Turns(reader).ids("1")) == 1
        assert time.monotonic() - began < 2  # it would wait 5 s
    assert Turns(reader).ids("1") == {}


HALF = """
import sys, time
from pathlib import Path
from dispatcher.memory.store.database import Database, reason, store_url
from dispatcher.memory.store.memories import *
database = Database(sys.argv[1], Path(sys.argv[2]))
memories = Memories(database)
with database.begin() as connection:
    memories.add("1", Memory("1", MemoryType.FACT, "half", 1.0), connection=connection)
    print("in the middle", flush=True)
    time.sleep(60)
"""


def test_a_kill_in_the_middle_leaves_nothing_half(stores: Stores) -> None:
    memories = Memories(stores.open())
    memories.add("1", fact("whole"))
    command = [sys.executable, "-c", HALF, stores.url, str(stores.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
        assert process.stdout and process.stdout.readline() == b"in the middle\n"
        os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: memories.add("1", fact("after")), "the lock of the dead to be free")
    assert [one.text for one in memories.list("1")] == ["whole", "after"]
    assert [one.number for one in memories.list("1")] == [1, 2]


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgreSQL]:
    """One that may be stopped."""
    with postgresql_server() as running:
        yield running


def test_postgresql_stopped_and_started_again(own_server: PostgreSQL, tmp_path: Path) -> None:
    server = own_server
    database = Database(server.database(), tmp_path)
    turns = Turns(database)
    turns.store([said("a")])
    with database.reading(), database.reading():
        pass  # more than one connection in the pool
    try:
        server.stop()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="does not answer") as refused:
                turns.ids("1")
            assert "Check that it is running" in str(refused.value)
        with pytest.raises(StoreUnavailable):
            Database(database._url.render_as_string(hide_password=False), tmp_path).begin().__enter__()
    finally:
        server.start()
    assert turns.ids("1") == {"a:user": None}
    assert turns.store([said("b")]) == 1
    database.close()


def refusal(turns: Turns) -> bool:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        turns.ids("1")
    return True


def test_a_server_that_is_not_there_yet_is_taken_up_when_it_is(own_server: PostgreSQL, tmp_path: Path) -> None:
    server = own_server
    database = Database(server.database(), tmp_path)
    server.stop()
    try:
        assert at_once(lambda _: refusal(Turns(database)), 4) == [True] * 4
    finally:
        server.start()
    assert Turns(database).store([said("a")]) == 1
    server.stop()
    server.start()  # and nobody asked meanwhile: the one connection in the pool is dead
    assert Turns(database).ids("1") == {"a:user": None}
    database.close()


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


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(StoreUnavailable, match="does not answer"):
        Turns(Database(None, tmp_path / "state")).ids("1")


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
    assert turns.store([said("b")]) == 1
    database.close()


def test_what_was_forgotten_is_not_in_the_files(tmp_path: Path) -> None:
    database = Database(None, tmp_path)
    turns, memories = Turns(database), Memories(database)
    turns.store([said(f"t{n}", f"ordinary talk number {n}") for n in range(50)])
    turns.store([said("s", "the password is Xyzzyplugh")])
    kept = memories.add("1", fact("Xyzzyplugh opens it"))
    (tmp_path / "day-store.sqlite.before-0002").write_bytes(b"Xyzzyplugh")

    def holding() -> list[str]:
        return [file.name for file in sorted(tmp_path.iterdir()) if b"xyzzyplugh" in file.read_bytes().lower()]

    assert "day-store.sqlite.before-0002" in holding()
    assert len(holding()) > 1
    turns.remove("1", ["s:user"])
    memories.delete("1", kept.memory_id)
    database.scrub()
    assert holding() == []
    assert len(turns.ids("1")) == 50
    database.close()


def test_scrub_does_nothing_in_postgresql(server: PostgreSQL, tmp_path: Path) -> None:
    database = Database(server.database(), tmp_path)
    Turns(database).store([said("a")])
    database.scrub()
    assert len(Turns(database).ids("1")) == 1
    database.close()


# --- DAY_STORE_URL


@pytest.mark.parametrize(
    "url",
    ["postgres://u:p@h/d", "postgresql://u:p@h/d", "postgresql+psycopg://u:p@h/d"],
)
def test_postgresql_by_its_usual_names(url: str, tmp_path: Path) -> None:
    assert store_url(url, tmp_path).render_as_string(hide_password=False) == "postgresql+psycopg://u:p@h/d"


def test_sqlite_by_url_lies_where_it_says(tmp_path: Path) -> None:
    assert store_url("sqlite:///other.sqlite", tmp_path).database == str(tmp_path / "other.sqlite")
    assert store_url("sqlite:////x/y.sqlite", tmp_path).database == "/x/y.sqlite"
    assert store_url("", tmp_path).database == store_url(None, tmp_path).database == str(tmp_path / "day-store.sqlite")


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/d", "sqlite://", "sqlite:///:memory:", "hunter2",
                                 "postgresql://u:hunter2@h:port/d", "postgresql+asyncpg://u:hunter2@h/d"])  # fmt: skip
def test_other_urls_are_refused_without_showing_them(url: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="DAY_STORE_URL") as refused:
        Database(url, tmp_path)
    assert "hunter2" not in str(refused.value)


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
    assert said_so == "OSError: no entry for *** at h"


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
