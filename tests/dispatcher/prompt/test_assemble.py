"""What goes into the context of a message: of which release, which hits and whether the summary; and how it is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.tombstones import Forgotten
from dispatcher.prompt.budget import PromptInput, compose
from dispatcher.prompt.context import MISSED, Context
from shared.config.settings import load_settings
from shared.ranking.injection import Evidence, read_message
from shared.search.recall import OpenRelease
from shared.search.types import Query, Recalled
from shared.turns.records import Tombstone, Turn
from tests.support.day.prompts import NOW, SUMMARY, UTC, assembled, composed, hit
from tests.support.world import World


class FakeRelease:
    """What a prompt reads of a release."""

    run = 7

    def __init__(
        self, recall: Callable[[Query], Recalled], summary: str | None = None, family: str | None = None
    ) -> None:
        self._recall, self._summary = recall, summary
        embedding = SimpleNamespace(family=family) if family else None
        self.manifest = SimpleNamespace(embedding=embedding, created_at="", tombstones={"f1": "9912"})

    def expect(self, query: str) -> None:
        pass

    def has(self, chat_id: str) -> bool:
        return True

    def recall(self, query: Query, _: object) -> Recalled:
        return self._recall(query)

    def summary(self, chat_id: str) -> str | None:
        return self._summary if chat_id == "9912" else None


def asked(folder: Path, release: FakeRelease, message: str, chat: str = "9912", **more: Any) -> Context:
    settings = load_settings(hmem_state_dir=folder, **more)
    return assembled(PromptRequest(chat, message, recent=[]), settings, cast(Any, release))


def test_what_is_forgotten_during_the_search_withholds_the_summary(tmp_path: Path) -> None:
    def context(forgotten: str) -> Context:
        def recall(_: Query) -> Recalled:
            Forgotten(tmp_path).add(Tombstone(forgotten, "9912", NOW, turn_ids=frozenset({"t1:user"})))
            return Recalled()

        return asked(tmp_path, FakeRelease(recall, "- anna: the garage code is 7731"), "what is the code?")

    assert [part.name for part in context("f1").parts] == ["summary"], "the release was built after that"
    withheld = context("f2")
    assert withheld.parts == []
    assert "no summary until the next night: something was forgotten since it was written" in withheld.degraded


def test_an_answer_reads_no_more_of_what_it_does_not_inject_than_its_record_shows(light: World) -> None:
    """And injects, where it does, what it would otherwise."""
    for number in range(20):
        light.say(f"t{number}", f"The garden has {number} beds of tulips.", timestamp=NOW - 60 * number)
    light.say("anna", "Anna's bicycle is green and stands in the cellar.", timestamp=NOW)
    light.night()
    weak, strong = (
        "My violin teacher plays a waltz in the garden of an opera house.",
        "Where is Anna's green bicycle?",
    )
    with closing(OpenRelease(light.settings(), (light.memory_dir / "current").resolve())) as release:
        for message, left in ((weak, MISSED), (strong, None)):
            request = PromptRequest("9912", message, recent=[], now=NOW)
            answer, shown = (
                assembled(replace(request, count_access=access), light.settings(), release) for access in (True, False)
            )
            assert (answer.text, answer.used, answer.no_recall_reason) == (
                shown.text,
                shown.used,
                shown.no_recall_reason,
            )
            assert answer.cut == shown.cut[:left]
            assert len(shown.cut) == 21 or left is None
            assert bool(shown.used) is (left is None)


def test_a_context_is_told_to_scripts_with_its_hits_and_reasons() -> None:
    long = replace(
        hit("x" * 9_000, NOW + 1, score=0.123456),
        scores={"speaker": 0.25, "bm25": 2.0, "cosine": -0.1},
        also=("t9:user",),
        words=0.5,
    )
    record = json.loads(json.dumps(composed([hit("yes", question="why?"), long], "- anna: in short").to_json()))
    assert (record["release"], record["degraded"], record["ms"]) == (7, ["why"], 1.5)
    assert [part["name"] for part in record["parts"]] == ["summary", "recalled"]
    assert record["tokens"] == -(-len(record["text"]) // 4)
    (used,), (cut,) = record["hits"], record["cut"]
    assert (used["text"], used["question"], used["speaker"], used["timestamp"]) == ("yes", "why?", "anna", NOW)
    assert (cut["rank"], cut["score"]) == (0.1235, 0.275), "what it is ranked by, and what people are shown"
    assert cut["scores"] == {"words": 0.5, "meaning": 0.0, "bm25": 2.0, "cosine": -0.1}
    assert (cut["parts"], cut["also"]) == ({"speaker": 0.25}, ["t9:user"])
    assert (used["date"], record["nothing_why"]) == ("2024-02-09T17:33:20+00:00", None)


def test_nothing_recalled_is_injected_where_nothing_bears_on_the_message_and_the_rest_stays() -> None:
    hits = [hit("a"), hit("b")]
    context = compose(
        PromptInput(
            Recalled(hits), SUMMARY, budget=1500, zone=UTC, release_run=7, no_recall_reason="nothing is like it"
        )
    )
    assert context.text == composed([], SUMMARY).text
    assert (context.used, context.cut, context.no_recall_reason) == ([], hits, "nothing is like it")
    assert context.to_json()["nothing_why"] == "nothing is like it"


@pytest.mark.parametrize(("cosine", "family", "injected"), [
    (0.2, "all-MiniLM-L6-v2", False), (0.5, "all-MiniLM-L6-v2", True), (0.2, "nomic-embed-text", True), (None, None, True),
])  # fmt: skip
def test_the_release_says_whose_similarity_is_judged(
    tmp_path: Path, cosine: float | None, family: str | None, *, injected: bool
) -> None:
    def recall(query: Query) -> Recalled:
        found = replace(hit("the parrot"), scores={} if cosine is None else {"cosine": cosine})
        return Recalled([found], evidence=Evidence(read_message(query.text, NOW, UTC), 1, cosine=cosine))

    context = asked(tmp_path, FakeRelease(recall, family=family), "What is my bird called?")
    assert bool(context.used) == injected
    assert (context.no_recall_reason is None) == injected


@pytest.mark.slow
def test_the_command_says_why_no_line_is_injected(world: World) -> None:
    world.say("t1", "The boiler stopped, its display shows F28.")
    world.night()
    done = world.command("hmem", "context", "9912", "good morning")
    assert "no hits used: it has no word that shows its topic" in done.stderr
    assert "1 hit used" in world.command("hmem", "context", "9912", "what is wrong with the boiler?").stderr


def test_the_summary_stands_where_a_session_begins_where_it_is_asked_for_and_where_nothing_is_searched(
    tmp_path: Path,
) -> None:
    def recall(query: Query) -> Recalled:
        return Recalled(evidence=Evidence(read_message(query.text, NOW, UTC), 1))

    def has(message: str, degraded: tuple[str, ...] = (), mode: str = "resume", **more: Any) -> bool:
        release = FakeRelease(lambda query: replace(recall(query), degraded=[*degraded]), "- anna: in short")
        request = PromptRequest("9912", message, **more)
        settings = load_settings(hmem_state_dir=tmp_path, session_mode=mode)
        context = assembled(request, settings, cast(Any, release))
        return "summary" in [part.name for part in context.parts]

    assert has("what is wrong with the boiler?", recent=[])
    assert not has("what is wrong with the boiler?", session="s")
    before = [Turn("", "user", "", "hello", NOW)]
    assert has("what is wrong with the boiler?", recent=before), "an earlier session has run out"
    assert not has("what is wrong with the boiler?", recent=before, mode="replay")
    assert has("what is wrong with the boiler?", recent=[], mode="replay")
    assert has("What have we been talking about?", session="s")
    assert has("what is wrong with the boiler?", session="s", degraded=("no vector search",))
