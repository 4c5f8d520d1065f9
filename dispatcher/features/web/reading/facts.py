"""One chat's facts as the page shows them: the newest first, each with what it replaced; and its days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.memory.store.whose import speaker_labels
from dispatcher.memory.typed.text import named_line
from shared.text.format import date_text

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.store.summaries import SessionSummary
    from dispatcher.memory.typed.chat_memories import ChatMemories
    from shared.search.types import HiddenTurns


@dataclass(frozen=True)
class ShownMemory:
    """A valid memory as a line, what it replaced (the newest first), and a turn (its id) that it comes from, "" for none."""

    memory: Memory
    line: str
    before: Sequence[Memory]
    source: str


def shown_memories(known: ChatMemories, now: float, zone: ZoneInfo, words: str, kind: str) -> list[ShownMemory]:
    """Those that hold the words and are of the kind, "" for all; the newest first."""
    labels = speaker_labels(known.shown)
    before: dict[int, list[Memory]] = {}
    for one in known.shown:
        if one.memory_id in known.superseded:
            before.setdefault(_valid(known.superseded, one.memory_id), []).append(one)
    found = []
    for one in sorted(known.memories, key=lambda one: (-one.created, -one.number)):
        replaced, line = before.get(one.memory_id, [])[::-1], named_line(one, labels, now, zone)
        texts = "\n".join([line, *one.texts, *(old.text for old in replaced)])
        if words.lower() in texts.lower() and kind in ("", str(one.type).removeprefix("completed_")):
            found.append(ShownMemory(one, line, replaced, (one.source_turn or "").partition(" ")[0]))
    return found


def _valid(successors: Mapping[int, int], memory_id: int) -> int:
    """What has its place in the end."""
    for _ in successors:
        if memory_id not in successors:
            break
        memory_id = successors[memory_id]
    return memory_id


@dataclass
class ChatDay:
    """What a day brought: turns, facts that were noted, and summaries of its conversations."""

    date: str
    turns: int = 0
    facts: list[str] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)

    @property
    def month(self) -> str:
        return self.date[:7]


def days_of(
    times: Iterable[float],
    memories: Iterable[Memory],
    summaries: Iterable[SessionSummary],
    hidden: HiddenTurns,
    zone: ZoneInfo,
) -> list[ChatDay]:
    """The days on which something was said or noted, the newest first; `times`: of the turns, in POSIX seconds."""
    days = {date: ChatDay(date, turns) for date, turns in Counter(date_text(at, zone) for at in times).items()}

    def of(at: float) -> ChatDay:
        date = date_text(at, zone)
        return days.setdefault(date, ChatDay(date))

    for memory in memories:
        of(memory.created).facts.append(memory.text)
    for one in summaries:
        early = hidden.before is not None and one.started_at < hidden.before
        if not early and hidden.turn_ids.isdisjoint(one.turn_ids):
            of(one.ended_at).summaries.append(one.text)
    return sorted(days.values(), key=lambda one: one.date, reverse=True)
