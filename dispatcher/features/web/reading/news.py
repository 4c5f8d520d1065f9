"""What was learned since yesterday began, and what is due: of every chat that may be seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from redis import Redis

from dispatcher.chat_data.hooks import PanelEntry, chat_panel
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.typed.chat_memories import marks_of
from shared.hooks import features

if TYPE_CHECKING:
    from dispatcher.memory.hooks import Coming
    from dispatcher.memory.store.memories import Memory

#: Memories that are read to find the new ones, and shown; days ahead, and entries, of what is due.
READ, SHOWN, DAYS_AHEAD, MOST_DUE = 200, 25, 14, 25


@dataclass(frozen=True)
class NewMemory:
    """A memory, what it replaced, and what else than forgetting it can take it back: (label, words for `act_in_panel`)."""

    memory: Memory
    before: Sequence[Memory] = ()
    actions: Sequence[tuple[str, str]] = ()


def yesterday(now: float, zone: ZoneInfo) -> float:
    """When the day before began, in POSIX seconds."""
    day = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return (day - timedelta(days=1)).timestamp()


def learned(day: DayMemory, client: Redis, chats: Collection[str] | None, since: float) -> tuple[list[NewMemory], int]:
    """(the newest of what was noted since then, how many there are, READ at most)."""
    hidden = _hidden(day)
    new = [one for one in day.memories.newest(READ, chats) if one.created >= since and one.uid not in hidden]
    shown = new[:SHOWN]
    before: dict[int, list[Memory]] = {}
    for one in day.memories.replaced_by([one.memory_id for one in shown]):
        if one.uid not in hidden:
            before.setdefault(one.superseded_by or 0, []).append(one)
    panels = {chat_id: _by_number(day, client, chat_id) for chat_id in dict.fromkeys(one.chat_id for one in shown)}
    found = []
    for one in shown:
        entry = panels[one.chat_id].get(one.number)
        found.append(NewMemory(one, before.get(one.memory_id, ()), entry.actions if entry else ()))
    return found, len(new)


def _by_number(day: DayMemory, client: Redis, chat_id: str) -> Mapping[int, PanelEntry]:
    panels = features().ask(chat_panel, day=day, client=client, chat_id=chat_id)
    return {entry.number: entry for panel in panels for entry in panel.entries if entry.number}


def due(day: DayMemory, sees: Collection[str] | None, now: float) -> list[tuple[float, str, Memory | Coming]]:
    """(when, chat, the goal or reminder), the most urgent first."""
    until, hidden = now + DAYS_AHEAD * 86_400, _hidden(day)
    goals = [one for one in day.memories.goals(until, MOST_DUE, sees) if one.uid not in hidden]
    found: list[tuple[float, str, Memory | Coming]] = [(one.deadline or 0.0, one.chat_id, one) for one in goals]
    found += [(one.at, one.chat_id, one) for one in day.coming(sees, until)]
    return sorted(found, key=lambda one: one[0])[:MOST_DUE]


def _hidden(day: DayMemory) -> frozenset[str]:
    """Uids of memories that are forgotten, and that a crash has left."""
    return marks_of(day.forgotten.all())
