"""The index in SQLite files as it is built: which damage is seen, and a full disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.config.kinds import place_of
from shared.errors import HmemError, ReleaseRefused, StorageError
from shared.system.files import sha256_file
from shared.vectors.sqlite.index import SqliteBuilder
from tests.support.night.builds import INDEXED, of_chunks
from tests.support.night.indexes.damage import files_limited_to, flip_page, sql

VECTORS = place_of("sqlite")

REPEATS = {"9912": {"again": "t7-9912:user#1"}}

SQLITE_DAMAGE: dict[str, tuple[Callable[[Path], object], type[HmemError], str]] = {
    "a block is gone": (sql("DELETE FROM blocks WHERE chat_no = 1 AND block_no = 1"), ReleaseRefused, "holds 1024 of 1100 vectors"),
    "a chat is gone": (sql("DELETE FROM chats WHERE chat_no = 2"), ReleaseRefused, "1 chats that are not as they were given"),
    "a chat of nobody": (sql("INSERT INTO chats VALUES (9, '1', 0, '{}')"), ReleaseRefused, "holds other chats"),
    "other vectors": (sql("UPDATE blocks SET vectors = zeroblob(60 * 64) WHERE chat_no = 2"), ReleaseRefused, "holds other vectors of a chat"),
    "other ids": (
        sql("UPDATE blocks SET ids = CAST(replace(CAST(ids AS TEXT), 't7-', 't9999-') AS BLOB)"), ReleaseRefused, "holds other chunks"),
    "a repeated chunk of another": (
        sql("UPDATE chats SET repeated = CAST(replace(CAST(repeated AS TEXT), 't7-', 't8-') AS BLOB)"), ReleaseRefused, "repeats other chunks"),
    "two chats changed places": (
        sql("UPDATE chats SET chat_no = -chat_no", "UPDATE chats SET chat_no = chat_no + 3"), ReleaseRefused, "does not fit its chat"),
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
