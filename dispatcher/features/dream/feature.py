"""Typed memories that are put in order by night: changes that a model proposes and code judges; each is shown, and can be taken back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook
from shared.system.command import CommandEntry

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.answering.hooks import Core
    from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader
    from dispatcher.chat_data.forget.request import Scope
    from dispatcher.chat_data.hooks import Panel
    from dispatcher.memory.day.memory import DayMemory


@hook
def memory_commands() -> Sequence[CommandEntry]:
    summary = "What nights have changed of a chat's memories, as before and after; undo takes it back."
    return [CommandEntry("changes", "dispatcher.features.dream.command", summary)]


@hook
def dispatcher(core: Core) -> object:
    from dispatcher.features.dream.part import DreamPart

    return DreamPart(core)


@hook
def redis_entries(scope: Scope, reader: RedisReader) -> Iterable[RedisEntry]:
    from dispatcher.features.dream.records import requests_of

    return requests_of(scope.chats, reader)


@hook
def chat_panel(day: DayMemory, client: Redis, chat_id: str) -> Panel:
    from dispatcher.features.dream.changes import panel_of

    return panel_of(day, client, chat_id)


@hook
def act_in_panel(day: DayMemory, client: Redis, chat_id: str, words: str) -> str | None:
    from dispatcher.features.dream.changes import act
    from dispatcher.features.dream.putting_in_order import Dreaming
    from dispatcher.memory.day.requests import owner_task

    return act(Dreaming(day), client, owner_task(chat_id), words)


@hook
def morning_line(client: Redis, run: int) -> tuple[str, str] | None:
    from dispatcher.features.dream.records import line_of_night

    line = line_of_night(client, run)
    return (line, "/memory changes") if line else None
