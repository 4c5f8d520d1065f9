"""What every index keeps to over several nights: what is added, forgotten, switched to and gone back from."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from shared.config.settings import Settings
from shared.release.manifest import list_files
from shared.search.recall import OpenRelease
from shared.search.types import HiddenTurns, Query
from shared.system.files import sha256_file
from tests.support.night.index_world import SAID, MadeUp, make_release, nearest, notes, opened


def grown() -> dict[str, dict[str, str]]:
    """A day later: more in one chat, a new chat, and words that were said before."""
    more = {f"1/{number}": f"note {number} of 1" for number in range(30, 37)}
    return {**SAID, "1": {**SAID["1"], **more, "1/again": "note 3 of 1"}, "3": notes("3", 4)}


def test_a_night_adds_to_what_the_last_one_built(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp
) -> None:
    """And the earlier release stays byte for byte as it was, and goes on answering."""
    first = make_release(settings, tmp_path, [name], SAID)
    before = {file: sha256_file(first / file) for file in list_files(first)}
    old = opened(settings, first, name)
    second = make_release(settings, tmp_path, [name], grown(), run=2, earlier=(first, SAID))
    new, anew = opened(settings, second, name), make_release(settings, tmp_path / "anew", [name], grown())
    whole = opened(settings, anew, name)
    for question, chat in (("note 33 of 1", "1"), ("note 3 of 1", "1"), ("note 2 of 3", "3"), ("a question", "-2")):
        every = tuple(grown()[chat])
        np.testing.assert_array_equal(
            new.similarities(question, chat, every), whole.similarities(question, chat, every)
        )
    assert nearest(old, "note 33 of 1", "1", grown()) not in ([], ["1/33"])
    assert nearest(old, "note 2 of 3", "3", grown()) == []
    for one in (old, new, whole):
        one.close()
    assert {file: sha256_file(first / file) for file in list_files(first)} == before


def test_what_was_forgotten_is_in_no_later_index(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp
) -> None:
    """Hidden at once in the release that has it; a later one was built without it, and the files do not name it."""
    gone = "1/forgotten-seven"  # so long that no vector's bytes are it by chance, as three bytes were
    said = {**SAID, "1": {**SAID["1"], gone: "note seven, to be forgotten"}}
    first = make_release(settings, tmp_path, [name], said)
    with closing(OpenRelease(settings.model_copy(update={"memory_backend": name}), first)) as release:
        release.open_vectors()
        assert release.vectors_missing is None
        found = release.recall(Query("1", said["1"][gone], 50))
        assert found.hits[0].chunk.chunk_id == gone
        hidden = release.recall(Query("1", said["1"][gone], 50, hidden=HiddenTurns(frozenset({gone}))))
        assert gone not in {hit.chunk.chunk_id for hit in hidden.hits}
        assert found.degraded == hidden.degraded == []
    assert [file for file in list_files(first) if gone.encode() in (first / file).read_bytes()]
    second = make_release(settings, tmp_path, [name], SAID, run=2)
    found_later = opened(settings, second, name)
    assert np.isnan(found_later.similarities(said["1"][gone], "1", [gone])).all()
    found_later.close()
    assert not [file for file in list_files(second) if gone.encode() in (second / file).read_bytes()]
