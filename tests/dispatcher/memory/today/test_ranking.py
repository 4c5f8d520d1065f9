"""Recall on the same day: the turns of the day and the release's, ranked together as if one release held them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.search.merge import merge
from shared.search.types import HiddenTurns
from shared.turns.records import Turn
from tests.support.day.day_recall import HOUR, NOON, QUESTIONS, Index, holding, ids, said, same, turn, vector_of

words = st.lists(
    st.sampled_from("boiler garage code harbour vet cat yesterday 4711 Noor paw the and ok".split()),
    min_size=1,
    max_size=9,
)
row = st.fixed_dictionaries(
    {
        "gap": st.sampled_from([0.0, 0.0, 60.0, 5 * HOUR, 30 * HOUR]),
        "role": st.sampled_from(["user", "asst"]),
        "name": st.sampled_from([None, "Noor", "Ben"]),
        "words": words,
        "asks": st.booleans(),
        "day": st.booleans(),
        "vector": st.one_of(st.none(), st.integers(0, 2**31)),
    }
)


def talk_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Turn], list[bool], dict[str, Any]]:
    """Turns, which of them are of the day, and vectors by chunk id."""
    turns, vectors, at = list[Turn](), dict[str, Any](), NOON - 40 * 24 * HOUR
    for number, one in enumerate(rows):
        at += one["gap"]
        # Task numbers fall and rise again, so that the order of a second is not that of the list.
        task, text = f"t{(number * 7) % 31}-{number // 31}", " ".join(one["words"]) + "?" * one["asks"]
        turns.append(Turn(task, one["role"], "9912", text, at, one["name"]))
        if one["vector"] is not None:
            vectors[f"{turns[-1].turn_id}#1"] = vector_of(one["vector"])
    return turns, [one["day"] for one in rows], vectors


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(row, min_size=1, max_size=40), st.sampled_from(QUESTIONS), st.booleans())
def test_release_and_day_are_ranked_as_one_release_that_holds_them_all(
    rows: list[dict[str, Any]], query: str, with_vectors: bool
) -> None:
    turns, of_day, vectors = talk_of(rows)
    index = Index(vectors, vector_of(5)) if with_vectors else None
    today = [one for one, there in zip(turns, of_day, strict=True) if there]
    before = [one for one, there in zip(turns, of_day, strict=True) if not there]
    with holding(turns, index) as whole, holding(before, index) as part:
        found, expected = part.ask(query, part.day(today, vectors)), whole.ask(query)
        if not any(f"{one.turn_id}#1" in vectors for one in today):  # that none of the day has a vector is said
            found = replace(found, degraded=expected.degraded)
        if not before and not with_vectors:
            found = replace(found, degraded=expected.degraded)
        same(found, expected)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(row, min_size=2, max_size=40), st.data())
def test_what_is_hidden_was_never_said(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    turns, of_day, vectors = talk_of(rows)
    gone = data.draw(st.sets(st.sampled_from(turns).map(lambda one: one.turn_id)))
    before = data.draw(st.none() | st.sampled_from(turns).map(lambda one: one.timestamp))
    left = [one for one in turns if one.turn_id not in gone and (before is None or one.timestamp >= before)]
    day = [one for one, there in zip(turns, of_day, strict=True) if there]
    old = [one for one, there in zip(turns, of_day, strict=True) if not there]
    index = Index(vectors, vector_of(5))
    hidden = HiddenTurns(frozenset(gone), before)
    with holding(old, index) as side, holding(left, index) as never:
        for query in QUESTIONS:
            same(
                replace(side.ask(query, side.day(day, vectors), hidden=hidden), degraded=[]),
                replace(never.ask(query), degraded=[]),
            )


def test_a_turn_in_both_comes_once_and_as_the_release_has_it() -> None:
    with holding(said()) as side:
        plain = side.hits("boiler")
        assert plain == side.hits("boiler", side.day([])) == side.hits("boiler", side.day(said("b1", "d3")))
        other = turn("c1", "user", "Mishka: another version", -20.0)
        found = side.hits("Mishka", side.day([other, turn("new", "user", "Mishka is back", 0.0)]))
        assert sorted(hit.chunk.text for hit in found if "Mishka" in hit.chunk.text) == [
            "Mishka is back",
            "Mishka was at the vet today: her left paw is swollen.",
            "Our cat Mishka sleeps on the piano all day.",
        ]
        assert len(ids(found)) == len(set(ids(found)))


def test_an_answer_finds_its_question_on_the_other_side() -> None:
    question, answer = said("d1")
    for old, new in (([question], [answer]), ([answer], [question]), ([], [question, answer])):
        with holding([*said("b1", "c1"), *old]) as side:
            day = side.day(new)
            (hit,) = [hit for hit in side.hits("4711", day) if hit.chunk.text == "4711."]
            assert hit.question == question.content
            for hidden in (HiddenTurns(frozenset({"d1:user"})), HiddenTurns(before=answer.timestamp)):
                (hit,) = [hit for hit in side.hits("4711", day, hidden=hidden) if hit.chunk.text == "4711."]
                assert hit.question is None


def test_hidden_turns_are_in_no_hit_no_question_and_no_repetition() -> None:
    twice = [turn("g1", "user", "Good morning!", -8.0), turn("g2", "user", "good morning", -1.0)]
    for old, new in ((twice[:1], twice[1:]), ([], twice), (twice, [])):
        with holding([*said("b1"), *old]) as side:
            (both,) = [hit for hit in side.hits("morning", side.day(new)) if "ood morning" in hit.chunk.text]
            assert {*both.chunk.turn_ids, *both.also} == {"g1:user", "g2:user"}
            for gone, left in (("g1:user", "g2:user"), ("g2:user", "g1:user")):
                found = side.hits("morning", side.day(new), hidden=HiddenTurns(frozenset({gone})))
                (one,) = [hit for hit in found if "ood morning" in hit.chunk.text]
                assert (one.chunk.turn_ids, one.also) == ((left,), ())
            assert side.sources.lexical
            items = side.sources.lexical.items("9912")
            assert items
            assert items.rows_of(frozenset({"g1:user"})) is items.rows_of(frozenset({"g1:user"})), "looked up once"
            elsewhere = HiddenTurns(frozenset({"nowhere:user"}), items.starts[0])
            assert merge("9912", items, None, elsewhere, lambda *_: ()).features is items.features


@pytest.mark.parametrize("k", [1, 3, 50])
def test_known_turns_do_not_come_and_the_rest_is_as_before(k: int) -> None:
    with holding(said("b1", "c1", "h1")) as side:
        day = side.day(said("d1", "d2", "d3"))
        for query in (*QUESTIONS, "boiler Mishka code"):
            whole = side.hits(query, day)
            for known in (
                {"d2:user", "b1:user"},
                {"d3:user", "c1:user", "d1:user", "d1:asst"},
                {*map(turn_id, said())},
            ):
                rest = [hit for hit in whole if known.isdisjoint(hit.chunk.turn_ids)]
                assert side.hits(query, day, k=k, known=frozenset(known)) == rest[:k]


def turn_id(one: Turn) -> str:
    return one.turn_id
