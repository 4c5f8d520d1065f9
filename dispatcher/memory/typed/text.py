"""Typed memories as text: the part of the prompt, and what `/memory` and `hmem memory list` show. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.memory.store.whose import is_own, is_own_or_shared, speaker_labels
from shared.text.caches import cached
from shared.text.format import one_line, shorten
from shared.text.translations import later, tr
from shared.text.translations.dates import day_shown

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory

#: The longest that a memory is shown.
LINE_CHARACTERS = 300
RELEVANT_TITLE = "RELEVANT MEMORIES:"
REPLACED_ON = later("(noted {noted}; replaced on {replaced} by number {number})")
#: Rendered texts of memories and deadlines in the cache: enough for several chats.
CACHED_TEXTS = 50_000


@dataclass(frozen=True)
class SpokenText:
    """A text of memories, and the id of the memory in each of its lines (None for a heading)."""

    text: str
    ids: Sequence[int | None]

    def shown(self, room: int) -> set[int]:
        """Ids of the memories whose line is inside the first `room` characters."""
        inside = self.text[:room].count("\n")
        return {one for one in self.ids[:inside] if one is not None}


class CachedMemories(list["Memory"]):
    """Memories that no longer change, with what every prompt derives from them: 5,000 take 0.1 s the first time."""

    @cached_property
    def order(self) -> dict[str, list[Memory]]:
        return _ordered(self)

    @cached_property
    def deadlines(self) -> list[float]:
        return [one.deadline for some in self.order.values() for one in some if one.deadline is not None]

    def text(self, now: float, zone: ZoneInfo) -> str:
        """The same until a deadline passes or a day ends."""
        key = zone, datetime.fromtimestamp(now, zone).date(), sum(at < now for at in self.deadlines)
        rendered = self.__dict__.get("rendered")
        if rendered is None or rendered[0] != key:
            self.__dict__["rendered"] = rendered = key, _text(self.order, now, zone)
        return str(rendered[1])


def prompt_order(memories: Sequence[Memory]) -> dict[str, list[Memory]]:
    """Headings with their memories, the most important first, because a text that is cut loses its end.

    Preferences and facts: by importance, then newest first. Goals: by deadline; those without one come last, by priority.
    """
    return memories.order if isinstance(memories, CachedMemories) else _ordered(memories)


def _ordered(memories: Sequence[Memory]) -> dict[str, list[Memory]]:
    weighed = sorted(memories, key=lambda memory: (-memory.importance, -memory.created, memory.number))
    goals = sorted(
        (memory for memory in weighed if memory.type == "goal"),
        key=lambda memory: (memory.deadline is None, memory.deadline or 0.0, -memory.priority),
    )
    return {
        "Preferences:": [memory for memory in weighed if memory.type == "preference"],
        "Active Goals:": goals,
        "Facts:": [memory for memory in weighed if memory.type == "fact"],
    }


def prompt_text(memories: Sequence[Memory], now: float, zone: ZoneInfo) -> str:
    """The facts part of a prompt. The same memories give the same bytes until a deadline passes, or a day ends ("tomorrow" is then today)."""
    return memories.text(now, zone) if isinstance(memories, CachedMemories) else _text(_ordered(memories), now, zone)


def _text(order: dict[str, list[Memory]], now: float, zone: ZoneInfo) -> str:
    lines: list[str] = []
    for heading, some in order.items():
        if some:
            lines += [heading, *(line(memory, now, zone) for memory in some)]
    return "\n".join(lines)


#: Headings of a group's memories: {kind} is one of `prompt_order`'s, {who} the person who asks.
OWN, SHARED, OTHERS = (
    "{kind} of {who}, who asks now:",
    "{kind} of the whole chat:",
    "{kind} of others, each after their name:",
)


def of_people(memories: Sequence[Memory], user: str | None, name: str | None, now: float, zone: ZoneInfo) -> SpokenText:
    """The facts part of a prompt in a group: first what `user`, who asks (None: nobody), said themselves, then the chat's, then the others'."""
    labels = speaker_labels(memories, (user, name) if user else None)
    order, lines, ids = prompt_order(memories), list[str](), list[int | None]()

    def add(title: str, some: Sequence[Memory], *, named: bool = False) -> None:
        if some:
            lines.append(title)
            lines.extend(named_line(memory, labels if named else {}, now, zone) for memory in some)
            ids.extend([None, *(memory.memory_id for memory in some)])

    for heading, some in order.items() if user else ():
        who = f"{labels[str(user)]} (user id {user})"
        add(OWN.format(kind=heading.rstrip(":"), who=who), [one for one in some if is_own(one, user)])
    for heading, some in order.items():
        add(SHARED.format(kind=heading.rstrip(":")), [one for one in some if one.user_id is None])
    for heading, some in order.items():
        add(
            OTHERS.format(kind=heading.rstrip(":")),
            [one for one in some if not is_own_or_shared(one, user)],
            named=True,
        )
    return SpokenText("\n".join(lines), ids)


def named_line(memory: Memory, labels: Mapping[str, str], now: float, zone: ZoneInfo) -> str:
    """`- Bob: text`, of a memory whose speaker has a label."""
    text = line(memory, now, zone)
    who = labels.get(memory.user_id or "")
    return f"- {who}: {text.removeprefix('- ')}" if who else text


def first_lines(text: str, characters: int) -> str:
    """The whole lines that may fit into a prompt: otherwise each answer would look through 300,000 characters for 5,000 memories."""
    return text if len(text) <= characters else text[: characters + 1].rpartition("\n")[0]


def shown(memories: Sequence[Memory], text: str, room: int, now: float, zone: ZoneInfo) -> set[int]:
    """Ids of the memories whose line is inside the first `room` characters of the facts; they are in the order of the text."""
    inside = text[:room].rpartition("\n")[0].splitlines()
    return {memory.memory_id for memory in memories[: len(inside)] if line(memory, now, zone) in inside}


def relevant_text(memories: Sequence[Memory], now: float, zone: ZoneInfo, labels: Mapping[str, str] = {}) -> str:
    """The part of a prompt for memories that are relevant to this message; `labels`: of a group's speakers."""
    return "\n".join([RELEVANT_TITLE, *(named_line(one, labels, now, zone) for one in memories)]) if memories else ""


