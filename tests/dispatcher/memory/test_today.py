"""Recall on the same day: the turns of the day and the release's, ranked together as if one release held them all."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.embedding.local import LocalEmbedder
from shared.errors import ReleaseRefused
from shared.ranking.scoring import Neighbours
from shared.release.parts import part_files
from shared.search import lexical
from shared.search.day_items import DayItems, DayTurn, day_turns, embedding_of
from shared.search.lexical import LexicalIndex
from shared.search.lookup import Sources, look_up
from shared.search.merge import MergedCache
from shared.search.recall import DayRecall, OpenRelease
from shared.search.types import HiddenTurns, Hit, Query, Recalled
from shared.turns.chunk import turn_order
from shared.turns.chunking import chunks_of, indexed_text
from shared.turns.records import Turn
from shared.vectors.base import NullBackend
from tests.support.world import World

UTC = ZoneInfo("UTC")
NOON = 1_778_673_600.0  # 13 May 2026
HOUR = 3600.0
DIMENSIONS = 8
Vectors = Mapping[str, Any]

#: Chats that look like each other, like patterns and like pieces of a query, each with a word of its own.
ODD = ["9912", "991", "-9912", "*", "9912*", "%", "a' OR 1=1 --", '"', "OR", "ключ", "\u0430", "a", '{"$ne": ""}']
CANARY = {chat: f"canary{number:02d}{'qxz'[number % 3]}" for number, chat in enumerate(ODD)}

TALK = [
    ("b1", "user", "The boiler broke again this morning.", -30.0),
    ("b1", "asst", "Which error does the boiler show?", -29.99),
    ("c1", "user", "Our cat Mishka sleeps on the piano all day.", -20.0),
    ("h1", "user", "We rented a house near the harbour of Ostend for July.", -10.0),
    ("h1", "asst", "Nice.", -9.99),
    ("d1", "user", "What is the code of the garage door?", -3.0),
    ("d1", "asst", "4711.", -2.99),
    ("d2", "user", "The plumber comes on Friday about the boiler.", -2.0),
    ("d3", "user", "Mishka was at the vet today: her left paw is swollen.", -1.0),
]


def turn(task: str, role: str, text: str, hours: float, chat: str = "9912", name: str | None = None) -> Turn:
    return Turn(task, role, chat, text, NOON + hours * HOUR, name)


def said(*tasks: str) -> list[Turn]:
    """What these tasks said in TALK; all of it without any."""
    return [turn(*row) for row in TALK if not tasks or row[0] in tasks]


class Index:
    """A vector index of a test: vectors by chunk id, and of each question the same one."""

    why_not = None

    def __init__(self, vectors: Vectors, asked: Any) -> None:
        self.vectors, self.asked, self.embedded = vectors, asked, 0

    def is_available(self) -> bool:
        return True

    def vector(self, query: str) -> Any:
        self.embedded += 1
        return self.asked

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Any:
        none = np.full(len(self.asked), np.nan, np.float32)
        return np.array([self.vectors.get(name, none) @ self.asked for name in chunk_ids], np.float32)


@dataclass
class Side:
    """The `lexical/` of some turns, to be asked; and the day's items of others."""

    sources: Sources
    path: Path
    tokeniser: Any

    def day(self, turns: Sequence[Turn], vectors: Vectors | None = None, chat: str = "9912") -> DayItems:
        entries = [
            replace(one, vector=(vectors or {}).get(one.chunk.chunk_id))
            for said in turns
            for one in day_turns(said, UTC)
        ]
        return DayItems.of(chat, entries, self.tokeniser)

    def ask(
        self, query: str, day: DayItems | None = None, k: int = 50, embed_query: Any = None, **more: Any
    ) -> Recalled:
        sources = replace(self.sources, embed_query=embed_query)
        return look_up(sources, Query("9912", query, k, now=NOON, day=day, **more))

    def hits(self, query: str, day: DayItems | None = None, **more: Any) -> list[Hit]:
        return self.ask(query, day, **more).hits


@contextmanager
def holding(turns: Sequence[Turn], index: Any = None) -> Iterator[Side]:
    """A release of these turns, built as a night builds it."""
    ordered = sorted(turns, key=lambda one: (one.chat_id, one.timestamp, one.task_id, one.role != "user"))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        path = Path(folder) / "lexical"
        lexical.build(path, 1, ((chunk, indexed_text(chunk, UTC)) for one in ordered for chunk in chunks_of(one)))
        opened = LexicalIndex(path)
        sources = Sources(opened, opened.terms, index or NullBackend("none here"), MergedCache(), pool, UTC)
        yield Side(sources, path, opened._ranking().tokeniser)
        opened.close()


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.chunk_id for hit in hits]


