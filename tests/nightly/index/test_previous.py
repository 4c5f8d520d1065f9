"""What a night takes over of the last night's indexes, and what it keeps for the next."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightly.index import previous
from shared.config.kinds import place_of
from shared.release.manifest import LEXICAL
from shared.turns.chunk import Chunk
from tests.support.night.builds import Nights, flipped, rewrite, said, talk

VECTORS = place_of("sqlite")


def test_an_index_that_only_grew_is_added_to_and_equals_a_new_one(nights: Nights) -> None:
    nights.published([*talk(60), said("1", 1, "alone")])
    grown = [*talk(70), said("1", 1, "alone"), said("1", 2, "alone"), said("new", 1)]
    result = nights.published(grown)
    assert (result["copied_forward"], result["added"]) == (121, 21)
    added = nights.contents()
    shutil.rmtree(nights.last)
    anew = nights.published(grown)
    assert (anew["copied_forward"], anew["added"]) == (0, 142)
    assert nights.contents() == added, "the same ids and the same bytes"
    assert anew["indexed"] == result["indexed"]
    assert [path.name for path in nights.last.iterdir()] == ["3"], "the newest one only"
    assert nights.report.lines == []


def _without_record(last: Path) -> None:
    (last / "1" / "index.json").unlink()


def _changed_record(last: Path) -> None:
    record = last / "1" / "index.json"
    record.write_bytes(record.read_bytes().replace(b"1.sqlite", b"9.sqlite"))


REFUSED: dict[str, tuple[Callable[[Path], object], dict[str, Any], str]] = {
    "no record": (_without_record, {}, "cannot be used"),
    "a changed record": (_changed_record, {}, "does not match its checksum"),
    "a changed file": (lambda p: rewrite(p / "1" / VECTORS / "1.sqlite", flipped), {}, "was changed"),
    "a file too few": (lambda p: (p / "1" / VECTORS / "1.sqlite").unlink(), {}, "No such file"),
    "another model": (lambda p: None, {"digest": "d2"}, "another embedding"),
}  # fmt: skip


@pytest.fixture(scope="module")
def one_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A night directory with one published night."""
    nights = Nights(tmp_path_factory.mktemp("one"))
    nights.published(talk(5))
    return nights.settings.hmem_night_dir


@pytest.mark.parametrize("name", REFUSED)
def test_a_last_index_that_is_not_whole_or_not_ours_is_not_used(nights: Nights, one_night: Path, name: str) -> None:
    change, identity, why = REFUSED[name]
    shutil.copytree(one_night, nights.settings.hmem_night_dir)
    nights.runs = 1
    change(nights.last)
    result = nights.published(talk(6), **identity)
    assert (result["copied_forward"], result["added"]) == (0, 12)
    assert len(nights.report.lines) == 1
    assert re.search(why, nights.report.lines[0])
    assert {path.name for path in nights.built.iterdir()} == {LEXICAL, VECTORS, "result.json"}
    assert nights.published(talk(7), **identity)["copied_forward"] == 12, "what this night kept is whole"


def _words(chunks: list[Chunk]) -> set[str]:
    """The ids of these chunks, and their texts."""
    return {one for chunk in chunks for one in (chunk.chunk_id, chunk.text)}


@pytest.mark.parametrize(
    "tonight",
    [
        pytest.param(talk(10)[1:], id="a turn was forgotten"),
        pytest.param([c for c in talk(10) if c.chat_id != "-100123"], id="a chat was forgotten"),
        pytest.param([said("9912", 0, "another wording"), *talk(10)[1:]], id="a turn was changed"),
        pytest.param([said("9912", 0, "note 0 of -100123"), *talk(10)[1:]], id="a chat holds another's words"),
    ],
)
def test_what_was_forgotten_is_not_carried_on(tmp_path: Path, tonight: list[Chunk]) -> None:
    nights = Nights(tmp_path)
    nights.published(talk(10))
    result = nights.published([*tonight, *(said("9912", number) for number in range(20, 23))])
    assert result["copied_forward"] == 0
    assert [line.split()[0] for line in nights.report.lines] == ["lexical/1.sqlite", "vectors/1.sqlite"]
    assert all("forgotten or has changed" in line for line in nights.report.lines)
    gone = _words(talk(10)) - _words(tonight)
    assert gone
    content = b"".join(
        path.read_bytes() for top in (nights.built, nights.last) for path in top.rglob("*") if path.is_file()
    )
    assert not [one for one in gone if re.search(rb"\b" + one.encode() + rb"\b", content)]


def test_nothing_of_the_last_index_is_written_to(nights: Nights) -> None:
    """Its files are those of a finished night: only their copy may be opened."""
    night, _ = nights.build(talk(6))
    previous.keep(night)
    source = night.output("build") / VECTORS
    before = previous.hash_files(source.parent, VECTORS)
    assert all((source.parent / name).samefile(nights.last / "1" / name) for name in before)
    assert nights.published(talk(7))["copied_forward"] == 12
    assert previous.hash_files(source.parent, VECTORS) == before


def test_a_disk_that_fails_while_keeping_does_not_fail_the_night(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    night, _ = nights.build(talk(6))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        previous.keep(night)
    assert "No space left" in nights.report.lines[0]
    nights.report.lines.clear()
    assert nights.published(talk(7))["copied_forward"] == 0
    assert [path.name for path in nights.last.iterdir()] == ["2"]
