"""Typed memories as text: the part of the prompt, and what `/memory` and `hmem memory list` show. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.memory.store.whose import is_own_or_shared, speaker_labels
from shared.text.caches import cached
from shared.text.format import day_text, fitting, line_size, one_line, shorten
from shared.text.translations import later, speaking, tr
from shared.text.translations.dates import day_shown
from shared.turns.speakers import label

if TYPE_CHECKING:
    from dispatcher.memory.hooks import Coming
    from dispatcher.memory.store.memories import Memory

#: The longest that a memory is shown.
LINE_CHARACTERS = 300
REPLACED_ON = later("(noted {noted}; replaced on {replaced} by number {number})")
#: The most of what stands in every prompt of a person: 120 tokens.
PROFILE_CHARACTERS = 480
#: A date this near comes first. Seconds: what was due today or yesterday, and what is due today or tomorrow.
NEAR_SECONDS = 36 * 3600.0
#: Rendered texts of memories and deadlines in the cache: enough for several chats.
CACHED_TEXTS = 50_000


def prompt_order(memories: Sequence[Memory]) -> dict[str, list[Memory]]:
    """Headings with their memories, the most important first, because a text that is cut loses its end.

    Preferences and facts: by importance, then newest first. Goals: by deadline; those without one come last, by priority.
    """
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


def profile(memories: Sequence[Memory], user: str | None, now: float, zone: ZoneInfo) -> list[Memory]:
    """What stands in every prompt of a person, within PROFILE_CHARACTERS: dates that are near, preferences, then goals by deadline; facts only if all
    of it fits. `user` is who asks in a group: of what somebody said there, only theirs and the chat's own."""
    order = prompt_order(memories)
    if any(memory.user_id for memory in memories):
        order = {kind: [one for one in some if is_own_or_shared(one, user)] for kind, some in order.items()}
    preferences, goals, facts = order.values()
    near = sorted((one for one in [*goals, *facts] if _is_near(one, now)), key=lambda one: one.deadline or 0.0)
    found = list({one.memory_id: one for one in [*near, *preferences, *goals]}.values())
    everything = list({one.memory_id: one for one in [*found, *facts]}.values())

    def that_fit(some: list[Memory]) -> list[Memory]:
        return fitting(
            some, PROFILE_CHARACTERS, newest=False, size=lambda one: line_size(noted_line(one, {}, now, zone))
        )

    all_fit = len(that_fit(everything)) == len(everything)
    return everything if all_fit else that_fit(found)


def _is_near(memory: Memory, now: float) -> bool:
    return memory.deadline is not None and abs(memory.deadline - now) <= NEAR_SECONDS


#: Stands ahead of a profile in a group.
WHO_ASKS = "Of {who}, who asks now, and of the whole chat:"


def profile_text(
    memories: Sequence[Memory], user: str | None, name: str | None, now: float, zone: ZoneInfo
) -> tuple[str, set[int]]:
    """The profile as a part of a prompt, and the ids of the memories in it; in a group under who asks (`user`; None: nobody)."""
    found = profile(memories, user, now, zone)
    lines = [noted_line(one, {}, now, zone) for one in found]
    if lines and user and any(memory.user_id for memory in memories):
        who = speaker_labels(memories, (user, name))[user]
        lines.insert(0, WHO_ASKS.format(who=f"{who} (user id {user})"))
    return "\n".join(lines), {one.memory_id for one in found}


def noted_text(memories: Sequence[Memory], labels: Mapping[str, str], now: float, zone: ZoneInfo) -> str:
    """Memories that bear on a message, the newest first; `labels`: of a group's speakers."""
    newest = sorted(memories, key=lambda memory: -memory.created)
    return "\n".join(noted_line(one, labels, now, zone) for one in newest)


def coming_lines(found: Iterable[Coming], asker: str | None, now: float, zone: ZoneInfo) -> list[str]:
    """`- 4 November 2026, reminder, set by Bob: text (Friday 27 November 2026, 07:00)`; who set it unless that is who asks (a user id)."""
    today = datetime.fromtimestamp(now, zone).date()
    return [
        f"- {day_text(one.created, zone)}, {one.kind}{_set_by(one, asker)}: "
        f"{shorten(one_line(one.text), LINE_CHARACTERS)} ({_date(one.at, zone, today)})"
        for one in found
    ]


