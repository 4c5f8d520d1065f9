"""The vector cache: what it returns, what it costs on the disk."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nightly.index.vector_cache import NOTES, VectorCache, forget
from shared.embedding.known_models import MINILM
from tests.support.night.builds import Said

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

IDENTITY = MINILM.identity("local", "sha256:1")
OTHER = replace(IDENTITY, digest="sha256:2")
TEXTS = [f"text {number}" for number in range(3_000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.sqlite"


@pytest.fixture
def vectors() -> Vectors:
    return np.random.default_rng(1).standard_normal((len(TEXTS), IDENTITY.dimensions)).astype("<f4")


def test_vectors_are_found_by_text_and_embedding(path: Path, vectors: Vectors) -> None:
    with closing(VectorCache(path, IDENTITY, print)) as cache, closing(VectorCache(path, OTHER, print)) as other:
        cache.put(TEXTS[:600], vectors[:600])
        other.put(TEXTS[:1], vectors[5:6])
        asked = ["unknown", *TEXTS[:600], TEXTS[3], "unknown, too"]
        found = list(cache.get_many(asked))
        assert [one is None for one in found] == [True, *[False] * 601, True]
        assert np.array_equal(np.array(found[1:601]), vectors[:600])
        assert np.array_equal(found[601], vectors[3])  # type: ignore[arg-type]
        assert np.array_equal(next(other.get_many([TEXTS[0]])), vectors[5])  # type: ignore[arg-type]
        assert next(other.get_many([TEXTS[1]])) is None
        cache.put(TEXTS[:1], vectors[9:10])
        assert np.array_equal(next(cache.get_many([TEXTS[0]])), vectors[9])  # type: ignore[arg-type]
        assert list(cache.get_many([])) == []


def test_what_is_forgotten_is_in_no_byte_of_the_cache(path: Path, vectors: Vectors) -> None:
    kept = [*(VectorCache(path, one, print) for one in (IDENTITY, OTHER)), VectorCache(path, IDENTITY, print, "notes")]
    for cache, texts in zip(kept, (TEXTS, TEXTS[:1], ["a note"]), strict=True):
        cache.put(texts, vectors[: len(texts)])
        cache.close()
    assert forget(path, [TEXTS[0], TEXTS[7], "never embedded"], print) == 4, "two, one of another model, and the note"
    left = b"".join(one.read_bytes() for one in path.parent.iterdir())
    # The first numbers of a row suffice: a long one lies on several pages.
    gone = {0: False, 1: True, 7: False, 8: True}
    assert {number: vectors[number][:64].tobytes() in left for number in gone} == gone
    assert NOTES.encode() not in left
    with closing(VectorCache(path, IDENTITY, print)) as cache:
        assert [one is None for one in cache.get_many(TEXTS)].count(True) == 2


def test_half_a_cache_begins_anew_and_says_so(path: Path, vectors: Vectors) -> None:
    with closing(VectorCache(path, IDENTITY, print)) as cache:
        cache.put(TEXTS, vectors)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    report = Said()
    with closing(VectorCache(path, IDENTITY, report.say)) as cache:
        assert next(cache.get_many([TEXTS[0]])) is None
    assert "was damaged" in report.lines[0]