def same(found: Recalled, expected: Recalled) -> None:
    """The same hits with the same scores, each question and each repetition with them; equal ones in any order."""
    told, wanted = ({hit.chunk.chunk_id: hit for hit in one.hits} for one in (found, expected))
    assert told.keys() == wanted.keys()
    assert [hit.rank for hit in found.hits] == pytest.approx([hit.rank for hit in expected.hits], abs=1e-5)
    for name, hit in told.items():
        other = wanted[name]
        assert hit.scores == pytest.approx(other.scores, abs=1e-5)
        assert (hit.chunk, hit.question, {*hit.also}) == (other.chunk, other.question, {*other.also})
        assert (hit.lexical is None, hit.vector is None) == (other.lexical is None, other.vector is None)
    assert found.degraded == expected.degraded


QUESTIONS = [
    "What about the boiler last week?",
    "garage code",
    "When was Noor at the harbour?",
    "What did I say?",
    "zebra",
]
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


def vector_of(seed: int) -> Any:
    """A unit vector, rounded as an index stores it."""
    drawn = np.random.default_rng(seed).normal(size=DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).astype("<f2").astype(np.float32)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(row, min_size=1, max_size=60), st.sampled_from(QUESTIONS), st.booleans())
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


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 200), st.sampled_from([0, 60, 60, 50_000])), min_size=12, max_size=60),
    st.integers(0, 60),
)
def test_a_longer_kernel_is_the_kernel_of_all(items: list[tuple[int, int]], first: int) -> None:
    lengths = np.array([length for length, _ in items], np.float32)
    starts = np.cumsum([gap for _, gap in items], dtype=np.float64)
    whole, longer = (
        Neighbours(lengths, starts),
        Neighbours(lengths[:first], starts[:first]).longer(lengths, starts),
    )
    values = np.arange(len(items), dtype=np.float32)
    assert longer.spread(values) == pytest.approx(whole.spread(values), rel=1e-5)
    assert longer.total == pytest.approx(whole.total, rel=1e-5)
    assert longer.continues.tolist() == whole.continues.tolist()
    assert (longer.n, longer.nbytes) == (whole.n, whole.nbytes)


def test_without_a_day_nothing_changes() -> None:
    with holding(said()) as side:
        for query in QUESTIONS:
            plain = side.hits(query)
            assert side.hits(query, side.day([])) == plain
            assert side.hits(query, side.day(said("b1", "d3"))) == plain, "the release holds them all"
        assert side.hits("boiler")


def test_a_turn_in_both_comes_once_and_as_the_release_has_it() -> None:
    with holding(said()) as side:
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


def test_the_question_of_a_long_day_turn_is_its_first_passage() -> None:
    long = " ".join(f"Sentence number {n} about the garage." for n in range(60))
    with holding(said("b1")) as side:
        day = side.day([turn("l", "user", long, -1.0), turn("l", "asst", "It is 4711.", -0.9)])
        assert len(day) > 2
        (hit,) = [hit for hit in side.hits("4711", day) if hit.chunk.role == "asst" and "4711" in hit.chunk.text]
        assert hit.question
        assert hit.question.startswith("Sentence number 0")


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


def test_more_known_turns_than_are_read_at_first_leave_places_for_others() -> None:
    session = [turn(f"s{n:03}", "user", f"the pills again, time {n} of many", -1.0 + n / HOUR) for n in range(300)]
    with holding([turn("old", "user", "the pills are in the kitchen, and something else is there too", -50.0)]) as side:
        found = side.hits("the pills", side.day(session), k=3, known=frozenset(map(turn_id, session)))
        assert ids(found) == ["old:user#1"]
        long = turn("long", "user", "\n\n".join(f"The pills, paragraph {n}: " + "pill " * 150 for n in range(80)), -0.5)
        found = side.hits("the pills", side.day([long]), k=3, known=frozenset({"long:user"}))
        assert ids(found) == ["old:user#1"], "a long turn has many passages"


