"""What the pages show of one chat's talk: when was something said, and one stretch of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.memory.day.open_memory import OpenedMemory
from dispatcher.memory.tombstones import hidden_by
from shared.turns.origin_words import labels_of
from shared.turns.records import Turn
from shared.turns.speakers import Speaker

#: Turns on one page of the talk.
PAGE_TURNS = 50


def turn_times(memory: OpenedMemory, chat_id: str) -> list[tuple[float, str]]:
    """(when it was said in POSIX seconds, turn id) of each turn of a chat that is not forgotten, in the order of the talk."""
    release, _ = memory.release_or_reason("")
    times = dict(release.times(chat_id)) if release else {}
    if memory.day.wanted:
        times |= memory.day.turns.times(chat_id)
    hidden, before = hidden_by(memory.day.forgotten.of(chat_id))
    kept = ((at, turn) for turn, at in times.items() if turn not in hidden and (before is None or at >= before))
    return sorted(kept, key=_talk_order)


def _talk_order(timed: tuple[float, str]) -> tuple[float, str, bool]:
    """As `time_order` (shared/turns/records.py), by a turn's id."""
    task_id, _, role = timed[1].rpartition(":")
    return timed[0], task_id, role != "user"


@dataclass(frozen=True)
class TalkStretch:
    """Some turns in order of time, each with who said it; `older` and `newer`: where the neighbouring pages end, as numbers of turns, None for
    none."""

    said: list[tuple[Turn, str]]
    older: int | None
    newer: int | None
    notes: list[str]


def stretch(
    memory: OpenedMemory, chat_id: str, *, end: int | None = None, until: float | None = None, around: str = ""
) -> TalkStretch:
    """PAGE_TURNS turns: those around a turn (its id), before the turn number `end`, before the time `until` (POSIX seconds), or else the newest."""
    timed = turn_times(memory, chat_id)
    if around:
        at = next((number for number, (_, turn) in enumerate(timed) if turn == around), len(timed))
        end = at + PAGE_TURNS // 2
    if end is None:
        end = len(timed) if until is None else bisect_left(timed, (until, ""))
    end = min(end, len(timed))
    first = max(0, end - PAGE_TURNS)
    ids = [turn for _, turn in timed[first:end]]
    found = turns_of(memory, chat_id, ids)
    release, why = memory.release_or_reason("The release cannot be read")
    speakers = release.speakers(chat_id) if release else set[Speaker]()
    if memory.day.wanted:
        speakers |= memory.day.turns.speakers(chat_id)
    turns = [found[turn] for turn in ids if turn in found]
    return TalkStretch(
        list(zip(turns, labels_of(turns, speakers), strict=True)),
        older=first if first else None,
        newer=min(end + PAGE_TURNS, len(timed)) if end < len(timed) else None,
        notes=[why] if why else [],
    )


def turns_of(memory: OpenedMemory, chat_id: str, ids: Sequence[str]) -> dict[str, Turn]:
    """These turns of a chat, by id, as far as they are there; of one in release and day, the day's text counts."""
    release, _ = memory.release_or_reason("")
    found = dict(release.turns(chat_id, ids)) if release else {}
    if memory.day.wanted:
        found |= {one.turn.turn_id: one.turn for one in memory.day.turns.named(chat_id, ids)}
    return found
