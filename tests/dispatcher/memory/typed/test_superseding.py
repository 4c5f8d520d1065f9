"""A newer fact in place of an older one: said, shown with dates, not told as valid, and undone with the newer one forgotten; facts with a date."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.chat_data.forget.request import ForgetRequest, Scope
from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.store.memories import MemoryType
from dispatcher.memory.typed.text import line, listing, profile_text
from shared.config.settings import load_settings
from shared.turns.records import Task
from tests.support.day.acting import BERLIN, DAY, NOW, SAID, Dies, Host

FACT, GOAL = MemoryType.FACT, MemoryType.GOAL
BLUE, GREEN, RED = (f"The user's favourite colour is {colour}" for colour in ("blue", "green", "red"))


def shown(host: Host, now: float = NOW) -> str:
    held = host.remembering.of_chat(SAID)
    every = {one.memory_id: one for one in held.every}
    return listing(held.shown, now, BERLIN, {one: every[by] for one, by in held.superseded.items()})


def test_a_correction_is_said_and_takes_the_place_of_what_it_corrects(host: Host) -> None:
    assert host.answer(f"[REMEMBER CODE: {BLUE}]", "t1") == []
    for _ in range(2):  # the task may run again
        answer = f"[REMEMBER CODE: {GREEN} | REPLACES: 1]"
        assert host.answer(answer, "t2", now=NOW + DAY) == [f"Noted; this replaces: {BLUE}"]
    assert host.texts() == [("fact", GREEN)]
    held = host.remembering.of_chat(SAID)
    assert BLUE not in profile_text(held.memories, None, None, NOW, BERLIN)[0]
    assert [one.text for one in host.remembering.relevant(held, "favourite colour blue", 5, now=NOW)] == [GREEN]
    assert shown(host, NOW + 9 * DAY).splitlines()[-2:] == [
        "Superseded:",
        f"1. {BLUE} (noted Friday 15 January 2027, 09:00; replaced on Saturday 16 January 2027, 09:00 by number 2)",
    ]
    said = host.acting.correct(Task("t3", SAID, ""), 2, RED, NOW + 2 * DAY).say
    assert said == f"Saved as number 3: {RED}. This replaces number 2."
    assert host.texts() == [("fact", RED)]


def test_what_nobody_says_replaces_stays_and_a_near_one_is_named(host: Host) -> None:
    host.answer("[REMEMBER CODE: The user's wife is vegetarian]")
    assert host.answer("[REMEMBER CODE: The user's wife is vegan]", "t2") == [
        "Noted. Number 1 is very similar: The user's wife is vegetarian"
    ]
    held = host.remembering.of_chat(SAID)
    assert [one.number for one in held.memories] == [1, 2]
    assert host.remembering.nearest(held, held.memories[1]) == held.memories[0]
    assert host.answer("[REMEMBER CODE: Max has a dog]", "t3") == []


def test_what_was_replaced_comes_back_with_the_newer_one_forgotten(host: Host) -> None:
    for at, text in enumerate((BLUE, GREEN, RED)):
        host.answer(
            f"[REMEMBER CODE: {text} | REPLACES: {at}]" if at else f"[REMEMBER CODE: {text}]", f"t{at}", now=NOW + at
        )
    said = host.acting.forget(Task("f1", SAID, ""), 2, NOW).say
    assert said == "Forgotten. I will not mention it again.", "nothing is valid again"
    assert host.texts() == [("fact", RED)], "blue is still replaced, by red now"
    (said,) = host.answer("[FORGET CODE: the favourite colour]", "f2")
    assert said == f"Forgotten. I will not mention it again. What it replaced is valid again: {BLUE}"
    assert host.texts() == [("fact", BLUE)]


def test_what_was_replaced_is_back_before_the_newer_one_is_removed(host: Host, embedder: DayEmbedder) -> None:
    host.answer(f"[REMEMBER CODE: {BLUE}]", "t1")
    host.answer(f"[REMEMBER CODE: {GREEN} | REPLACES: 1]", "t2")
    host.forgotten.dies = "after"
    with pytest.raises(Dies):
        host.acting.forget(Task("f1", SAID, ""), 2, NOW)
    after = Host(host.root, embedder)
    assert after.texts() == [("fact", BLUE)]
    assert len(after.memories.list(SAID)) == 2
    after.database.close()


def test_other_words_are_kept_with_what_they_repeat_and_found(host: Host) -> None:
    host.answer("[REMEMBER CODE: The user has a cat called Mishka]", "t1")
    host.answer("[REMEMBER CODE: The user has a cat named Mishka]", "t2")
    (cat,) = host.memories.list(SAID)
    assert (cat.text, cat.wordings, cat.importance) == ("The user has a cat called Mishka", ("The user has a cat named Mishka",), 4)  # fmt: skip
    assert "(also phrased as: The user has a cat named Mishka)" in shown(host)
    assert profile_text(host.remembering.of_chat(SAID).memories, None, None, NOW, BERLIN)[0].count("Mishka") == 1
    host.answer("[REMEMBER CODE: the user has a cat named mishka]", "t3")
    (cat,) = host.memories.list(SAID)
    assert len(cat.wordings) == 1
    assert set(host.remembering.of_chat(SAID).index.shares("named")) == {0}, "by its other words"


def test_a_memory_is_forgotten_by_any_of_its_wordings(host: Host) -> None:
    """By a wish and by the owner's `hmem forget --matching`; the scan afterwards looks for all of them."""
    host.answer("[REMEMBER CODE: The user lives in Lyon]", "t1")
    (home,) = host.memories.list(SAID)
    host.memories.change(SAID, home.memory_id, wordings=["Her flat is in Rue Zanzibar"])
    with closing(StoreLayer(load_settings(hmem_state_dir=host.root / "state"))) as layer:
        found = layer.find(Scope(ForgetRequest("matching", text="Rue Zanzibar"), []))
        assert [one.memory_id for one in found.memories] == [home.memory_id]
        assert set(found.texts) == {"The user lives in Lyon", "Her flat is in Rue Zanzibar"}
        assert "Her flat is in Rue Zanzibar" in list(layer.texts())
    (said,) = host.answer("[FORGET CODE: her flat in Rue Zanzibar]", "f1")
    assert said.startswith("Forgotten.")
    assert host.memories.list(SAID) == []


