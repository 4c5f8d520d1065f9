"""Rows for the tests of the day store, and what tests keep there: turns of today, and memories."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing, nullcontext
from typing import Any

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.store.memories import Memory, MemoryType
from dispatcher.memory.store.summaries import SessionSummary
from dispatcher.memory.store.turns import StoredTurn
from shared.turns.records import Task, Turn
from tests.support.world import World

MAY = 1_778_241_900.0  # 2026-05-08 12:05 UTC
NOW = 1_800_000_000.0
DAY = 86_400.0
FACT, GOAL, DONE, PREFERENCE = MemoryType.FACT, MemoryType.GOAL, MemoryType.COMPLETED_GOAL, MemoryType.PREFERENCE


def said(task: str, content: str = "hello", chat: str = "1", at: float = NOW, **more: Any) -> Turn:
    return Turn(task, more.pop("role", "user"), chat, content, at, **more)


def fact(body: str, chat: str = "1", kind: MemoryType = FACT, **more: Any) -> Memory:
    return Memory(chat, kind, body, more.pop("created", NOW), **more)


def summary(*turn_ids: str, chat: str = "1", session: str = "s", at: float = NOW, **more: Any) -> SessionSummary:
    return SessionSummary(chat, session, "in short", at - 60, at, at, turn_ids, **more)


def contents(found: Collection[StoredTurn]) -> list[str]:
    return [one.turn.content for one in found]


def of_today(world: World, *turns: Turn) -> None:
    """Into the day store, as the consolidator does."""
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        day.upkeep.store_turns(turns)


def keep(world: World, text: str, chat: str = "9912", kind: str = "fact") -> None:
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        day.acting.add(Task(f"keep-{len(text)}", chat, ""), text, time.time(), kind=kind)
