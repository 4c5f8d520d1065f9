"""Facts and goals in the prompt: what comes first, what has room, what stays identical to the byte, and nothing twice."""

from __future__ import annotations

import time
from zoneinfo import ZoneInfo

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.store.memories import Memory, MemoryType
from dispatcher.memory.store.summaries import SessionSummary
from dispatcher.memory.typed.text import (
    PROFILE_CHARACTERS,
    listing,
    noted_text,
    profile,
    profile_text,
)
from dispatcher.prompt.assemble import assemble
from dispatcher.prompt.context import Context

NOW = 1_800_000_000.0  # Friday 15 January 2027, 08:00 UTC
DAY = 86_400.0
UTC = ZoneInfo("UTC")
FACT, GOAL, DONE, PREFERENCE = MemoryType.FACT, MemoryType.GOAL, MemoryType.COMPLETED_GOAL, MemoryType.PREFERENCE


def memory(text: str, kind: MemoryType = FACT, number: int = 1, **more: float | int) -> Memory:
    return Memory("9912", kind, text, more.pop("created", NOW), memory_id=number, number=number, **more)  # type: ignore[arg-type]


KEPT = [
    memory("old fact", number=1, created=NOW - DAY), memory("new fact", number=2),
    memory("weighty fact", number=3, created=NOW - 9 * DAY, importance=5), memory("some day", GOAL, 4),
    memory("later", GOAL, 5, deadline=NOW + 40 * DAY), memory("tomorrow", GOAL, 6, deadline=NOW + DAY),
    memory("missed", GOAL, 7, deadline=NOW - DAY), memory("short answers", PREFERENCE, 8), memory("swum", DONE, 9, completed_at=NOW - 2 * DAY),
]  # fmt: skip


def test_the_order_and_the_words_are_exactly_these() -> None:
    assert profile_text(KEPT, None, None, NOW, UTC)[0] == (
        "7. noted 15 January 2027, goal: missed (OVERDUE since Thursday 14 January 2027, 08:00)\n"
        "6. noted 15 January 2027, goal: tomorrow (by Saturday 16 January 2027, 08:00 (tomorrow))\n"
        "8. noted 15 January 2027, preference: short answers\n"
        "5. noted 15 January 2027, goal: later (by Wednesday 24 February 2027, 08:00)\n4. noted 15 January 2027, goal: some day\n"
        "3. noted 6 January 2027: weighty fact\n2. noted 15 January 2027: new fact\n1. noted 14 January 2027: old fact"
    )
    assert profile_text([], None, None, NOW, UTC) == ("", set())
    assert (
        noted_text(KEPT[:2], {}, NOW, UTC) == "2. noted 15 January 2027: new fact\n1. noted 14 January 2027: old fact"
    )


def test_facts_stand_in_every_prompt_only_if_all_of_them_have_room() -> None:
    facts = [memory(f"fact {n} of some words", number=n) for n in range(100, 140)]
    assert profile([*KEPT, *facts], None, NOW, UTC) == [KEPT[n] for n in (6, 5, 7, 4, 3)]
    due = memory("the plumber comes", number=50, deadline=NOW + 3600)
    assert profile([*facts, due], None, NOW, UTC) == [due], "but one that is due today"
    wishes = [memory(f"wants thing number {n} done properly", PREFERENCE, n) for n in range(100, 140)]
    text, shown = profile_text(wishes, None, None, NOW, UTC)
    assert len(text) <= PROFILE_CHARACTERS
    assert len(shown) == len(text.splitlines()) > 5


def test_a_listing_has_every_memory_with_its_number() -> None:
    told = listing(KEPT, NOW, UTC)
    assert [part.splitlines()[0] for part in told.split("\n\n")] == [
        "Facts:", "Active Goals:", "Preferences:", "Completed goals:",
    ]  # fmt: skip
    for one in KEPT:
        assert f"{one.number}. {one.text}" in told
    assert listing([], NOW, UTC) == "Facts:\n(none)\n\nActive Goals:\n(none)\n\nPreferences:\n(none)"


def parts(context: Context) -> dict[str, str]:
    return {part.name: part.text for part in context.parts}


def test_what_every_prompt_has_is_not_told_again_as_relevant(day: DayMemory) -> None:
    zoo = "ant bear cat dog eel fox gnu hen ibis jay kiwi".split()
    for number, animal in enumerate(zoo):
        day.remembering.add(
            "9912", FACT, f"The user once saw a {animal} at the harbour of Ostend in summer", now=NOW + number
        )
    day.remembering.add("9912", FACT, "The wifi password at the cottage is heron-4711", now=NOW - DAY)
    day.remembering.add("9912", PREFERENCE, "Wants short answers", now=NOW - DAY)
    settings = day.settings.model_copy(update={"memory_tokens": 600})
    told = []
    for animal in (*zoo, "the wifi password of the cottage"):
        context = assemble(PromptRequest("9912", f"tell me about {animal}", count_access=False), settings, None, day)
        found = parts(context)
        told.append(found)
        assert not set(found["profile"].splitlines()) & set(found.get("facts", "").splitlines())
        assert context.tokens <= 600
    assert len({found["profile"] for found in told}) == 1, "identical to the byte whatever is asked"
    assert "heron-4711" not in told[-1]["profile"]
    assert "heron-4711" in told[-1]["facts"]
    assert "heron-4711" not in told[0].get("facts", "")


def test_a_session_that_ended_within_a_day_is_told_and_none_of_another_chat(day: DayMemory) -> None:
    now = time.time()
    for chat, word, ended in (("9912", "canary", now - 700), ("9912", "heron", now - 90_000), ("77", "raven", now)):
        text, turns = f"- user: the {word} sings", (f"{word}:user",)
        day.summaries.store(SessionSummary(chat, word, text, ended - 60, ended, ended, turns))
    assert day.context(PromptRequest("9912", "hello"), day.settings).earlier == "- user: the canary sings"
