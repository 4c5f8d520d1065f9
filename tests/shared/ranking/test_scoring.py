"""The arithmetic of the ranking against the same written down plainly: every item with every other, term by term, in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.ranking.question import ASSISTED, WEIGHTS, Weights
from shared.ranking.scoring import Features, Neighbours, Posting, Question, Scored, Sides, best, score, words_share


def chat(n: int, seed: int) -> tuple[Features, np.ndarray]:
    """Features of `n` items in several sessions, and the session of each."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, 900, n).astype(np.float32)
    starts = np.cumsum(np.where(chance.random(n) < 0.1, 1e6, 30.0))
    flags = (chance.random((2, n)) < 0.3).astype(np.float32)
    tokens = chance.integers(1, 150, n).astype(np.float32)
    made = Features(
        tokens, lengths, flags[0], flags[1], Neighbours(lengths, starts), Sides(chance.random(n) < 0.5, lengths)
    )
    return made, np.cumsum(np.diff(starts, prepend=starts[:1]) > WEIGHTS.session_gap_seconds)


def kernel(of: Features, session: np.ndarray) -> np.ndarray:
    ends = np.cumsum(of.lengths.astype(np.float64) + 1)
    centres, n = ends - (of.lengths + 1) / 2, len(ends)
    far = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) > WEIGHTS.reach_items
    weights = np.exp(-np.abs(np.subtract.outer(centres, centres)) / WEIGHTS.reach_characters)
    return np.where(far | (np.subtract.outer(session, session) != 0), 0, weights)


def okapi(tf: np.ndarray, lengths: np.ndarray, b: float) -> np.ndarray:
    """`tf`: frequencies, a row a term."""
    n, df = tf.shape[1], (tf > 0).sum(axis=1, keepdims=True)
    norm = WEIGHTS.k1 * (1 - b + b * lengths / (lengths.mean() or 1))
    gains = np.log(1 + (n - df + 0.5) / (df + 0.5)) * tf * (WEIGHTS.k1 + 1) / (tf + norm)
    of_all: np.ndarray = gains.sum(axis=0)
    return of_all


def scaled(values: np.ndarray) -> np.ndarray:
    spread = values.max() - values.min()
    return (values - values.min()) / spread if spread > 1e-6 else np.zeros(len(values))


def plainly(question: Question, of: Features, session: np.ndarray, cosines: np.ndarray, weights: Weights) -> np.ndarray:
    """The total of each item."""
    n, near = len(session), kernel(of, session)
    tf = np.zeros((max(1, len(question.postings)), n))
    for row, (ordinals, counts) in enumerate(question.postings):
        tf[row, ordinals] = counts
    lexical = scaled(okapi(tf @ near, near @ of.tokens.astype(np.float64), weights.b))
    own = scaled(okapi(tf, of.tokens.astype(np.float64), weights.own_b))
    heard, share = 1.0, words_share(question, n)
    if share is not None and not np.isnan(cosines).all():
        heard = float(np.clip((share.max() - weights.unheard) / (weights.heard - weights.unheard), 0, 1))
    total = weights.lexical * lexical + weights.own_words * own
    alone, together = np.zeros(n), own
    if not np.isnan(cosines).all():
        there = np.where(np.isnan(cosines), np.nanmin(cosines), cosines).astype(np.float64)
        meaning = np.where(np.isnan(cosines), lexical, scaled(there))
        together = own + meaning
        alone = (weights.vector + (1 - heard) * weights.vector_alone) * meaning
        total += weights.context_vector * scaled(near @ meaning / near.sum(axis=1))
    total += weights.session * scaled(np.array([together[session == one].max() for one in session]))
    total += weights.length * np.log1p(np.minimum(of.lengths, weights.length_cap)) - weights.asks * of.asks
    after = np.concatenate([[0], of.asks[:-1]]) * np.concatenate([[0], session[1:] == session[:-1]])
    total += weights.answers * after - weights.assistant * of.sides.assistant
    return heard * total + alone + weights.speaker * question.speaker


@settings(max_examples=60)
@given(st.integers(1, 200), st.integers(0, 10_000), st.data())
def test_the_scores_are_those_of_the_formulas(n: int, seed: int, data: st.DataObject) -> None:
    of, session = chat(n, seed)
    chance = np.random.default_rng(seed + 1)
    postings: list[Posting] = []
    for share in data.draw(st.lists(st.sampled_from([0.01, 0.05, 0.5, 1.0]), max_size=4)):
        at = chance.permutation(n)[: max(1, int(share * n))].astype(
            np.int32
        )  # release and day together are in no order
        postings.append((at, chance.integers(1, 5, len(at)).astype(np.uint16)))
    cosines = chance.uniform(-0.2, 0.9, n).astype(np.float32)
    cosines[chance.random(n) < data.draw(st.sampled_from([0.0, 0.2, 1.0]))] = np.nan
    question = Question(postings, (chance.random(n) < 0.5).astype(np.float32), when=False)
    weights = data.draw(st.sampled_from([WEIGHTS, WEIGHTS.towards(ASSISTED, 1.0)]))
    expected = plainly(question, of, session, cosines, weights)
    assert score(question, of, cosines, weights).total == pytest.approx(expected, abs=1e-4)


@settings(max_examples=60)
@given(st.integers(0, 900), st.integers(1, 40), st.integers(0, 10_000), st.booleans())
def test_the_best_are_those_of_a_full_sort(n: int, k: int, seed: int, only_found: bool) -> None:
    chance = np.random.default_rng(seed)
    totals = chance.integers(0, 50, n).astype(np.float32)  # many equals
    found = (chance.random(n) < 0.5).astype(np.float32)
    nothing = score(Question([], np.zeros(0, np.float32), when=False), chat(0, 0)[0], None)
    scored: Scored = replace(nothing, total=totals, bm25=found)
    order = sorted(range(n), key=lambda item: (-totals[item], -item))
    expected = [item for item in order if found[item] or not only_found][:k]
    assert best(scored, k, only_found=only_found).tolist() == expected
