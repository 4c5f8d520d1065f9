"""What features add to the owner's view of a chat, and what of theirs is forgotten with it (shared/hooks.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.hooks import specification

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader
    from dispatcher.chat_data.forget.request import Scope
    from dispatcher.memory.day.memory import DayMemory


@dataclass(frozen=True)
class PanelEntry:
    """A text of several lines, and what can be done about it: (label, words for `act_in_panel`); `number`: of the memory that it is about, if any."""

    text: str
    actions: Sequence[tuple[str, str]] = ()
    number: int = 0


@dataclass(frozen=True)
class Panel:
    """A part of a chat's page."""

    title: str
    entries: Sequence[PanelEntry]


@specification(fails="open")
def chat_panel(day: DayMemory, client: Redis, chat_id: str) -> Panel | None:
    """What the feature shows of a chat."""


@specification(fails="closed")
def act_in_panel(day: DayMemory, client: Redis, chat_id: str, words: str) -> str | None:
    """The owner chose an action: what was done, as a sentence; None for words that are not the feature's. It may come twice."""


@specification(fails="closed")
def redis_entries(scope: Scope, reader: RedisReader) -> Iterable[RedisEntry] | None:
    """What a scope covers of the feature's values in Redis, beside CHAT_KEYS and CHAT_TABLES (shared/hooks.py)."""