def test_two_chats_never_meet() -> None:
    foreign = [turn("x1", "user", "The boiler canary is amber00.", -1.0, chat="77")]
    with holding([*said(), *[turn("x2", "user", "boiler canary basalt01", -9.0, chat="77")]]) as side:
        day = side.day(foreign, chat="77")
        with pytest.raises(ValueError, match="asked with the day's turns of chat '77'"):
            side.ask("boiler canary", day)
        with pytest.raises(ValueError, match="x1:user#1 belongs to another chat than '9912'"):
            side.day(foreign)
        with pytest.raises(ValueError, match="day's turns of chat '77'"):
            side.ask("boiler canary", side.day([], chat="77"))
        # Rows of another chat, behind every check but the last; one is the question to an answer of ours.
        taken = side.day([*foreign, turn("h2", "user", "Shall we buy amber00?", -1.0, chat="77")], chat="77")
        answer = side.day([turn("h2", "asst", "Yes, the boiler.", -0.9)])
        for wrong in (
            replace(taken, chat_id="9912"),
            replace(taken, chat_id="9912", turns=(taken.turns[0], *answer.turns)),
        ):
            found = side.hits("boiler canary amber00", wrong)
            assert {hit.chunk.chat_id for hit in found} == {"9912"}
            assert not [hit for hit in found if "amber00" in f"{hit.chunk.text} {hit.question}"]


@pytest.mark.parametrize("with_vectors", [False, True])
def test_no_chat_is_told_the_canary_of_another(with_vectors: bool) -> None:
    def secrets(task: str, hours: float) -> dict[str, list[Turn]]:
        text = "My secret word is {}, keep it."
        return {
            chat: [
                turn(f"{task}{n}", "user", text.format(canary), hours, chat),
                turn(f"{task}{n}", "asst", f"I keep {canary}.", hours, chat),
            ]
            for n, (chat, canary) in enumerate(CANARY.items())
        }

    old, new = secrets("o", -30.0), secrets("n", -1.0)
    every = [*old.values(), *new.values()]
    alike = {f"{one.turn_id}#1": vector_of(1) for turns in every for one in turns}
    with holding(
        [one for turns in old.values() for one in turns], Index(alike, vector_of(1)) if with_vectors else None
    ) as side:
        days = {chat: side.day(turns, alike, chat) for chat, turns in new.items()}
        for at, (chat, own) in enumerate(CANARY.items()):
            for other, canary in CANARY.items():
                ways = [
                    canary,
                    f"My secret word is {canary}, keep it.",
                    f'x OR chat_id:"{other}" OR {canary}*',
                    f"' OR chat_id = '{other}' --",
                ]
                for query in (ways[0], ways[at % len(ways)]):
                    found = look_up(side.sources, Query(chat, query, 50, now=NOON, day=days[chat])).hits
                    assert {hit.chunk.chat_id for hit in found} <= {chat}
                    told = " ".join(f"{hit.chunk.text} {hit.question}" for hit in found).replace(own, "")
                    assert not [word for word in CANARY.values() if word in told], (chat, other, query)
            assert any(
                own in hit.chunk.text
                for hit in look_up(side.sources, Query(chat, own, 50, now=NOON, day=days[chat])).hits
            )


def test_one_chats_day_changes_nothing_in_another() -> None:
    with holding([*said(), turn("x2", "user", "boiler basalt01", -9.0, chat="77")]) as side:
        before = side.hits("boiler")
        own = look_up(
            side.sources,
            Query("77", "boiler", 5, now=NOON, day=side.day([turn("x3", "user", "boiler", 0, "77")], chat="77")),
        )
        assert {hit.chunk.chat_id for hit in own.hits} == {"77"}
        assert side.hits("boiler") == before


# ── degradation ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_release_that_cannot_be_read_leaves_the_day() -> None:
    with holding(said("b1")) as side:
        day = side.day(said("d2"))
        (part,) = part_files(side.path)
        whole = part.read_bytes()
        part.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
        broken = LexicalIndex(side.path)
        sources = replace(side.sources, lexical=broken, terms=broken.terms)
        found = look_up(sources, Query("9912", "boiler", 5, now=NOON, day=day))
        assert ids(found.hits) == ["d2:user#1"]
        assert [reason.partition(":")[0] for reason in found.degraded] == ["no recalled text", "no vector search"]
        broken.close()
        nothing = look_up(sources, Query("9912", "boiler", 5, now=NOON, day=day))
        assert nothing.hits == []
        assert "no recalled text" in nothing.degraded[0]


