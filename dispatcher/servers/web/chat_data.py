"""What the pages show of chats: which there are, when was something said, and one stretch of the talk."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from dispatcher.memory.day.history import look_back
from dispatcher.memory.day.open_memory import OpenedMemory
from dispatcher.memory.tombstones import hidden_by
from shared.errors import HmemError, StoreUnavailable
from shared.search.history import HistoryQuery
from shared.turns.origin_words import said_by
from shared.turns.records import Turn
from shared.turns.speakers import label, namesakes

#: Turns on one page of the talk.
PAGE_TURNS = 50


@dataclass(frozen=True)
class ChatLine:
    """A chat in the list: turns in the release, turns in the day store, and when the newest of those was said (POSIX seconds)."""

    chat_id: str
    released: int
    today: int
    newest: float | None


def all_chats(memory: OpenedMemory) -> tuple[list[ChatLine], list[str]]:
    """(the chats, those with the newest turns of the day first, then by id; why some may be missing)."""
    notes: list[str] = []
    release, why = memory.release_or_reason("The release cannot be read")
    notes += [why] if why else []
    released: dict[str, int] = {}
    day: dict[str, tuple[int, float]] = {}
    try:
        released = release.chats() if release else {}
    except HmemError as error:
        notes.append(str(error))
    try:
        day = memory.day.turns.chats() if memory.day.wanted else {}
    except StoreUnavailable as error:
        notes.append(str(error))
    lines = [
        ChatLine(chat_id, released.get(chat_id, 0), *day.get(chat_id, (0, None)))
        for chat_id in sorted(released.keys() | day.keys())
    ]
    return sorted(lines, key=lambda one: (-(one.newest or 0.0), -one.released, one.chat_id)), notes


def turn_times(memory: OpenedMemory, chat_id: str) -> list[float]:
    """When each turn of a chat was said that is not forgotten, ascending, in POSIX seconds."""
    release, _ = memory.release_or_reason("")
    times = dict(release.times(chat_id)) if release else {}
    if memory.day.wanted:
        times |= memory.day.turns.times(chat_id)
    hidden, before = hidden_by(memory.day.forgotten.of(chat_id))
    return sorted(at for turn, at in times.items() if turn not in hidden and (before is None or at >= before))


@dataclass(frozen=True)
class Day:
    """A day of the calendar; `level` is 0 to 4: how much was said, against the chat's days with the most."""

    date: str
    turns: int
    level: int


def calendar(times: Sequence[float], zone: ZoneInfo) -> dict[str, list[Day]]:
    """Month (`2026-11`) → its days on which something was said, the newest month first."""
    counts = Counter(datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d") for at in times)
    ordered = sorted(counts.values())
    months: dict[str, list[Day]] = {}
    for date in sorted(counts):
        share = bisect_left(ordered, counts[date]) / len(ordered)
        months.setdefault(date[:7], []).append(Day(date, counts[date], 1 + min(3, int(4 * share))))
    return dict(sorted(months.items(), reverse=True))


@dataclass(frozen=True)
class Said:
    """A turn as it is shown."""

    turn: Turn
    who: str

    @property
    def mine(self) -> bool:
        """Whether the bot said it."""
        return self.turn.role != "user"


@dataclass(frozen=True)
class TalkStretch:
    """Some turns in order of time, and from where the neighbouring pages are read: POSIX seconds before which, None for none."""

    said: list[Said]
    older: float | None
    newer: float | None
    newest: bool
    notes: list[str]


def stretch(memory: OpenedMemory, chat_id: str, until: float | None) -> TalkStretch:
    """The last PAGE_TURNS turns before `until` (POSIX seconds; None: of all). Turns of one moment are never separated."""
    times = turn_times(memory, chat_id)
    end = len(times) if until is None else bisect_left(times, until)
    first = bisect_left(times, times[max(0, end - PAGE_TURNS)]) if end else 0
    release, why = memory.release_or_reason("The release cannot be read")
    notes = [why] if why else []
    said: list[Said] = []
    if end:
        asked = HistoryQuery(chat_id, max(1, 4 * (end - first)), since=times[first], until=until)
        found = look_back(memory.day, release, asked)
        notes += [str(found.away)] if found.away else []
        said = labelled(found.found.turns, found.speakers)
    later = end + PAGE_TURNS
    return TalkStretch(
        said,
        older=times[first] if first else None,
        newer=times[later] if later < len(times) else None,
        newest=end == len(times),
        notes=notes,
    )


def labelled(turns: Sequence[Turn], speakers: frozenset[tuple[str, str, str | None]]) -> list[Said]:
    marks = namesakes(speakers)
    return [
        Said(turn, said_by(label(turn.role, turn.speaker, marks.get(turn.person, "")), turn.origin)) for turn in turns
    ]
