"""The ranking: what a question asks for, what each part of a score is, what says the same, and who tells and who answers in a chat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shared.ranking.question import (
    WEIGHTS,
    asks_for_advice,
    groups,
    meant_speakers,
    query_words,
)
from shared.ranking.scoring import Question, Scored, Sides, bm25, score
from shared.search.chat_items import sides_of
from shared.turns.speakers import Speaker
from tests.support.samples import features, posting

NAMED = [("user", "Noor", None), ("asst", "Ben", None)]
BOT = [("user", "user", None), ("asst", "assistant", None)]
GROUP = [("user", "Noor", "1"), ("user", "Ben", "2"), ("asst", "assistant", None), ("user", "noor", None)]


@pytest.mark.parametrize(
    ("question", "speakers", "meant"),
    [
        ("What did Noor say?", NAMED, [0]),
        ("Noor's bike", NAMED, [0]),
        ("did Ben tell noor?", NAMED, []),
        ("what did I say?", NAMED, []),
        ("what did I say?", BOT, [0]),
        ("is it mine?", BOT, [0]),
        ("what did you tell me?", BOT, []),
        ("what was your advice?", BOT, [1]),
        ("what was the advice?", BOT, []),
        ("what did Noor say?", [("user", "Noor", None), ("asst", "Noor", None)], [0, 1]),
        ("what did I say?", GROUP, [0, 3]),
        ("what did you advise?", GROUP, [2]),
        ("what did I tell Ben?", GROUP, [1]),
        ("what?", [], []),
    ],
)
def test_whose_words_a_question_is_about(question: str, speakers: list[Speaker], meant: list[int]) -> None:
    asker = ("user", "Noor", "1") if speakers == GROUP else None
    assert meant_speakers(query_words(question), speakers, asker) == meant


def test_a_question_for_advice_is_known_and_one_for_what_was_advised_is_none() -> None:
    for asked in (
        "What would you suggest?",
        "Was soll ich heute kochen?",
        "¿Qué me recomiendas?",
        "Посоветуй мне книгу",
    ):
        assert asks_for_advice(query_words(asked))
    for asked in ("What did you suggest last week?", "When should I go?", "Where does Anna live?", ""):
        assert not asks_for_advice(query_words(asked))


def test_what_stands_beside_a_match_is_found_and_what_is_in_another_session_is_not() -> None:
    found = bm25([posting(1, 0, 0, 0)], features([50, 50, 50, 50], [0, 60, 120, 1e6]))
    assert found[0] > found[1] > found[2] > found[3] == 0


def explained(scored: Scored, item: int) -> dict[str, float]:
    (parts,) = scored.explain(np.array([item], np.int32))
    return parts


def test_the_parts_add_up_to_the_score_and_vectors_may_be_missing() -> None:
    it = replace(features([20, 300, 80]), asks=np.array([1, 0, 0], np.float32), timed=np.array([0, 1, 0], np.float32))
    question = Question([posting(1, 0, 2)], np.array([0, 1, 0], np.float32), True, np.array([0, 0, 1], np.float32))
    whole = score(question, it, np.array([0.1, 0.9, np.nan], np.float32))
    for item in range(3):
        parts = explained(whole, item)
        assert {"bm25", "lexical", "vector", "context_vector", "speaker", "when", "said_then"} <= set(parts)
        assert ("cosine" in parts) == (item != 2), "no vector, no cosine"
        raw = ("bm25", "cosine", "total", "words")
        parts_sum = sum(value for name, value in parts.items() if name not in raw)
        assert parts_sum == pytest.approx(parts["total"], abs=1e-5) == pytest.approx(float(whole.total[item]), abs=1e-5)
    assert explained(whole, 2)["vector"] / WEIGHTS.vector == pytest.approx(
        explained(whole, 2)["lexical"] / WEIGHTS.lexical
    )
    assert explained(whole, 0)["asks"] == pytest.approx(-WEIGHTS.asks)
    assert explained(whole, 1)["answers"] == pytest.approx(WEIGHTS.answers)
    assert explained(whole, 1)["length"] == pytest.approx(WEIGHTS.length * np.log(201), rel=1e-5), (
        "long ones count as 200"
    )
    words_only = score(question, it, None)
    assert not {"vector", "context_vector", "cosine"} & set(explained(words_only, 0))
    nothing_known = score(question, it, np.full(3, np.nan, np.float32))
    assert nothing_known.cosine is None
    assert nothing_known.total.tolist() == words_only.total.tolist()


LONG = "the pump in the cellar was replaced by the plumber from Leiden after it had leaked into the store room for about one whole week"


def said(*texts: str) -> list[list[int]]:
    return groups([("noor", text) for text in texts])


def test_what_says_the_same_is_one() -> None:
    assert said("Good morning!", "no", "good  morning") == [[0, 2], [1]]
    assert said(LONG, f"Well, {LONG}", "other") == [[0, 1], [2]]
    assert said("🙂", "🙂", "!") == [[0, 1], [2]]
    assert said() == []


def test_a_number_that_differs_and_another_speaker_are_news() -> None:
    assert said(f"{LONG} at 15", f"{LONG} at 16") == [[0], [1]]
    assert said("see you at noon", "see you at six") == [[0], [1]]
    assert groups([("noor", "yes"), ("ben", "yes")]) == [[0], [1]]


# Who tells and who answers: how much of an assistant one side is, and what that changes.

USER, ASSISTANT, BEN = ("user", "user", None), ("asst", "assistant", None), ("asst", "Ben", None)


def sides(answers: list[int], lengths: list[float]) -> Sides:
    return Sides(np.array(answers, bool), np.array(lengths, np.float32))


@pytest.mark.parametrize(
    ("times", "share"), [(0.5, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0**1.5, 0.5), (4.0, 1.0), (50.0, 1.0)]
)
def test_the_longer_the_answers_the_more_of_an_assistant(times: float, share: float) -> None:
    assert sides([0, 1] * 5, [200, 200 * times] * 5).share == pytest.approx(share, abs=1e-6)


def test_an_answer_in_passages_is_one_answer() -> None:
    assert sides([0, 1, 1, 1, 1] * 3, [200] * 15).share == pytest.approx(1.0)


def test_a_chat_of_one_side_or_of_nobody_has_no_assistant() -> None:
    assert [sides(answers, [100.0] * len(answers)).share for answers in ([], [0, 0], [1, 1])] == [0, 0, 0]


def test_who_has_a_name_is_no_assistant() -> None:
    said_by, lengths = np.array([0, 1] * 4, np.int32), np.array([100, 900] * 4, np.float32)
    shares = [sides_of(speakers, said_by, lengths).share for speakers in ([USER, ASSISTANT], [USER, BEN])]
    assert shares == [1.0, 0.0]


def test_what_a_person_told_an_assistant_comes_before_the_answer_that_repeats_it() -> None:
    """Both hold the question's word, the answer twice and with a better vector; between two people it comes first."""
    it = features([60, 800, 60, 800], [0, 60, 1e6, 1e6 + 60])
    question = Question([posting(1, 2, 0, 0)], np.zeros(4, np.float32), when=False)
    cosine = np.array([0.6, 0.7, 0.1, 0.2], np.float32)
    speakers: dict[str, list[Speaker]] = {"assistant": [USER, ASSISTANT], "people": [USER, BEN]}
    first = {
        kind: int(score(question, replace(it, sides=sides_of(some, np.array([0, 1, 0, 1], np.int32), it.lengths)), cosine).total.argmax())
        for kind, some in speakers.items()
    }  # fmt: skip
    assert first == {"assistant": 0, "people": 1}