def test_the_day_is_searched_by_meaning_where_the_release_is_not() -> None:
    vectors = {"d2:user#1": vector_of(1), "d3:user#1": vector_of(2)}
    with holding(said("b1", "c1")) as side:
        day = side.day(said("d2", "d3"), vectors)
        found = side.ask("feline", day, embed_query=lambda _: vectors["d3:user#1"])
        assert found.hits[0].chunk.chunk_id == "d3:user#1"
        assert found.hits[0].scores["cosine"] == pytest.approx(1, abs=1e-3)
        assert found.degraded == ["no vector search: none here"]


def away(_: str) -> Any:
    raise RuntimeError("Ollama is asleep")


@pytest.mark.parametrize(
    ("vector_of", "vectors", "said_so"),
    [
        (None, True, "none here"),
        (away, True, "Ollama is asleep"),
        (lambda _: None, True, "the day's embedder is not available"),
        (lambda _: vector_of(1), False, "today's turns have no vectors yet"),
        (lambda _: np.ones(3, np.float32), True, None),
    ],
)
def test_what_is_missing_is_named_and_words_remain(
    vector_of: Callable[[str], Any] | None, vectors: bool, said_so: str | None
) -> None:
    with holding([]) as side:
        day = side.day(said("d2", "d3"), {"d2:user#1": globals()["vector_of"](1)} if vectors else None)
        found = side.ask("boiler", day, embed_query=vector_of)
        assert ids(found.hits)[0] == "d2:user#1"
        assert found.hits[0].vector is None
        assert found.degraded == ([f"no vector search: {said_so}"] if said_so else [])


def test_the_question_is_embedded_once_for_both() -> None:
    vectors = {"b1:user#1": vector_of(1), "d2:user#1": vector_of(2)}
    index = Index(vectors, vector_of(1))
    with holding(said("b1"), index) as side:
        found = side.ask("zebra", side.day(said("d2"), vectors), embed_query=away)
        assert (found.degraded, index.embedded) == ([], 1)
        assert found.hits[0].chunk.chunk_id == "b1:user#1"


# ── what is kept ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_merged_is_kept_until_something_changes() -> None:
    with holding(said("b1")) as side:
        index, cache, day, nothing = side.sources.lexical, side.sources.merged, side.day(said("d2")), HiddenTurns()
        assert index
        release = index.items("9912")

        def get(day: DayItems, hidden: HiddenTurns) -> Any:
            return cache.get("9912", release, day, hidden, index.holding)

        def fill(cache: MergedCache, chat: str) -> None:
            today = side.day([turn("t", "user", "boiler", 0, chat)], chat=chat)
            cache.get(chat, None, today, nothing, index.holding)

        first = get(day, nothing)
        assert get(day, nothing) is first
        assert get(day, HiddenTurns(frozenset({"b1:user"}))) is not first
        assert get(side.day(said("d2")), nothing) is not first
        assert len(cache._cache) == 1
        for number in range(100):
            fill(cache, str(number))
        assert list(cache._cache) == [str(number) for number in range(36, 100)]
        small = MergedCache(bytes_=1)
        fill(small, "4")
        fill(small, "5")
        assert list(small._cache) == ["5"]


def test_a_new_turn_is_tokenised_alone() -> None:
    class Counting:
        def __init__(self, real: Any) -> None:
            self.real, self.texts = real, list[str]()

        def postings(self, texts: Sequence[str]) -> Any:
            self.texts += texts
            return self.real.postings(texts)

    with holding([]) as side:
        tokeniser: Any = Counting(side.tokeniser)
        entries = [one for it in said() for one in day_turns(it, UTC)]
        first = DayItems.of("9912", entries[:-1], tokeniser)
        tokeniser.texts.clear()
        second = DayItems.of("9912", entries, tokeniser, first)
        assert tokeniser.texts == [entries[-1].indexed]
        anew = DayItems.of("9912", entries, side.tokeniser)
        assert second.texts == anew.texts


def test_vectors_of_a_turn_are_kept_as_bytes() -> None:
    long = turn("l", "user", " ".join(f"Sentence number {n} about the garage." for n in range(60)), 0.0)
    chunks = day_turns(long, UTC)
    vectors = [None if n == 1 else vector_of(n) for n in range(len(chunks))]
    kept = embedding_of(vectors)
    assert kept
    back = day_turns(long, UTC, kept, DIMENSIONS)
    assert [one.vector is None for one in back] == [vector is None for vector in vectors]
    for one, vector in zip(back, vectors, strict=True):
        assert one.vector is None or (vector is not None and one.vector.tolist() == vector.tolist())
    assert [one.vector for one in day_turns(long, UTC, kept, DIMENSIONS + 1)] == [None] * len(chunks)
    assert [one.vector for one in day_turns(long, UTC, kept[:-4], DIMENSIONS)] == [None] * len(chunks)
    assert embedding_of([None, None]) is None
    assert day_turns(turn("e", "user", "\x00", 0.0), UTC) == []


