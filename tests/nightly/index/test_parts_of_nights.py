"""Which parts of the last night's indexes a night takes over, and which it makes anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightly.index import previous
from shared.config.kinds import place_of
from shared.release.manifest import LEXICAL
from shared.release.parts import FANOUT, part_files
from shared.search import lexical
from shared.turns.chunk import Chunk
from tests.support.night.archives import chunks_in
from tests.support.night.builds import Nights, said
from tests.support.night.indexes.equal import same

VECTORS = place_of("sqlite")


def names(place: Path) -> list[str]:
    return [path.name for path in part_files(place)]


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Three nights, each with a turn of each of two chats, the words "OK" among them."""
    made = Nights(tmp_path, "sqlite")
    for count in (1, 2, 3):
        made.published(three_nights()[: 3 * count])
    return made


def three_nights() -> list[Chunk]:
    """The chunks of the first night, then those of the second, then those of the third."""
    return [
        chunk
        for night in (1, 2, 3)
        for chunk in (said("1", night), said("1", 10 * night, "OK"), said("2", night, f"violet giraffe{night}"))
    ]


def test_what_is_still_wanted_is_the_same_file(nights: Nights) -> None:
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in nights.built.rglob("*.sqlite")}
    result = nights.published([*three_nights(), said("1", 4)])
    assert (result["copied_forward"], result["added"]) == (7, 1), "OK has one vector; the others are known by it"
    for place in (LEXICAL, VECTORS):
        assert names(nights.built / place) == ["1.sqlite", "2.sqlite", "3.sqlite", "4.sqlite"]
        assert {*result["places"][place]["parts"]} == {*names(nights.built / place)}
    for path, (inode, content) in before.items():
        now = nights.built / path.parent.name / path.name
        assert (now.stat().st_ino, now.read_bytes(), path.read_bytes()) == (inode, content, content)
    assert nights.report.lines == []
    same(nights.built, _in_order([*three_nights(), said("1", 4)]))


def _in_order(chunks: list[Chunk]) -> list[Chunk]:
    return sorted(chunks, key=lambda chunk: (chunk.chat_id, chunk.started_at, chunk.exchange))


def _newest_words(nights: Nights) -> set[str]:
    return {chunk.chunk_id for chunk in chunks_in(part_files(nights.built / LEXICAL)[-1])}


@pytest.mark.parametrize("night", [1, 3])
def test_after_a_forget_the_part_that_held_it_is_made_anew_and_no_other(nights: Nights, night: int) -> None:
    gone = f"t{night}-2:user"
    left = [chunk for chunk in three_nights() if chunk.turn_ids != (gone,)]
    nights.published(left)
    others = [f"{one}.sqlite" for one in (1, 2, 3) if one != night]
    assert names(nights.built / LEXICAL) == names(nights.built / VECTORS) == [*others, "4.sqlite"]
    assert _newest_words(nights) == {f"t{night}-1:user#1", f"t{10 * night}-1:user#1"}, "the rest of that part"
    files = [path for top in (nights.built, nights.last) for path in top.rglob("*") if path.is_file()]
    assert len(files) == 6 + 6 + 2
    for word in (gone, f"giraffe{night}"):
        assert not [path for path in files if word.encode() in path.read_bytes()], word
    assert [line.split()[0] for line in nights.report.lines] == [f"{p}/{night}.sqlite" for p in (LEXICAL, VECTORS)]
    same(nights.built, _in_order(left))


def test_a_forgotten_first_of_equal_vectors_leaves_the_next_in_its_place(nights: Nights) -> None:
    """The later parts say whose vector theirs is: they are made anew too, the words of theirs are not."""
    left = [chunk for chunk in three_nights() if chunk.chunk_id != "t10-1:user#1"]
    nights.published(left)
    assert names(nights.built / LEXICAL) == ["2.sqlite", "3.sqlite", "4.sqlite"]
    assert names(nights.built / VECTORS) == ["4.sqlite"]
    same(nights.built, _in_order(left))


def test_parts_of_another_model_or_layout_are_not_taken(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    nights.published(three_nights(), digest="d2")
    assert (names(nights.built / LEXICAL), names(nights.built / VECTORS)) == (
        ["1.sqlite", "2.sqlite", "3.sqlite"],
        ["4.sqlite"],
    )
    assert nights.report.lines[0].startswith("  vectors/ is built from nothing")
    monkeypatch.setattr(lexical, "LAYOUT", lexical.LAYOUT + 1)
    nights.published(three_nights(), digest="d2")
    assert (names(nights.built / LEXICAL), names(nights.built / VECTORS)) == (["5.sqlite"], ["4.sqlite"])


def test_eight_nights_become_one_part_once(tmp_path: Path) -> None:
    nights = Nights(tmp_path, "sqlite")
    for night in range(1, FANOUT + 3):
        chunks = [said("1", 10 + number) for number in range(night)]
        nights.published(chunks)
    assert names(nights.built / LEXICAL) == names(nights.built / VECTORS) == ["8.sqlite", "9.sqlite", "10.sqlite"]
    record = previous._read_record(nights.last / "10")[0]["places"]
    assert {name: part["rows"] for name, part in record[LEXICAL]["parts"].items()} == {
        "8.sqlite": 8,
        "9.sqlite": 1,
        "10.sqlite": 1,
    }
    same(nights.built, chunks)
