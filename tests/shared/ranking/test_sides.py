"""Who tells and who answers: how much of an assistant one side of a chat is, and what that changes in the ranking."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shared.ranking.scoring import Question, Sides, score
from shared.search.chat_items import sides_of
from shared.turns.speakers import Speaker
from tests.support.samples import features, posting

USER, BOT, BEN = ("user", "user", None), ("asst", "assistant", None), ("asst", "Ben", None)


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
    shares = [sides_of(speakers, said_by, lengths).share for speakers in ([USER, BOT], [USER, BEN])]
    assert shares == [1.0, 0.0]


def test_what_a_person_told_an_assistant_comes_before_the_answer_that_repeats_it() -> None:
    """Both hold the question's word, the answer twice and with a better vector; between two people it comes first."""
    it = features([60, 800, 60, 800], [0, 60, 1e6, 1e6 + 60])
    question = Question([posting(1, 2, 0, 0)], np.zeros(4, np.float32), when=False)
    cosine = np.array([0.6, 0.7, 0.1, 0.2], np.float32)
    speakers: dict[str, list[Speaker]] = {"assistant": [USER, BOT], "people": [USER, BEN]}
    first = {
        kind: int(score(question, replace(it, sides=sides_of(some, np.array([0, 1, 0, 1], np.int32), it.lengths)), cosine).total.argmax())
        for kind, some in speakers.items()
    }  # fmt: skip
    assert first == {"assistant": 0, "people": 1}
