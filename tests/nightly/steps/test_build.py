"""The build of a night: what it counts for each chat, which files it leaves, and what stops it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nightly.index import previous
from nightly.index.chunk_file import ChunkFolder
from nightly.index.rows import read_rows
from shared.config.kinds import place_of
from shared.errors import LedgerMismatch, ReleaseRefused
from shared.release.manifest import LEXICAL
from shared.search import lexical
from tests.support.night.builds import Nights, said, talk


@pytest.mark.parametrize("indexes", [["chroma"], ["sqlite"], ["sqlite", "chroma"]])
def test_a_build_counts_what_each_chat_has_and_leaves_only_its_files(tmp_path: Path, indexes: list[str]) -> None:
    nights = Nights(tmp_path, ",".join(reversed(indexes)))
    more = {"indexes": indexes, "copied_forward": 0, "added": 7, "unreached": 0}
    chunks = [*talk(3), said("9912", 8, "OK"), said("9912", 9, "OK"), said("77", 1, "poison")]
    night, result = nights.build(chunks, refused={"t1-77:user#1": "too long"})
    assert result["indexed"] == {
        "9912": {"keywords": 5, "vectors": 5, "repeated": 1, "not_embedded": 0},
        "-100123": {"keywords": 3, "vectors": 3, "repeated": 0, "not_embedded": 0},
        "77": {"keywords": 1, "vectors": 0, "repeated": 0, "not_embedded": 1},
    }
    places = {LEXICAL, *(place_of(name) for name in indexes)}
    assert {
        name: value for name, value in result.items() if name not in ("indexed", "files", "places", "note_vectors")
    } == more
    assert {path.name for path in night.output("build").iterdir()} == {"result.json", *places}
    held = {LEXICAL: 9, "vectors": 8}  # chunks; vectors and what repeats one
    rows = {place: record["parts"]["1.sqlite"]["rows"] for place, record in result["places"].items()}
    assert rows == {place: count for place, count in held.items() if place in places}
    hashed = [previous.hash_files(night.output("build"), place) for place in places]
    assert result["files"] == {name: file for files in hashed for name, file in files.items()}


def test_a_build_without_vectors_says_so(nights: Nights) -> None:
    _, result = nights.build(talk(2, ("1",)), family=None)
    assert (result["indexes"], [*result["places"]], [*result["files"]]) == ([], [LEXICAL], ["lexical/1.sqlite"])
    assert result["indexed"] == {"1": {"keywords": 2, "vectors": None, "not_embedded": 0, "repeated": 0}}


def test_a_stray_file_stops_the_build(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    real = lexical.build

    def and_a_log(place: Path, *arguments: Any) -> None:
        real(place, *arguments)
        (place / "1.sqlite-wal").write_bytes(b"")

    monkeypatch.setattr(lexical, "build", and_a_log)
    with pytest.raises(ReleaseRefused, match=r"lexical/1\.sqlite-wal was left behind"):
        nights.build(talk(2))


@pytest.mark.parametrize("missing", [1, -1])
def test_vectors_that_do_not_fit_the_chunks_stop_the_build(nights: Nights, missing: int) -> None:
    night = nights.night(talk(3))
    vectors = np.load(night.output("embed") / "vectors.npy")
    fitting = vectors[:-1] if missing == 1 else np.concatenate([vectors, vectors[:1]])
    np.save(night.output("embed") / "vectors.npy", fitting)
    with pytest.raises(LedgerMismatch, match="do not belong to the chunks"):
        read_rows(night, ChunkFolder(night.output("chunk")))
    vectors[2] = 0  # and no reason why
    np.save(night.output("embed") / "vectors.npy", vectors)
    with pytest.raises(LedgerMismatch, match="do not belong to the chunks"):
        read_rows(night, ChunkFolder(night.output("chunk")))


def test_no_texts_with_vectors_make_an_empty_index(tmp_path: Path) -> None:
    """All that was said was refused by the embedder."""
    nights = Nights(tmp_path, "sqlite,chroma")
    _, result = nights.build([said("1", 1)], refused={"t1-1:user#1": "too long"})
    assert result["indexed"] == {"1": {"keywords": 1, "vectors": 0, "repeated": 0, "not_embedded": 1}}
    assert [path.name for path in (nights.built / "vectors").iterdir()] == ["1.sqlite"]
