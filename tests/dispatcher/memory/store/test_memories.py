"""Session summaries and typed memories of the day store, on SQLite and on PostgreSQL."""

from __future__ import annotations

import dataclasses

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories, Memory
from dispatcher.memory.store.summaries import Summaries
from tests.support.day.store_rows import DAY, GOAL, NOW, fact, summary
from tests.support.stores import Stores, at_once


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


def test_a_memory_comes_back_as_it_was_stored(database: Database) -> None:
    memories = Memories(database)
    whole = Memory(
        "1", GOAL, "Run a marathon", NOW, deadline=NOW + DAY, priority=2, importance=5, category="sport", session="s", source_turn="t:user",
        last_accessed=NOW, access_count=3, embedding=b"v", embedding_model="m",
    )  # fmt: skip
    kept = memories.add(whole)
    assert dataclasses.replace(kept, memory_id=0, number=0, uid="") == whole
    assert memories.by_number("1", 1) == kept
    assert memories.list("1") == [kept]
    assert memories.by_number("1", 2) is None


def test_numbers_are_the_chats_own_and_never_given_twice(database: Database) -> None:
    memories = Memories(database)
    for chat in ("1", "1", "2", "1"):
        memories.add(fact("x", chat))
    assert [one.number for one in memories.list("1")] == [1, 2, 3]
    assert [one.number for one in memories.list("1", limit=2)] == [2, 3]
    last = memories.by_number("1", 3)
    assert last and memories.delete("1", last.memory_id)
    assert memories.add(fact("y")).number == 4


def test_use_and_repetition_are_noted(database: Database) -> None:
    memories = Memories(database)
    made = [memories.add(fact(f"f{n}")) for n in range(3)]
    ids = [one.memory_id for one in made]
    assert memories.touch("1", [*ids[:2], ids[0], 999], NOW + 1) == 2
    memories.reinforce(made[0], NOW + 2)
    assert not memories.change("2", ids[0], last_accessed=NOW + 9)
    found = memories.list("1")
    assert [(one.access_count, one.last_accessed, one.importance) for one in found] == [(2, NOW + 2, 4), (1, NOW + 1, 3), (0, None, 3)]  # fmt: skip
    for _ in range(3):
        memories.reinforce(memories.list("1")[0], NOW)
    assert memories.list("1")[0].importance == 5


def test_reminders_are_taken_once_each(stores: Stores) -> None:
    memories = Memories(stores.open())
    for number, deadline in enumerate((NOW + 9, NOW + 1, NOW + 100, None)):
        memories.add(fact(f"g{number}", kind=GOAL, deadline=deadline))
    memories.add(fact("theirs", "2", GOAL, deadline=NOW + 5))
    memories.add(fact("no goal", deadline=NOW))
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
    one = memories.add(fact("x"))
    seen.add(memories.revision("1"))
    assert [found.memory_id for found in memories.needing_embedding("m", 9)] == [one.memory_id]
    assert memories.change("1", one.memory_id, None, embedding=b"v", embedding_model="m")
    seen.add(memories.revision("1"))
    assert memories.needing_embedding("m", 9) == []
    assert memories.list("1")[0].embedding == b"v"
    memories.touch("1", [one.memory_id], NOW)
    assert memories.revision("1") in seen  # use changes nothing that is cached
    memories.delete("1", one.memory_id)
    assert memories.revision("1") not in seen, "it changes also when the last one goes; numbers go on"
    assert len(seen) == 3