def _set_by(one: Coming, asker: str | None) -> str:
    return f", set by {label('user', one.name)}" if one.name and one.user_id != asker else ""


def noted_line(memory: Memory, labels: Mapping[str, str], now: float, zone: ZoneInfo) -> str:
    """`12. noted 4 November 2026, goal, told by Bob: text (by Friday 27 November 2026)`: its number, the day on which it was noted, what it is unless
    a fact, and who of a group told it."""
    kind = "" if memory.type == "fact" else f", {str(memory.type).replace('_', ' ')}"
    teller = f", told by {who}" if (who := labels.get(memory.user_id or "")) else ""
    return f"{memory.number}. noted {day_text(memory.created, zone)}{kind}{teller}: {line(memory, now, zone)}"


def named_line(memory: Memory, labels: Mapping[str, str], now: float, zone: ZoneInfo) -> str:
    """`Bob: text`, of a memory whose speaker has a label."""
    text, who = line(memory, now, zone), labels.get(memory.user_id or "")
    return f"{who}: {text}" if who else text


def line(memory: Memory, now: float, zone: ZoneInfo) -> str:
    """`text (by Friday 27 November 2026)`; a goal whose deadline has passed is marked as overdue."""
    text = _line(memory.text)
    return text if memory.deadline is None and memory.completed_at is None else text + _when(memory, now, zone)


@cached(CACHED_TEXTS)
def _line(text: str) -> str:
    return shorten(one_line(text), LINE_CHARACTERS)


@cached(CACHED_TEXTS)
def _date(at: float, zone: ZoneInfo, today: date) -> str:
    with speaking("en"):
        return day_shown(at, datetime(today.year, today.month, today.day, 12, tzinfo=zone).timestamp(), zone)


def _when(memory: Memory, now: float, zone: ZoneInfo) -> str:
    today = datetime.fromtimestamp(now, zone).date()
    if memory.type == "completed_goal" and memory.completed_at:
        return f" (done, {_date(memory.completed_at, zone, today)})"
    if memory.type not in ("goal", "fact") or memory.deadline is None:
        return ""
    day = _date(memory.deadline, zone, today)
    if memory.type == "fact" and _says_day(memory.text, memory.deadline, zone):
        near = _NEAR.search(day)
        return " (over)" if memory.deadline < now else near[0] if near else ""
    if memory.type == "fact":
        until = "until" if memory.category == "until" else "on"
        return f" (was {until} {day})" if memory.deadline < now else f" ({until} {day})"
    return f" (OVERDUE since {day})" if memory.deadline < now else f" (by {day})"


#: "(today)", "(tomorrow)" at the end of a date.
_NEAR = re.compile(r" \(\w+\)\Z")


def _says_day(text: str, at: float, zone: ZoneInfo) -> bool:
    """Whether a text names the day itself: its number, and its month in English, or as a number after it."""
    day = datetime.fromtimestamp(at, zone)
    month = f"{day:%b}"
    named = rf"(?<!\d)0?{day.day}(?:(?:st|nd|rd|th)?\.? (?:of )?{month}|[./]0?{day.month}(?!\d))|{month}\w*\.? {day.day}(?!\d)|{day:%Y-%m-%d}"
    return re.search(named, text, re.IGNORECASE) is not None


def shown_line(memory: Memory, labels: Mapping[str, str], now: float, zone: ZoneInfo) -> str:
    """The same as `named_line` for a person, in their language."""
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
        noted, replaced = (day_shown(at, now, zone) for at in (memory.created, memory.superseded_at or newer.created))
        notes.append(tr(REPLACED_ON).format(noted=noted, replaced=replaced, number=newer.number))
    return " ".join(notes)


def is_over(memory: Memory, now: float) -> bool:
    """Whether the date of a fact has passed."""
    return memory.type == "fact" and memory.deadline is not None and memory.deadline < now