def test_chunks_of_one_second_are_ordered_as_at_night() -> None:
    names = ["t1:user#1", "t1:user#2", "t1:user#10", "t1:asst#1", "t2:user#1"]
    assert sorted({*names}, key=turn_order) == names


# ── with real nights ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def opened(world: World) -> Iterator[OpenRelease]:
    release = OpenRelease(world.settings(), (world.memory_dir / "current").resolve())
    release.open_vectors()
    yield release
    release.close()


def test_tonight_changes_nothing_in_what_is_recalled_today(world: World) -> None:
    embedder, zone = LocalEmbedder(), world.settings().timezone
    old, new = said("b1", "c1", "h1"), said("d1", "d2", "d3")
    for one in old:
        world.redis.set(f"hcli:memory:{one.turn_id}", one.to_json())
    world.night()
    entries = [entry for one in new for entry in day_turns(one, zone)]
    vectors = embedder.embed_documents([entry.indexed for entry in entries]).vectors
    maker = DayRecall(world.settings())
    day = maker.items("9912", [replace(one, vector=vector) for one, vector in zip(entries, vectors, strict=True)])
    queries = [*QUESTIONS, "Which animal is ill?", "holiday by the sea", "repair of the heating"]
    with opened(world) as release:
        assert release.holds("9912", [one.turn_id for one in [*old, *new]]) == {one.turn_id for one in old}
        assert release.holds("77", ["b1:user"]) == set()
        today = [release.recall(Query("9912", query, 50, now=NOON, day=day)) for query in queries]
    for one in new:
        world.redis.set(f"hcli:memory:{one.turn_id}", one.to_json())
    world.night()
    with opened(world) as release:
        for found, query in zip(today, queries, strict=True):
            same(found, release.recall(Query("9912", query, 50, now=NOON)))
            same(found, release.recall(Query("9912", query, 50, now=NOON, day=day)))
            assert found.hits[0].vector is not None
    maker.close()


def test_before_the_first_night_the_day_is_recalled_alone(world: World) -> None:
    embedder, maker = LocalEmbedder(), DayRecall(world.settings())
    entries = [one for it in said() for one in day_turns(it, UTC)]
    vectors = embedder.embed_documents([one.indexed for one in entries]).vectors
    day = maker.items("9912", [DayTurn(one.chunk, one.indexed, row) for one, row in zip(entries, vectors, strict=True)])
    found = maker.recall(Query("9912", "Which animal is ill?", 3, 5.0, NOON, day=day), embedder.embed_query)
    assert "d3:user#1" in ids(found.hits)[:2]
    assert found.degraded == []
    words = maker.recall(Query("9912", "plumber", 3, day=day))
    assert ids(words.hits)[0] == "d2:user#1"
    assert words.degraded == ["no vector search: there is no release yet, and no embedder by day"]
    assert "d2:user#1" not in ids(
        maker.recall(Query("9912", "plumber", 50, day=day, hidden=HiddenTurns(frozenset({"d2:user"})))).hits
    )
    assert "d2:user#1" not in ids(
        maker.recall(Query("9912", "plumber", 50, day=day, known=frozenset({"d2:user"}))).hits
    )
    assert (
        ids(maker.recall(Query("9912", "boiler", 50, day=day, hidden=HiddenTurns(before=NOON - 5 * HOUR))).hits)[0]
        == "d2:user#1"
    )
    assert maker.recall(Query("9912", "plumber", 3, day=maker.items("9912", []))).hits == []
    with pytest.raises(ValueError, match="day's turns of chat"):
        maker.recall(Query("77", "plumber", 3, day=day))
    maker.close()


def test_a_closed_release_does_not_say_that_it_holds_nothing(light: World) -> None:
    light.say("t1", "the boiler broke")
    light.night()
    with opened(light) as release:
        assert release.holds("9912", {"t1:user", "t2:user"}) == {"t1:user"}
    with pytest.raises(ReleaseRefused, match="cannot be read"):
        release.holds("9912", {"t1:user"})
