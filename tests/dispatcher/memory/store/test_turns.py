"""Turns of the day store, on SQLite and on PostgreSQL."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories
from dispatcher.memory.store.summaries import Summaries
from dispatcher.memory.store.turns import StoredTurn, Turns
from tests.support.day.store_rows import DAY, NOW, contents, fact, said, summary


def test_a_turn_comes_back_as_it_was_stored(database: Database) -> None:
    turns = Turns(database)
    whole = said(
        "t1", "Hello Wörld", "-100123", 1.5, name="Ann", session="s1", extra={"x": [1, "\ud800"]}, user_id="7"
    )  # fmt: skip
    turns.store([whole])
    assert turns.newest("-100123", 10) == [StoredTurn(whole)]
    assert turns.update_embedding(whole, b"\0\1", "m")
    (found,) = turns.newest("-100123", 10)
    assert found == StoredTurn(whole, b"\0\1", "m")
    assert found.turn.extra == {"x": [1, "\ud800"]}


def test_storing_again_replaces(database: Database) -> None:
    turns = Turns(database)
    turns.store([said("a"), said("b"), said("a", role="asst")])
    turns.store([said("a", "changed", session="later"), said("c")])
    turns.store([])
    assert sorted(contents(turns.newest("1", 10))) == ["changed", "hello", "hello", "hello"]
    assert turns.ids("1") == {"a:user": "later", "b:user": None, "a:asst": None, "c:user": None}


def test_a_vector_stays_with_its_text_only(database: Database) -> None:
    turns = Turns(database)
    turns.store([said("a")])
    turns.update_embedding(said("a"), b"v", "m")
    turns.store([said("a", session="s")])
    assert turns.newest("1", 1)[0].embedding == b"v"
    turns.store([said("a", "another text")])
    assert turns.newest("1", 1)[0].embedding is None
    assert turns.newest("1", 1)[0].embedding_model is None


def test_recent_turns_are_the_newest_in_the_order_of_time(database: Database) -> None:
    turns = Turns(database)
    turns.store([said(f"t{n}", str(n), at=NOW - n * DAY) for n in range(10)])
    assert contents(turns.newest("1", 3)) == ["2", "1", "0"]
    assert turns.newest("1", 0) == []
    turns.store([said("q", "question", at=NOW + 5), said("r", "answer", at=NOW + 5)])  # one clock reading: as they came
    assert contents(turns.newest("1", 2)) == ["question", "answer"]


def test_nul_and_lone_surrogates_become_the_replacement_character(database: Database) -> None:
    turns = Turns(database)
    turns.store([said("a", "nul\x00 half\ud83d", name="N\x00", session="s\ud800", extra={"k\x00": "\ud800"})])
    (found,) = turns.of_session("1", "s\ud800")
    assert (found.turn.content, found.turn.name) == ("nul\ufffd half\ufffd", "N\ufffd")
    assert found.turn.extra == {"k\x00": "\ud800"}  # JSON writes them as escapes: they survive
    memories = Memories(database)
    kept = memories.add(fact("a\x00b\udfff", category="\x00"))
    assert memories.by_number("1", kept.number) == kept
    assert (kept.text, kept.category) == ("a\ufffdb\ufffd", "\ufffd")
    Summaries(database).store(dataclasses.replace(summary("t"), text="\x00"))
    assert Summaries(database).list("1", 1)[0].text == "\ufffd"


def test_embeddings_are_filled_in_later(database: Database) -> None:
    turns = Turns(database)
    turns.store([said("a", at=1), said("b", at=3, chat="2"), said("c", at=2), said("d")])
    turns.update_embedding(said("c"), b"v", "old")
    turns.update_embedding(said("d"), b"v", "new")
    assert [one.turn.turn_id for one in turns.needing_embedding("new", 9)] == ["b:user", "a:user", "c:user"]
    assert len(turns.needing_embedding("new", 2)) == 2
    assert turns.update_embedding(said("b", chat="2"), b"vec", "new")
    assert turns.update_embedding(said("c"), None, "new")  # the model cannot embed it
    assert not turns.update_embedding(said("a", chat="2"), b"vec", "new")  # another chat's
    assert not turns.update_embedding(said("a", "what it was before"), b"vec", "new")
    assert [one.turn.turn_id for one in turns.needing_embedding("new", 9)] == ["a:user"]
    assert turns.newest("2", 9)[0].embedding == b"vec"


def test_removal_by_id(database: Database) -> None:
    turns = Turns(database)
    for chat in ("1", "2"):
        turns.store([said(f"t{n}", f"word{n}", chat, at=NOW + n) for n in range(600)])
    assert turns.remove("1", [f"t{n}:user" for n in range(550)] + ["t0:user", "unknown:user"]) == 550
    assert turns.remove("1", []) == 0
    assert set(turns.ids("1")) == {f"t{n}:user" for n in range(550, 600)}
    assert len(turns.ids("2")) == 600


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
