"""The budget of the prompt: never exceeded, shared out by wish, and nothing left out that is not reported."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from dispatcher.prompt.budget import SHARES, PromptInput, compose, shared_out
from shared.search.types import Hit, Recalled
from shared.text.format import CHARACTERS_PER_TOKEN, day_text
from shared.turns.records import Turn
from tests.support.day.prompts import NOW, PROPERTY, RECORD, SUMMARY, UTC, composed, hit, odd_text, said

amounts = st.integers(0, 10_000)
parts_in_any_order = st.permutations(list(SHARES)).flatmap(
    lambda names: st.fixed_dictionaries(dict.fromkeys(names, amounts))
)


@PROPERTY
@given(st.integers(-5, 20_000), parts_in_any_order)
def test_a_budget_is_shared_out_whole_and_to_nobody_more_than_wished(budget: int, wishes: dict[str, int]) -> None:
    given_out = shared_out(budget, wishes, SHARES)
    assert list(given_out) == list(wishes)
    assert all(0 <= given_out[part] <= wish for part, wish in wishes.items())
    assert sum(given_out.values()) == min(max(0, budget), sum(wishes.values()))
    for part, wish in wishes.items():
        assert given_out[part] >= min(wish, int(budget * SHARES[part])), "nobody lends what it needs itself"


hits_strategy = st.lists(st.builds(hit, odd_text, st.floats(0, 2e9), odd_text, st.none() | odd_text), max_size=12)
summaries = st.just("") | st.just(SUMMARY) | odd_text


@PROPERTY
@given(hits_strategy, summaries, st.integers(0, 400) | st.integers(0, 20_000))
@example([hit("x" * 900)] * 30, SUMMARY, 1500)
@example([hit("x")], SUMMARY, 100)
@example([], "x", 100)
def test_the_budget_is_never_exceeded(hits: list[Hit], summary: str, budget: int) -> None:
    context = composed(hits, summary, budget)
    assert len(context.text) / 4 <= context.tokens <= budget
    assert len(context.text) <= budget * CHARACTERS_PER_TOKEN
    assert bool(context.text) == bool(context.parts)
    assert [text for _, text in RECORD.findall(context.text)] == [part.body for part in context.parts]
    assert len(re.findall(r"^</record id=", context.text, re.MULTILINE)) >= len(context.parts)


@PROPERTY
@given(hits_strategy, summaries, st.integers(0, 2000))
def test_every_hit_is_either_used_or_reported_as_cut(hits: list[Hit], summary: str, budget: int) -> None:
    context = composed(hits, summary, budget)
    assert sorted(map(id, [*context.used, *context.cut])) == sorted(map(id, hits))
    for kept in (context.used, context.cut):
        places = [next(n for n, one in enumerate(hits) if one is other) for other in kept]
        assert places == sorted(places), "in the order of rank"
    recalled = [part.text for part in context.parts if part.name == "recalled"]
    lines = [line for text in recalled for line in text.splitlines()]
    days = {day_text(one.chunk.started_at, UTC) for one in context.used}
    assert [line[:2] for line in lines].count("- ") == len(context.used)
    assert sorted(line for line in lines if not line.startswith("- ")) == sorted(days), "each day once"


@PROPERTY
@given(hits_strategy, hits_strategy, st.integers(1500, 6000))
def test_the_summary_is_the_same_to_the_byte_whatever_is_recalled(one: list[Hit], two: list[Hit], budget: int) -> None:
    alone = composed([], SUMMARY, budget)
    assert [part.name for part in alone.parts] == ["summary"]
    for hits in (one, two):
        assert composed(hits, SUMMARY, budget).parts[0] == alone.parts[0]


def test_a_summary_takes_no_more_than_its_share_and_is_cut_at_a_line() -> None:
    for budget in (1500, 3000):
        text = composed([hit("x")], SUMMARY, budget).parts[0].text
        assert len(text) <= budget * CHARACTERS_PER_TOKEN * SHARES["summary"] < len(text) + 200
        assert set(text.split("\n")) <= set(SUMMARY.split("\n"))
    assert composed([], SUMMARY, 60_000).parts[0].text == SUMMARY
    assert composed([], SUMMARY, 100).parts == [], "too little to say anything"
    assert composed([], "x" * 6_000, 1500).parts == [], "half a line says nothing"
    assert composed([], "a short line\n" + "x" * 6_000, 1500).parts == [], "nor does a heading alone"


def test_a_budget_smaller_than_the_headings_gives_nothing_and_says_so() -> None:
    hits = [hit("a"), hit("b", NOW + 1)]
    used = [bool(composed(hits, budget=budget).used) for budget in range(301)]
    assert used == sorted(used), "more budget never gives less"
    assert (used[50], used[300]) == (False, True)
    nothing = composed(hits, SUMMARY, budget=20)
    assert (nothing.text, nothing.parts, nothing.used, nothing.cut) == ("", [], [], hits)
    reasons = ["no recalled text: 20 tokens hold none of it", "no summary: its share of 20 tokens holds none of it"]
    assert nothing.degraded == ["why", *reasons]
    assert composed(hits, SUMMARY, budget=1500).degraded == ["why"]


def test_the_conversation_so_far_lends_and_borrows_and_leaves_the_summary_alone() -> None:
    def parts(recent: list[Turn] | None, hits: list[Hit], budget: int = 1500) -> dict[str, int]:
        context = compose(PromptInput(Recalled(hits), SUMMARY, budget=budget, zone=UTC, release_run=7, recent=recent))
        assert context.tokens <= budget
        return {part.name: len(part.text) for part in context.parts}

    many = [hit("word " * 20, NOW + n) for n in range(200)]
    both = parts(said(400), many)
    assert list(both) == ["summary", "recent", "recalled"]
    assert both["recent"] < both["recalled"]
    assert parts(said(400), [])["recent"] > both["recent"], (
        "what is recalled is nothing, and lends what the summary leaves"
    )
    assert parts(said(2), many)["recalled"] > both["recalled"] + 500, "a short talk lends its own"
    assert len({parts(some, hits)["summary"] for some in (said(400), said(1), []) for hits in (many, [])}) == 1


@PROPERTY
@given(st.integers(400, 3000), st.integers(1, 300), st.integers(0, 60), st.integers(0, 60), st.integers(0, 30))
@example(1500, 300, 5, 5, 0)
def test_however_much_there_is_of_each_part_the_prompt_holds_some(
    budget: int, talk: int, notes: int, standing: int, recalled: int
) -> None:
    profile, facts = (
        "\n".join(f"- 9 February 2024: {n} of the boiler" for n in range(many)) for many in (standing, notes)
    )
    hits = [hit(f"the boiler broke {n} times", NOW + n) for n in range(recalled)]
    given = PromptInput(
        Recalled(hits), SUMMARY, budget=budget, zone=UTC, release_run=7, recent=said(talk), profile=profile, facts=facts
    )
    context = compose(given)
    assert 0 < context.tokens <= budget
