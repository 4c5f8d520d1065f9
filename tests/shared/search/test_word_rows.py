"""What a search shows: typed memories among the turns, a span of time, parts of words, and scores that can be compared."""

from __future__ import annotations

import json
import time
from contextlib import closing, nullcontext
from typing import Any

import numpy as np
import pytest

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from shared.ranking.scoring import Question, words_share
from shared.turns.records import Task, Turn
from tests.support.samples import posting
from tests.support.world import World

NOW = time.time()
DAY = 86_400.0


def keep(world: World, text: str, kind: str = "fact", chat: str = "9912") -> None:
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        day.open()
        day.acting.add(Task(f"k{hash(text)}", chat, ""), text, NOW, kind=kind)


def today(world: World, *texts: str, chat: str = "9912") -> None:
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        day.upkeep.store_turns([Turn(f"today{n}", "user", chat, text, NOW - 60 + n) for n, text in enumerate(texts)])


def found(world: World, *query: str, chat: str = "9912") -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = json.loads(world.command("hmem", "search", chat, *query, "--json").stdout)["hits"]
    return hits


def test_memories_are_rows_of_a_search_also_without_an_embedder(light: World) -> None:
    keep(light, "The boiler is a Vaillant ecoTEC")
    keep(light, "Sweep the chimney", "goal")
    light.say("t1", "the boiler hums")
    light.night()
    rows = found(light, "which boiler is it?")
    assert sorted(row["kind"] for row in rows) == ["memory", "turn"]
    memory = next(row for row in rows if row["kind"] == "memory")
    assert (memory["number"], memory["type"], memory["label"]) == (1, "fact", "fact")
    assert 0 < memory["score"] == memory["scores"]["words"] <= 1
    assert memory["timestamp"] == pytest.approx(NOW)
    shown = light.command("hmem", "search", "9912", "chimney").stdout
    assert "  memory 2\n      goal: Sweep the chimney\n" in shown
    today(light, "hello", chat="77")
    assert found(light, "boiler", chat="77") == [], "another chat"


def test_memories_alone_can_be_searched_and_forgotten_ones_cannot(light: World) -> None:
    keep(light, "The boiler is a Vaillant")
    assert [row["kind"] for row in found(light, "Vaillant")] == ["memory"]
    light.command("hmem", "memory", "forget", "9912", "1", check=False)
    assert light.command("hmem", "search", "9912", "Vaillant", check=False).returncode == 24


def test_a_question_in_the_chat_finds_a_memory_by_its_words_without_an_embedder(light: World) -> None:
    with closing(DayMemory(light.settings(memory_tokens=200), nullcontext)) as day:
        day.open()
        for number in range(60):
            day.acting.add(Task(f"k{number}", "9912", ""), f"Fact number {number} of word{number} is kept here", NOW)
        assert "of word7 is kept" in day.context(PromptRequest("9912", "tell me about word7"), day.settings).facts


@pytest.mark.slow
def test_since_and_until_bound_a_search_and_nothing_else(light: World) -> None:
    for number in range(4):
        light.say(f"t{number}", f"the boiler broke, case {number}", timestamp=1_707_500_000.0 + number * DAY)
    light.night()
    today(light, "the boiler broke again")

    def cases(*options: str) -> list[str]:
        return [row["text"][-6:] for row in found(light, "boiler", *options)]

    assert sorted(cases()) == [" again", "case 0", "case 1", "case 2", "case 3"]
    assert sorted(cases("--since", "2024-02-11")) == [" again", "case 2", "case 3"]
    assert sorted(cases("--since", "2024-02-10", "--until", "2024-02-11")) == ["case 1", "case 2"]
    assert cases("--until", "1707500001") == ["case 0"]
    every = {row["text"]: row["score"] for row in found(light, "boiler")}
    assert all(every[row["text"]] == row["score"] for row in found(light, "boiler", "--since", "2024-02-11"))
    wrong = light.command("hmem", "search", "9912", "boiler", "--since", "soon", check=False)
    assert (wrong.returncode, "--since soon is not a time" in wrong.stderr) == (24, True)
    refused = light.command("hmem", "search", "--batch", "x", "--since", "2024-02-11", check=False)
    assert refused.returncode == 24


def test_the_share_of_words_counts_the_rare_ones_more_and_the_missing_most() -> None:
    nobody = np.zeros(3, np.float32)
    common, rare = posting(1, 1, 1), posting(1, 0, 0)

    def share(*postings: Any, **more: Any) -> list[float]:
        shares = words_share(Question(list(postings), nobody, False, **more), 3)
        assert shares is not None
        return [round(float(one), 3) for one in shares]

    assert share(common, rare)[0] == 1
    assert 0 < share(common, rare)[1] < 0.5
    assert share(common, rare, missing=1)[0] < 0.5
    assert words_share(Question([], nobody, False), 3) is None
