"""Actions of the day store, applied once each, on SQLite and on PostgreSQL."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import Connection

from dispatcher.memory.store.actions import Actions
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories
from tests.support.day.store_rows import fact
from tests.support.stores import Stores, at_once


def test_an_action_is_applied_once_with_its_effect(database: Database) -> None:
    actions, memories = Actions(database), Memories(database)

    def remember(connection: Connection) -> str:
        return f"remembered {memories.add(fact('x'), connection=connection).number}"

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
            kept = memories.add(fact(f"by {number}"), connection=connection)
            time.sleep(0.1)  # the others come meanwhile
            return kept.text

        return Actions(connections[number]).apply_once("1", "task", 1, "fact", remember)

    outcomes = at_once(finish, 6)
    (kept,) = Memories(connections[0]).list("1")
    assert outcomes == [kept.text] * 6
