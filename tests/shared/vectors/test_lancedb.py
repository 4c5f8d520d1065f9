"""What LanceDB alone is asked beside the contract of all backends: what a check sees, and what a reader has."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.config.kinds import place_of
from shared.errors import ReleaseRefused, StorageError
from shared.release.manifest import verify
from shared.vectors import searching
from shared.vectors.base import Corpus
from shared.vectors.lancedb.index import CHATS, LanceBuilder, LanceIndex, chat_key, connect, data_files, table_dir
from tests.support.night.index_world import (
    DIMENSIONS,
    MadeUp,
    corpus_of,
    make_release,
    nearest,
    notes,
    opened,
    settings_for,
)

LANCEDB = place_of("lancedb")

SAID = {"1": notes("1", 120), "two": notes("two", 30), "-100": notes("-100", 1)}


def build(place: Path, corpus: Corpus) -> Path:
    """An index as the night makes it, and proven."""
    LanceBuilder().build(place, corpus)
    checked = LanceBuilder().check(place, place.parent / "scratch", corpus)
    assert checked.vectors == {chat: len(of_chat) for chat, (of_chat, _) in corpus.chats.items()}
    return place


def files(place: Path) -> dict[str, tuple[int, bytes]]:
    """Inode and content of each file."""
    found = (path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): (path.stat().st_ino, path.read_bytes()) for path in found}


# ------------------------------------------------------------------------------------------------------- what a check sees


def _data(place: Path) -> Path:
    return table_dir(place) / "data" / data_files(place)[0]


def _flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x40
    path.write_bytes(content)


def _bitmap(place: Path) -> Path:
    return next((table_dir(place) / "_indices").rglob("*.lance"))


def _manifest(place: Path) -> Path:
    return next((table_dir(place) / "_versions").glob("*.manifest"))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a flipped bit": lambda place: _flip(_data(place), 1000),
    "a cut index": lambda place: os.truncate(_bitmap(place), 100),
    "a manifest that is none": lambda place: _manifest(place).write_bytes(b"something else"),
    "no record of chats": lambda place: shutil.rmtree(place / f"{CHATS}.lance"),
    "a file too many": lambda place: shutil.copyfile(_data(place), _data(place).with_name("0.lance")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_refused(tmp_path: Path, damage: str) -> None:
    place = build(tmp_path / "1", corpus_of(SAID))
    DAMAGE[damage](place)
    with pytest.raises((ReleaseRefused, StorageError), match="un the night again"):
        LanceBuilder().check(place, tmp_path / "scratch", corpus_of(SAID))


OTHERS = {
    "a chat too many": ({chat: SAID[chat] for chat in ("1", "two")}, "1 chats that are not"),
    "another row": ({**SAID, "-100": {"other": "note 0 of -100"}}, "other chunks"),
    "another vector": ({**SAID, "-100": {"-100/0": "other"}}, "other vectors"),
    "rows of another chat": ({"1": SAID["1"], "two": notes("-100", 30), "-100": notes("two", 1)}, "other chunks"),
    "another repeat": ({**SAID, "two": {**SAID["two"], "again": "note 3 of two"}}, "repeats other chunks"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_content_than_was_asked_for_is_refused(tmp_path: Path, other: str) -> None:
    said, why = OTHERS[other]
    place = build(tmp_path / "1", corpus_of(SAID))
    with pytest.raises(ReleaseRefused, match=why):
        LanceBuilder().check(place, tmp_path / "scratch", corpus_of(said))


def test_a_row_of_another_chat_never_comes_out(tmp_path: Path) -> None:
    """No night builds one, and its hash would be wrong."""
    place = build(tmp_path / "1", corpus_of({"1": notes("1", 5), "2": notes("2", 5)}))
    connect(place).open_table("vectors").update(where="chunk_id = '2/3'", values={"chat": chat_key("1")})
    index = LanceIndex(place, DIMENSIONS)
    with pytest.raises(ReleaseRefused, match="does not fit its chat"):
        index.chat("1")
    with pytest.raises(ReleaseRefused, match="holds 4 of 5"):
        index.chat("2")
    connect(place).open_table("vectors").update(where="chunk_id = '1/3'", values={"chat": chat_key("2")})
    with pytest.raises(ReleaseRefused, match="does not fit its chat"):
        LanceIndex(place, DIMENSIONS).chat("2")


# ----------------------------------------------------------------------------------------------------------------- by day


@pytest.mark.parametrize("linked", [True, False])
def test_a_reader_has_links_or_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    def another_device(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link", str(source), None, str(target))

    monkeypatch.setattr(searching, "open_embedder", lambda settings: MadeUp())
    with settings_for(["lancedb"], tmp_path) as settings:
        release = make_release(settings, tmp_path, ["lancedb"], SAID)
        if not linked:
            monkeypatch.setattr(os, "link", another_device)
        found = opened(settings, release)
        assert nearest(found, "note 3 of two", "two", SAID) == ["two/3"]
        (view,) = (tmp_path / "state" / "views").iterdir()
        inodes = {inode for inode, _ in files(view).values()}
        assert (inodes == {inode for inode, _ in files(release / LANCEDB).values()}) == linked
        assert {path.stat().st_mode & 0o777 for path in [view, *view.rglob("*")] if path.is_dir()} == {0o700}
        found.close()
        assert not view.exists()
        verify(release)
