"""What a test keeps in the day store: turns of today, and memories."""

from __future__ import annotations

import time
from contextlib import closing, nullcontext

from dispatcher.memory.day.memory import DayMemory
from shared.turns.records import Task, Turn
from tests.support.world import World

MAY = 1_778_241_900.0  # 2026-05-08 12:05 UTC


def of_today(world: World, *turns: Turn) -> None:
    """Into the day store, as the consolidator does."""
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        day.upkeep.store_turns(turns)


def keep(world: World, text: str, chat: str = "9912", kind: str = "fact") -> None:
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        day.acting.add(Task(f"keep-{len(text)}", chat, ""), text, time.time(), kind=kind)
