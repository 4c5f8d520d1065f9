"""What the texts of a chat have in common is taken from their vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shared.embedding.centring import LEAST, centre_of, centred, whole


def vectors(count: int, seed: int = 1) -> Any:
    """Unit vectors that have a large part in common."""
    made = np.random.default_rng(seed).standard_normal((count, 384)) + 2 * np.ones(384)
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def test_nothing_that_is_in_all_of_them_is_left() -> None:
    some, (question,) = vectors(512), vectors(1, seed=2)
    assert float(np.median(some @ question)) > 0.7
    centre = centre_of(some)
    assert abs(float(np.median(centred(some, centre) @ centred(question, centre)))) < 0.02
    assert np.linalg.norm(centred(some, centre), axis=1) == pytest.approx(1, abs=1e-5)


def test_the_centre_moves_only_when_a_chat_has_doubled() -> None:
    some = vectors(64)
    assert all(np.array_equal(centre_of(some[:count]), centre_of(some[:32])) for count in range(32, 64))
    assert not np.array_equal(centre_of(some), centre_of(some[:32]))


def test_a_text_without_a_vector_stays_without_and_counts_for_nothing() -> None:
    some, nothing = vectors(LEAST), np.zeros((1, 384), np.float32)
    centre = centre_of(np.concatenate([nothing, some]))
    assert np.array_equal(centre, centre_of(some))
    assert not centred(nothing, centre).any()
    assert np.isnan(centred(nothing + np.float32(np.nan), centre)).all()


def test_the_size_of_whole_cosines_and_their_order() -> None:
    some, (question,) = vectors(512), vectors(1, seed=2)
    centre = centre_of(some)
    told = whole(centred(some, centre) @ centred(question, centre), question, centre)
    assert told == pytest.approx(some @ question, abs=0.05)
    assert whole(some @ question, question, None) == pytest.approx(some @ question)