def line(memory: Memory, now: float, zone: ZoneInfo) -> str:
    """`- text (by Friday 27 November 2026)`; a goal whose deadline has passed is marked as overdue."""
    text = _line(memory.text)
    return text if memory.deadline is None and memory.completed_at is None else text + _when(memory, now, zone)


@cached(CACHED_TEXTS)
def _line(text: str) -> str:
    return f"- {shorten(one_line(text), LINE_CHARACTERS)}"


@cached(CACHED_TEXTS)
def _date(at: float, zone: ZoneInfo, today: date) -> str:
    from dispatcher.memory.dates.reminders import when_text

    return when_text(at, datetime(today.year, today.month, today.day, 12, tzinfo=zone).timestamp(), zone, "en")


def _when(memory: Memory, now: float, zone: ZoneInfo) -> str:
    today = datetime.fromtimestamp(now, zone).date()
    if memory.type == "completed_goal" and memory.completed_at:
        return f" (done, {_date(memory.completed_at, zone, today)})"
    if memory.type not in ("goal", "fact") or memory.deadline is None:
        return ""
    day = _date(memory.deadline, zone, today)
    if memory.type == "fact":
        return f" (was on {day})" if memory.deadline < now else f" (on {day})"
    return f" (OVERDUE since {day})" if memory.deadline < now else f" (by {day})"


def shown_line(memory: Memory, labels: Mapping[str, str], now: float, zone: ZoneInfo) -> str:
    """The same as `named_line` for a person, in their language, without its dash."""
    who, text = labels.get(memory.user_id or ""), shorten(one_line(memory.text), LINE_CHARACTERS)
    text = f"{who}: {text}" if who else text
    if memory.type == "completed_goal" and memory.completed_at:
        return tr("{text} (done, {day})").format(text=text, day=day_shown(memory.completed_at, now, zone))
    if memory.type not in ("goal", "fact") or memory.deadline is None:
        return text
    past, ahead = _SHOWN[str(memory.type)]
    day = day_shown(memory.deadline, now, zone)
    return tr(past if memory.deadline < now else ahead).format(text=text, day=day)


#: A fact and a goal whose date has passed, and one whose date is to come.
_SHOWN = {
    "fact": (later("{text} (was on {day})"), later("{text} (on {day})")),
    "goal": (later("{text} (OVERDUE since {day})"), later("{text} (by {day})")),
}


def listing(
    memories: Sequence[Memory], now: float, zone: ZoneInfo, superseded: Mapping[int, Memory] | None = None
) -> str:
    """The answer to `/memory`: each memory with the number that `/memory forget` takes. `superseded`: memory id → its replacement."""
    replaced, labels = superseded or {}, speaker_labels(memories)
    found: list[str] = []
    for title, some in listed(memories, now, replaced).items():
        if not some and title in ("Completed goals:", "Past:", "Superseded:"):
            continue
        lines = [numbered(one, replaced.get(one.memory_id), now, zone, labels) for one in some] or [tr("(none)")]
        found.append("\n".join([tr(title), *lines]))
    return "\n\n".join(found)


def listed(memories: Sequence[Memory], now: float, superseded: Mapping[int, Memory]) -> dict[str, list[Memory]]:
    """Headings of the list (in English) with their memories, in its order."""
    valid = [memory for memory in memories if memory.memory_id not in superseded]
    ordered = prompt_order(valid)
    facts = ordered["Facts:"]
    return {
        later("Facts:"): [one for one in facts if not is_over(one, now)],
        later("Active Goals:"): ordered["Active Goals:"],
        later("Preferences:"): ordered["Preferences:"],
        later("Completed goals:"): [memory for memory in valid if memory.type == "completed_goal"],
        later("Past:"): [one for one in facts if is_over(one, now)],
        later("Superseded:"): [memory for memory in memories if memory.memory_id in superseded],
    }


def numbered(memory: Memory, newer: Memory | None, now: float, zone: ZoneInfo, labels: Mapping[str, str] = {}) -> str:
    """A line of the list; `newer` has replaced it; `labels`: of a group's speakers."""
    notes = [f"{memory.number}. {shown_line(memory, labels, now, zone)}"]
    if memory.priority:
        notes.append(tr("[priority {priority}]").format(priority=memory.priority))
    if memory.wordings:
        also = "; ".join(shorten(one_line(wording), LINE_CHARACTERS) for wording in memory.wordings)
        notes.append(tr("(also phrased as: {texts})").format(texts=also))
    if newer:
        noted, since = day_shown(memory.created, now, zone), memory.superseded_at
        sentence = tr("(noted {noted}; replaced by number {number})") if since is None else tr(REPLACED_ON)
        replaced = "" if since is None else day_shown(since, now, zone)
        notes.append(sentence.format(noted=noted, replaced=replaced, number=newer.number))
    return " ".join(notes)


def is_over(memory: Memory, now: float) -> bool:
    """Whether the date of a fact has passed."""
    return memory.type == "fact" and memory.deadline is not None and memory.deadline < now
