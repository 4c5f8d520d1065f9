"""A chat's typed memories as people look through them in the chat: pages of the list, and one entry with all that is known of it. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dispatcher.memory.store.whose import speaker_labels
from dispatcher.memory.typed.text import is_over, listed, listing, numbered
from shared.text.format import one_line, shorten, time_text
from shared.text.translations import later, tr, tr_count
from shared.text.translations.dates import date_at

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.typed.chat_memories import ChatMemories
    from shared.turns.records import Turn

#: Entries of a page: their numbers make one row of buttons.
PER_PAGE = 8
#: The longest that a source message is quoted, and the most that are.
QUOTED_CHARACTERS, QUOTED_TURNS = 300, 3
_KINDS = {
    "fact": later("{number}. Fact: {text}"),
    "goal": later("{number}. Goal: {text}"),
    "completed_goal": later("{number}. Completed goal: {text}"),
    "preference": later("{number}. Preference: {text}"),
}
REPLACED_ON = later("Replaced on {day} by number {number}: {text}")
NO_SOURCE = later("From a command or an import, or from a message that I no longer have.")


@dataclass(frozen=True)
class MemoryPage:
    """`numbers` are those of its entries, as they stand in the text; pages count from 1."""

    text: str
    numbers: tuple[int, ...]
    page: int
    pages: int


@dataclass(frozen=True)
class MemoryEntry:
    """One entry: `page` is where it is listed; `open_goal`: it can be marked as done; `valid`: nothing has replaced it.

    `user_id`: in a group, of who said it."""

    text: str
    number: int
    page: int
    open_goal: bool
    valid: bool
    user_id: str | None = None


def memory_page(known: ChatMemories, page: int, now: float, zone: ZoneInfo) -> MemoryPage:
    """A page of the list; the nearest one there is. A list of one page shows its empty headings, too."""
    newer, labels = known.successors, speaker_labels(known.shown)
    entries = _entries(known.shown, now, newer)
    pages = max(1, -(-len(entries) // PER_PAGE))
    page = min(max(1, page), pages)
    some = entries[(page - 1) * PER_PAGE : page * PER_PAGE]
    numbers = tuple(memory.number for _, memory in some)
    if pages == 1:
        return MemoryPage(listing(known.shown, now, zone, newer), numbers, 1, 1)
    parts = [
        "\n".join([tr(title), *(numbered(one, newer.get(one.memory_id), now, zone, labels) for _, one in group)])
        for title, group in groupby(some, key=lambda entry: entry[0])
    ]
    below = tr("Page {page} of {pages}.").format(page=page, pages=pages)
    if page < pages:
        below += " " + tr("/memory page {page} shows the next.").format(page=page + 1)
    return MemoryPage("\n\n".join([*parts, below]), numbers, page, pages)


def memory_entry(
    known: ChatMemories, memory: Memory, sources: Sequence[Turn], now: float, zone: ZoneInfo
) -> MemoryEntry:
    """`sources`: the messages that it comes from, as far as they are known."""
    newer = known.successors
    order = [one.memory_id for _, one in _entries(known.shown, now, newer)]
    page = order.index(memory.memory_id) // PER_PAGE + 1 if memory.memory_id in order else 1
    lines = [
        tr(_KINDS[str(memory.type)]).format(number=memory.number, text=memory.text),
        "",
        tr("Noted on {day}.").format(day=date_at(memory.created, zone)),
        *([tr("Said by {name}.").format(name=speaker_labels(known.shown)[memory.user_id])] if memory.user_id else []),
        *_times(memory, now, zone),
        *([tr("Priority: {priority}.").format(priority=memory.priority)] if memory.priority else []),
        *_wordings(memory),
        *_replacements(known, memory, newer, zone),
        *_origin(sources, zone),
    ]
    valid = memory.memory_id not in newer
    return MemoryEntry("\n".join(lines), memory.number, page, valid and memory.type == "goal", valid, memory.user_id)


def _wordings(memory: Memory) -> list[str]:
    if not memory.wordings:
        return []
    return [tr("Also phrased as: {texts}").format(texts="; ".join(map(one_line, memory.wordings)))]


def _entries(memories: Sequence[Memory], now: float, newer: Mapping[int, Memory]) -> list[tuple[str, Memory]]:
    return [(title, memory) for title, some in listed(memories, now, newer).items() for memory in some]


def _times(memory: Memory, now: float, zone: ZoneInfo) -> list[str]:
    lines = []
    if memory.type == "fact" and memory.deadline is not None:
        text = tr("It was about {day}.") if is_over(memory, now) else tr("It is about {day}.")
        lines.append(text.format(day=date_at(memory.deadline, zone)))
    elif memory.deadline is not None:
        overdue = memory.type == "goal" and memory.deadline < now
        text = tr("Deadline: {time}. It is overdue.") if overdue else tr("Deadline: {time}.")
        lines.append(text.format(time=time_text(memory.deadline, zone)))
    if memory.completed_at is not None:
        lines.append(tr("Done on {day}.").format(day=date_at(memory.completed_at, zone)))
    return lines


def _replacements(known: ChatMemories, memory: Memory, newer: Mapping[int, Memory], zone: ZoneInfo) -> list[str]:
    lines = []
    if by := newer.get(memory.memory_id):
        day, quoted = date_at(memory.superseded_at or by.created, zone), shorten(one_line(by.text), QUOTED_CHARACTERS)
        lines.append(tr(REPLACED_ON).format(day=day, number=by.number, text=quoted))
    lines += [
        tr("It replaces number {number}: {text}").format(
            number=one.number, text=shorten(one_line(one.text), QUOTED_CHARACTERS)
        )
        for one in known.shown
        if (successor := newer.get(one.memory_id)) and successor.memory_id == memory.memory_id
    ]
    return lines


def _origin(sources: Sequence[Turn], zone: ZoneInfo) -> list[str]:
    if not sources:
        return [tr(NO_SOURCE)]
    quoted = [
        tr("From {time}, {name}: {text}").format(
            time=time_text(turn.timestamp, zone),
            name=turn.speaker,
            text=shorten(one_line(turn.content), QUOTED_CHARACTERS),
        )
        for turn in sources[:QUOTED_TURNS]
    ]
    left = len(sources) - QUOTED_TURNS
    if left <= 0:
        return quoted
    more = tr_count("… and from {count} more message", "… and from {count} more messages", left)
    return [*quoted, more.format(count=left)]


def as_json(memory: Memory, newer: Mapping[int, int]) -> dict[str, Any]:
    """A memory for `--json`; `newer`: id of a superseded memory → number of its successor."""
    left_out: tuple[str, ...] = ("chat_id", "memory_id", "embedding")
    by = newer.get(memory.memory_id)
    since = memory.superseded_at if by else None
    left_out += () if memory.user_id else ("user_id", "name")
    fields = {name: value for name, value in vars(memory).items() if name not in left_out}
    return fields | {"superseded_by": by, "superseded_at": since, "valid": by is None}
