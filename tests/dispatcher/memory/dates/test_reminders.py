"""Reminders: at a decent hour by the chat's clock, once, and in the chat's language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.memory.dates.coming_times import read_coming
from dispatcher.memory.dates.reminders import EARLIEST_SECONDS, language_of_answers, reminder_text, reminder_time
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.store.memories import Memory, MemoryType
from dispatcher.queue.consolidation.rounds import Consolidator
from shared.text.translations import speaking
from shared.turns.records import Turn
from tests.support.world import World

BERLIN = ZoneInfo("Europe/Berlin")
CHAT = "9912"


def at(said: str, zone: ZoneInfo = BERLIN) -> float:
    return datetime.fromisoformat(said).replace(tzinfo=zone).timestamp()


def reminded(words: str, made: str, zone: ZoneInfo = BERLIN) -> str | None:
    """When a goal is reminded of that was made at a time for what its words name."""
    deadline = read_coming(words, at(made, zone), zone)
    assert deadline
    found = reminder_time(deadline.at, at(made, zone), zone)
    return found and datetime.fromtimestamp(found, zone).strftime("%Y-%m-%dT%H:%M")  # type: ignore[return-value]


@pytest.mark.parametrize(("words", "made", "when"), [
    # A day: the evening before, by the wall clock.
    ("Thursday", "2026-11-23T10:00", "2026-11-25T18:00"), ("Thursday", "2026-11-25T17:59", "2026-11-25T18:00"),
    # Made later than that: the morning of the day, then its evening, then not at all.
    ("tomorrow", "2026-11-25T20:00", "2026-11-26T09:00"), ("today", "2026-11-26T08:00", "2026-11-26T09:00"),
    ("today", "2026-11-26T09:30", "2026-11-26T18:00"), ("today", "2026-11-26T18:00", None),
    # A time of day: an hour before.
    ("Thursday 15:00", "2026-11-23T10:00", "2026-11-26T14:00"), ("Thursday 9:00", "2026-11-23T10:00", "2026-11-26T08:00"),
    # That would be in the night: the evening before, if it was known by then.
    ("Thursday 8:30", "2026-11-23T10:00", "2026-11-25T18:00"), ("Thursday 06:00", "2026-11-25T22:00", "2026-11-26T05:00"),
    ("Thursday 0:30", "2026-11-23T10:00", "2026-11-25T18:00"),
    # Made within its last hour: when it is due.
    ("today at 15:00", "2026-11-26T14:30", "2026-11-26T15:00"),
    # Days of 23 and 25 hours.
    ("2026-10-25", "2026-10-20T10:00", "2026-10-24T18:00"), ("2026-10-26", "2026-10-20T10:00", "2026-10-25T18:00"),
    ("2026-03-29", "2026-03-20T10:00", "2026-03-28T18:00"), ("2026-03-30", "2026-03-20T10:00", "2026-03-29T18:00"),
])  # fmt: skip
def test_when_a_goal_is_reminded_of(words: str, made: str, when: str | None) -> None:
    assert reminded(words, made) == when


def test_the_clock_is_the_chats() -> None:
    assert reminded("Thursday", "2026-11-23T10:00", ZoneInfo("Asia/Tokyo")) == "2026-11-25T18:00"


@settings(max_examples=100)
@given(
    st.integers(1_704_067_200, 2_114_380_799).map(float),
    st.integers(0, 40 * 24 * 60),
    st.booleans(),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Santiago", "Asia/Kolkata", "Pacific/Apia"]).map(ZoneInfo),
)
def test_a_reminder_is_never_before_its_goal_nor_after_its_end(
    made: float, minutes: int, whole_day: bool, zone: ZoneInfo
) -> None:
    deadline = made + 60 * minutes
    if whole_day:
        day = datetime.fromtimestamp(deadline, zone).date()
        deadline = datetime.combine(day + timedelta(1), time.min, zone).timestamp() - 1
    when = reminder_time(deadline, made, zone)
    if when is not None:
        assert made < when <= deadline
        assert deadline - when <= EARLIEST_SECONDS


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "Reminder: “Zahnarzt” is due Thursday 3 December 2026, 15:00 (tomorrow)."),
        ("de", "Erinnerung: „Zahnarzt“ ist fällig: Donnerstag, 3. Dezember 2026, 15:00 (morgen)."),
        ("ru", "Напоминание: «Zahnarzt». Срок: четверг, 3 декабря 2026 г., 15:00 (завтра)."),
    ],
)
def test_a_reminder_is_in_the_language_that_is_spoken(language: str, said: str) -> None:
    due = at("2026-12-03T15:00")
    with speaking(language):
        assert reminder_text("Zahnarzt", due, at("2026-12-02T18:00"), BERLIN) == said
        assert "15:00" in reminder_text("Zahnarzt", due, at("2026-12-03T16:00"), BERLIN)


@pytest.mark.parametrize(
    ("text", "answers", "language"),
    [
        ("call the dentist", ["de", "de", None], "de"),
        ("den Zahnarzt anrufen", [None], None),
        ("call the dentist", [], "en"),
        ("позвонить зубному", [], "ru"),
        ("appeler le dentiste", [], "fr"),
        ("den Zahnarzt anrufen", [], "de"),
    ],
)
def test_the_language_is_that_of_the_answers_else_of_the_goal(
    text: str, answers: list[str | None], language: str | None
) -> None:
    asked = [Turn("q", "user", CHAT, "hi", 0.0, extra={"language": one} if one else {}) for one in answers]
    assert language_of_answers(asked, text) == language


@pytest.fixture
def berlin(world: World) -> Iterator[DayMemory]:
    with closing(
        DayMemory(world.settings(chat_timezone="Europe/Berlin", memory_deadline_ms=10_000), nullcontext)
    ) as day:
        yield day


def outbox(world: World) -> list[str]:
    raws: Any = world.redis.lrange("hcli:mem:outbox:main", 0, -1)
    return [json.loads(raw)["text"] for raw in raws]


def test_a_goal_for_thursday_is_reminded_of_on_wednesday_evening_and_once(world: World, berlin: DayMemory) -> None:
    monday = at("2026-11-23T10:00")
    languages: list[dict[str, Any]] = [
        {"language": "de"},
        {},
        {"language": "de"},
    ]  # of the answers to the chat's questions
    asked = [Turn(f"q{number}", "user", CHAT, "hi", monday, extra=extra) for number, extra in enumerate(languages)]
    berlin.upkeep.store_turns(
        [*asked, Turn("q0", "asst", CHAT, "hello", monday), Turn("q1", "asst", CHAT, "hello", monday)]
    )
    for text, words in (("Steuererklärung abgeben", "Donnerstag"), ("den Zahnarzt anrufen", "Donnerstag um 15 Uhr")):
        deadline = read_coming(words, monday, BERLIN)
        assert deadline
        berlin.memories.add(Memory(CHAT, MemoryType.GOAL, text, monday, deadline=deadline.at))
    said: dict[str, list[str]] = {}
    for when in ("24T12:00", "25T17:59", "25T18:00", "25T18:30", "26T13:59", "26T14:00", "26T15:00", "26T23:59"):
        now, before = at(f"2026-11-{when}"), len(outbox(world))
        Consolidator(berlin, world.redis, "worker", lambda: now).round()  # noqa: B023 - run at once; a new one is a restart
        if new := outbox(world)[before:]:
            said[when] = new
    assert said == {
        "25T18:00": ["Erinnerung: „Steuererklärung abgeben“ ist fällig: Donnerstag, 26. November 2026 (morgen)."],
        "26T14:00": ["Erinnerung: „den Zahnarzt anrufen“ ist fällig: Donnerstag, 26. November 2026, 15:00 (heute)."],
    }