def test_a_goal_with_another_deadline_keeps_what_it_had_replaced_replaced(host: Host) -> None:
    goals = [
        ("goal is to weigh 70 kg", NOW + 5 * DAY),
        ("goal is to weigh 65 kg", NOW + 5 * DAY),
        ("goal is to weigh 65 kg", NOW + 9 * DAY),
    ]
    for at, (text, deadline) in enumerate(goals):
        old = host.memories.list(SAID)[:1] if at == 1 else []
        host.remembering.add(SAID, GOAL, text, now=NOW + at, deadline=deadline, replaced=old)
    assert host.texts() == [("goal", "goal is to weigh 65 kg")]
    (goal,) = host.remembering.of_chat(SAID).memories
    assert goal.deadline == NOW + 9 * DAY


def test_a_list_that_is_imported_replaces_nothing_and_brings_back_nothing_old(host: Host) -> None:
    host.answer(f"[REMEMBER CODE: {BLUE}]", "t1")
    host.answer(f"[REMEMBER CODE: {GREEN} | REPLACES: 1]", "t2")
    told: list[tuple[str, float | None, dict[str, Any]]] = [(BLUE, None, {}), (RED, NOW - DAY, {}), (GREEN, NOW, {})]
    for _ in range(2):
        for one in host.remembering.new_ones(SAID, FACT, told):
            host.memories.add(one)
        assert host.texts() == [("fact", GREEN), ("fact", RED)], "a list may be imported again"
    (blue,) = host.remembering.new_ones(SAID, FACT, [(BLUE, NOW + 2 * DAY, {})])
    assert blue.text == BLUE, "blue again, later"


def test_a_fact_is_told_with_its_date_and_as_past_when_it_has_passed(host: Host) -> None:
    host.answer(
        "[REMEMBER CODE: The engineer comes | ON: 2027-01-21]\n[REMEMBER CODE: The pass is valid | UNTIL: 2027-01-21]",
        "t1",
    )
    comes, valid = host.memories.list(SAID)
    assert line(comes, NOW, BERLIN) == "The engineer comes (on Thursday 21 January 2027)"
    assert line(valid, NOW, BERLIN) == "The pass is valid (until Thursday 21 January 2027)"
    later = NOW + 8 * DAY
    assert line(comes, later, BERLIN) == "The engineer comes (was on Thursday 21 January 2027)"
    assert line(valid, later, BERLIN) == "The pass is valid (was until Thursday 21 January 2027)"
    assert "Past:\n" in shown(host, later)
    assert host.memories.due(later, 9) == [], "nobody is reminded of a fact"
    assert host.answer("[REMEMBER CODE: The engineer comes | ON: 2027-01-28]", "t2", now=later) == [
        "Noted; this replaces: The engineer comes"
    ], "another Thursday"
    assert line(host.remembering.of_chat(SAID).memories[-1], later, BERLIN).endswith("(on Thursday 28 January 2027)")


def test_a_goals_priority_is_kept_and_shown(host: Host) -> None:
    host.answer("[GOAL CODE: finish the tax return | DEADLINE: Friday | PRIORITY: 2]\n[GOAL CODE: swim]")
    assert [one.priority for one in host.memories.list(SAID)] == [2, 0]
    assert "[priority 2]" in shown(host)
    assert shown(host).count("priority") == 1
