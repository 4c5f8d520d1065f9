"""What only the index in SQLite files is asked: which chats stay in memory, blocks, parts, and files that do not fit themselves."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shared.config.kinds import place_of
from shared.errors import ReleaseRefused
from shared.release.manifest import read_manifest, seal
from shared.vectors import searching
from shared.vectors.base import Corpus
from shared.vectors.sqlite.index import SqliteBuilder
from shared.vectors.vector_files import BLOCK_ROWS, ROW_BYTES, VectorFile
from tests.support.night.index_world import (
    DIMENSIONS,
    MadeUp,
    corpus_of,
    make_release,
    notes,
    opened,
    settings_for,
    vector_of,
)

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


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE blocks SET chat_id = '2' WHERE chat_no = 1", "does not fit its chat"),
        ("UPDATE blocks SET vectors = CAST(x'00' || vectors AS BLOB) WHERE chat_no = 1", "does not fit its chat"),
        ("DELETE FROM blocks WHERE chat_no = 1", "holds 0 of 3"),
        ("UPDATE chats SET vectors = 2 WHERE chat_no = 1", "does not fit its chat"),
    ],
)
def test_a_file_that_does_not_fit_itself_gives_no_answer(tmp_path: Path, change: str, why: str) -> None:
    """No night builds one, and its hash would be wrong: still another chat's rows must not come out of it."""
    SqliteBuilder(1).build(tmp_path / VECTORS, corpus_of({chat: notes(chat, 3) for chat in "12"}))
    with closing(sqlite3.connect(tmp_path / VECTORS / "1.sqlite")) as connection:
        connection.execute(change)
        connection.commit()
    with closing(VectorFile(tmp_path / VECTORS, DIMENSIONS)) as file, pytest.raises(ReleaseRefused, match=why):
        file.chat("1")


def test_a_file_of_another_layout_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "open_embedder", lambda settings: MadeUp())
    with settings_for([], tmp_path) as settings:
        path = make_release(settings, tmp_path, ["sqlite"], {"1": notes("1", 3)})
        with closing(sqlite3.connect(path / VECTORS / "1.sqlite")) as connection:
            connection.execute("PRAGMA user_version = 3")
        seal(path, replace(read_manifest(path), indexes=["sqlite"]))
        assert "has layout 3, this program knows 2" in (opened(settings, path).why_not or "")
