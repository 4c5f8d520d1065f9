"""A chat reaches only its own rows of the day store, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from dispatcher.memory.store.actions import Actions
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories
from dispatcher.memory.store.rows import own
from dispatcher.memory.store.summaries import Summaries
from dispatcher.memory.store.turns import Turns
from shared.errors import InvalidInput
from tests.support.day.store_rows import NOW, contents, fact, said, summary

#: `é` in one character and in two: alike to the eye, two chats.
ODD_CHATS = (
    "-100123", "100123", "a' OR 1=1 --", "*", "%", "_", "caf\u00e9", "cafe\u0301", 'a"b', "NULL", "\\", "A", "a",
)  # fmt: skip


def test_a_chat_sees_only_itself_whatever_its_name(database: Database) -> None:
    turns, memories, summaries = Turns(database), Memories(database), Summaries(database)
    for chat in ODD_CHATS:
        turns.store([said("t", f"secret of {chat}", chat, session="s")])
        memories.add(fact(f"secret of {chat}", chat, embedding=b"v", embedding_model="m"))
        summaries.store(summary("t:user", chat=chat))
    for chat in ODD_CHATS:
        for found in (turns.newest(chat, 99), turns.of_session(chat, "s")):
            assert contents(found) == [f"secret of {chat}"]
        assert [one.content for one in turns.back(chat)] == [f"secret of {chat}"]
        assert [(one.text, one.number) for one in memories.list(chat)] == [(f"secret of {chat}", 1)]
        assert [one.chat_id for one in summaries.containing(chat, ["t:user"])] == [chat]
    own = {one.chat_id: one.memory_id for chat in ODD_CHATS for one in memories.list(chat)}
    assert {chat: kept.memory_id for chat in ODD_CHATS if (kept := memories.by_number(chat, 1))} == own
    others = [memory_id for chat, memory_id in own.items() if chat != "*"]
    assert not any(memories.delete("*", memory_id) for memory_id in others)
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


def test_a_chat_id_or_an_importance_that_could_not_be_kept_is_refused(database: Database) -> None:
    for chat in ("", "a\x00b", "\ud800"):
        with pytest.raises(InvalidInput, match="is not a chat id"):
            Turns(database).ids(chat)
        with pytest.raises(InvalidInput):
            Memories(database).add(fact("x", chat))
        with pytest.raises(InvalidInput):
            Actions(database).apply_once(chat, "t", 1, "fact", lambda _: "")
    with pytest.raises(InvalidInput, match="1 to 5"):
        Memories(database).add(fact("x", importance=6))
    assert Memories(database).count() == 0
