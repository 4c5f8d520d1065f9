"""History: the turns of one chat from the release and the day together, in the order of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.tombstones import hidden_by
from shared.errors import StoreUnavailable
from shared.search.history import HistoryQuery, TurnHistory, history
from shared.search.recall import OpenRelease
from shared.turns.speakers import Speaker


@dataclass(frozen=True)
class DayAndRelease:
    """The turns; `today`: whether the day was read; `known`: whether any turn of the chat exists; `away`: why the day could not be read;
    `speakers`: everybody who spoke in the chat, because two of one name are told apart wherever only one of them is shown, too."""

    found: TurnHistory
    today: bool
    known: bool
    away: StoreUnavailable | None
    speakers: frozenset[Speaker]


def look_back(day: DayMemory, release: OpenRelease | None, asked: HistoryQuery) -> DayAndRelease:
    """A chat's turns of release and day together, in the order of time, without forgotten ones; for a turn of both the day's text counts.

    StorageError if the tombstones cannot be read; and the errors of `history`.
    """
    chat_id, away = asked.chat_id, None
    hidden, before = hidden_by(day.forgotten.of(chat_id))
    if before is not None:
        asked = replace(asked, since=before if asked.since is None else max(asked.since, before))
    of_day: Mapping[str, str | None] = {}
    try:
        of_day = day.turns.ids(chat_id) if day.wanted else {}
    except StoreUnavailable as error:
        away = error
    turns = day.turns.back(chat_id, asked.since, asked.until) if of_day else ()
    found = history(asked, release, turns, of_day, hidden)
    known = bool(of_day) or (release is not None and release.has(chat_id))
    speakers = day.turns.speakers(chat_id) if of_day else set[Speaker]()
    if release is not None:
        speakers |= release.speakers(chat_id)
    return DayAndRelease(found, day.wanted and away is None, known, away, frozenset(speakers))
