"""What only the index in SQLite files is asked: which chats stay in memory, blocks, parts, which damage is seen, and a full disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shared.config.kinds import place_of
from shared.errors import HmemError, ReleaseRefused, StorageError
from shared.release.manifest import read_manifest, seal
from shared.system.files import sha256_file
from shared.vectors import searching
from shared.vectors.base import Corpus
from shared.vectors.sqlite.index import SqliteBuilder
from shared.vectors.vector_files import BLOCK_ROWS, ROW_BYTES, VectorFile
from tests.support.night.builds import INDEXED, of_chunks
from tests.support.night.index_world import (
    DIMENSIONS,
    MadeUp,
    make_release,
    notes,
    opened,
    settings_for,
    vector_of,
)
from tests.support.night.indexes.damage import files_limited_to, flip_page, sql

VECTORS = place_of("sqlite")


def test_the_chats_that_were_asked_last_stay_in_memory(tmp_path: Path) -> None:
    """Ten chats of a hundred vectors; memory for three of them."""
    chats = {
        str(n): ([f"{n}/{row}" for row in range(100)], np.array([vector_of(f"{n} {row}") for row in range(100)]))
        for n in range(10)
    }
    SqliteBuilder(1).build(tmp_path / VECTORS, Corpus(chats))
    with closing(VectorFile(tmp_path / VECTORS, DIMENSIONS, 3 * 100 * (DIMENSIONS * 4 + ROW_BYTES))) as file:
        for asked in [*chats, "7"]:
            assert file.chat(asked) is not None
        kept = {chat: file.chat(chat) for chat in "789"}
        assert all(file.chat(chat) is one for chat, one in kept.items())
        assert len(file.kept._kept) == 3


def test_a_chat_over_many_blocks_is_read_in_order(tmp_path: Path) -> None:
    count = 2 * BLOCK_ROWS + 3
    vectors = np.array([vector_of(str(row)) for row in range(count)])
    chats = {"1": ([str(row) for row in range(count)], vectors), "2": (["other"], vectors[:1])}
    corpus, builder = Corpus(chats, {"1": {"again": "2050"}}), SqliteBuilder(1)
    builder.build(tmp_path / VECTORS, corpus)
    assert builder.check(tmp_path / VECTORS, tmp_path / "scratch", corpus).vectors == {"1": count, "2": 1}
    with closing(VectorFile(tmp_path / VECTORS, DIMENSIONS)) as file:
        chat = file.chat("1")
        assert chat is not None
        edges = [0, BLOCK_ROWS - 1, BLOCK_ROWS, 2 * BLOCK_ROWS - 1, 2050]
        assert all(chat.compare(vectors[row], [str(row)])[0] > 0.999 for row in edges)
        assert chat.compare(vectors[2050], ["again", "2050"]).min() > 0.999


def test_a_part_that_repeats_what_no_part_has_gives_no_answer(tmp_path: Path) -> None:
    """As when the part that holds the first is gone: the release's hashes name it, still nothing is to be made up."""
    SqliteBuilder(2).build(tmp_path / VECTORS, Corpus({}, {"1": {"again": "first"}}))
    with (
        closing(VectorFile(tmp_path / VECTORS, DIMENSIONS)) as file,
        pytest.raises(ReleaseRefused, match="repeats a vector that it does not have"),
    ):
        file.chat("1")


def test_a_file_of_another_layout_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "open_embedder", lambda settings: MadeUp())
    with settings_for([], tmp_path) as settings:
        path = make_release(settings, tmp_path, ["sqlite"], {"1": notes("1", 3)})
        with closing(sqlite3.connect(path / VECTORS / "1.sqlite")) as connection:
            connection.execute("PRAGMA user_version = 3")
        seal(path, replace(read_manifest(path), indexes=["sqlite"]))
        assert "has layout 3, this program knows 2" in (opened(settings, path).why_not or "")


REPEATS = {"9912": {"again": "t7-9912:user#1"}}

SQLITE_DAMAGE: dict[str, tuple[Callable[[Path], object], type[HmemError], str]] = {
    "a block is gone": (sql("DELETE FROM blocks WHERE chat_no = 1 AND block_no = 1"), ReleaseRefused, "holds 1024 of 1100 vectors"),
    "a chat is gone": (sql("DELETE FROM chats WHERE chat_no = 2"), ReleaseRefused, "holds other chats"),
    "a chat of nobody": (sql("INSERT INTO chats VALUES (9, '1', 0, '{}')"), ReleaseRefused, "holds other chats"),
    "other vectors": (sql("UPDATE blocks SET vectors = zeroblob(60 * 64) WHERE chat_no = 2"), ReleaseRefused, "holds other vectors of a chat"),
    "other ids": (
        sql("UPDATE blocks SET ids = CAST(replace(CAST(ids AS TEXT), 't7-', 't9999-') AS BLOB)"), ReleaseRefused, "holds other chunks"),
    "a repeated chunk of another": (
        sql("UPDATE chats SET repeated = CAST(replace(CAST(repeated AS TEXT), 't7-', 't8-') AS BLOB)"), ReleaseRefused, "repeats other chunks"),
    "two chats changed places": (
        sql("UPDATE chats SET chat_no = -chat_no", "UPDATE chats SET chat_no = chat_no + 3"), ReleaseRefused, "does not fit its chat"),
    "a vector that is too long": (
        sql("UPDATE blocks SET vectors = CAST(x'00' || vectors AS BLOB) WHERE chat_no = 1"), ReleaseRefused, "does not fit its chat"),
    "a flipped byte": (lambda p: flip_page(p, 1), StorageError, "is damaged"),
    "half of it": (lambda p: os.truncate(p, p.stat().st_size // 2), StorageError, "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", SQLITE_DAMAGE)
def test_damage_to_closed_vectors_is_seen(tmp_path: Path, name: str) -> None:
    damage, error, why = SQLITE_DAMAGE[name]
    place, corpus, builder = tmp_path / VECTORS, of_chunks(INDEXED, REPEATS), SqliteBuilder(1)
    builder.build(place, corpus)
    (part,) = place.iterdir()
    before = sha256_file(part)
    assert builder.check(place, tmp_path / "scratch", corpus).vectors == {"9912": 1100, "-100123": 60}
    assert (sha256_file(part), [*tmp_path.rglob("*")]) == (before, [place, part]), "the proof leaves no trace"
    damage(part)
    with pytest.raises(error, match=why):
        builder.check(place, tmp_path / "scratch", corpus)


def test_a_full_disk_is_a_storage_error_for_sqlite_too(tmp_path: Path) -> None:
    with files_limited_to(4096), pytest.raises(StorageError, match="SQLite could not write the index"):
        SqliteBuilder(1).build(tmp_path / VECTORS, of_chunks(INDEXED))
