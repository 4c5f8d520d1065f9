"""The vector cache: what it returns, what it costs on the disk, and files of an earlier version."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nightly.index import vector_cache
from nightly.index.vector_cache import NOTES, PAGE, VectorCache, forget, known_texts
from nightly.night.progress import Reporter
from nightly.writing.model_texts import TextCache
from shared.embedding.known_models import LOCAL_MODEL

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

IDENTITY = LOCAL_MODEL.identity("local", "sha256:1")
OTHER = replace(IDENTITY, digest="sha256:2")
TEXTS = [f"text {number}" for number in range(3_000)]
#: What version 0.1 made, at SQLite's usual page size.
OLD_SCHEMA = "CREATE TABLE vectors (embedding TEXT, text_sha256 BLOB, vector BLOB, PRIMARY KEY (embedding, text_sha256)) WITHOUT ROWID"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.sqlite"


@pytest.fixture
def vectors() -> Vectors:
    return np.random.default_rng(1).standard_normal((len(TEXTS), IDENTITY.dimensions)).astype("<f4")


def fill_old(path: Path, vectors: Vectors) -> None:
    """A file of the earlier version: chunks and notes of a model, one text of another, and a text of a killed night; half of it in the log."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("CREATE TABLE texts (key TEXT PRIMARY KEY, record BLOB) WITHOUT ROWID")
    connection.execute("INSERT INTO texts VALUES ('k', 'written by a model')")
    connection.execute(OLD_SCHEMA)
    name = vector_cache._name(IDENTITY)
    rows = [
        *((name, text, vector) for text, vector in zip(TEXTS, vectors, strict=True)),
        (f"{NOTES}{name}", "a note", vectors[0]),
        (vector_cache._name(OTHER), TEXTS[0], vectors[1]),
    ]
    for part in (rows[:2_000], rows[2_000:]):
        connection.executemany(
            "INSERT INTO vectors VALUES (?,?,?)", [(n, vector_cache._digest(t), v.tobytes()) for n, t, v in part]
        )
        connection.commit()
        if part is not rows[2_000:]:
            connection.execute("PRAGMA wal_checkpoint")
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    connection.close()


def content(path: Path, vectors: Vectors) -> bool:
    """Whether every vector of `fill_old` is there."""
    with closing(VectorCache(path, IDENTITY)) as chunks, closing(VectorCache(path, IDENTITY, "notes")) as notes:
        found = list(chunks.get_many(TEXTS))
        return (
            all(one is not None and np.array_equal(one, vector) for one, vector in zip(found, vectors, strict=True))
            and np.array_equal(notes.get("a note"), vectors[0])  # type: ignore[arg-type]
            and chunks.get("a note") is None
        )


def page_size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        return int(size)


def test_a_vector_takes_little_more_than_its_numbers(path: Path, vectors: Vectors) -> None:
    with closing(VectorCache(path, IDENTITY)) as cache:
        for start in range(0, len(TEXTS), 256):
            cache.put(TEXTS[start : start + 256], vectors[start : start + 256])
    assert path.stat().st_size < 1.15 * vectors.nbytes


def test_vectors_are_found_by_text_and_embedding(path: Path, vectors: Vectors) -> None:
    with closing(VectorCache(path, IDENTITY)) as cache, closing(VectorCache(path, OTHER)) as other:
        cache.put(TEXTS[:600], vectors[:600])
        other.put(TEXTS[:1], vectors[5:6])
        asked = ["unknown", *TEXTS[:600], TEXTS[3], "unknown, too"]
        found = list(cache.get_many(asked))
        assert [one is None for one in found] == [True, *[False] * 601, True]
        assert np.array_equal(np.array(found[1:601]), vectors[:600])
        assert np.array_equal(found[601], vectors[3])  # type: ignore[arg-type]
        assert np.array_equal(other.get(TEXTS[0]), vectors[5])  # type: ignore[arg-type]
        assert other.get(TEXTS[1]) is None
        cache.put(TEXTS[:1], vectors[9:10])
        assert np.array_equal(cache.get(TEXTS[0]), vectors[9])  # type: ignore[arg-type]
        assert list(cache.get_many([])) == []
    assert known_texts(path, IDENTITY, asked) == set(TEXTS[:600])


def test_a_file_of_an_earlier_version_is_made_compact_once(
    path: Path, vectors: Vectors, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_old(path, vectors)
    assert known_texts(path, IDENTITY, [*TEXTS, "a note"]) == set(TEXTS)
    before = path.stat().st_size
    VectorCache(path, IDENTITY, report=Reporter()).close()
    assert "cache.sqlite is made compact, once: 3002 vectors are copied." in capsys.readouterr().err
    assert page_size(path) == PAGE
    assert path.stat().st_size < before / 2
    assert content(path, vectors)
    assert known_texts(path, IDENTITY, [*TEXTS, "a note"]) == set(TEXTS)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM texts").fetchall() == [("k", "written by a model")]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    VectorCache(path, IDENTITY, report=Reporter()).close()
    assert capsys.readouterr().err == ""
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(doing: Callable[[], object]) -> None:
    """Do it in a process of its own, which is killed by it."""
    pid = os.fork()
    if pid == 0:
        try:
            doing()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("moment", ["_copy", "_copy_vectors", "os.fsync", "fsync_dir", "Path.replace", "in the middle"])
def test_a_kill_while_it_is_made_compact_loses_no_vector(path: Path, vectors: Vectors, moment: str) -> None:
    fill_old(path, vectors)

    id_of = vector_cache._id_of

    def open_and_die() -> None:
        with pytest.MonkeyPatch.context() as patch:
            if moment == "in the middle":
                patch.setattr(
                    vector_cache, "_id_of", lambda new, name: die() if name.startswith(NOTES) else id_of(new, name)
                )
            else:
                patch.setattr(f"nightly.index.vector_cache.{moment}", die)
            VectorCache(path, IDENTITY)

    killed(open_and_die)
    assert content(path, vectors)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_copy_that_fails_leaves_the_file_as_it_was(
    path: Path, vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_old(path, vectors)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch, pytest.raises(sqlite3.OperationalError, match="full"):
        patch.setattr(vector_cache, "_create", full)
        VectorCache(path, IDENTITY)
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert content(path, vectors)


@pytest.mark.parametrize("old", [True, False])
def test_what_is_forgotten_is_in_no_byte_of_the_cache(path: Path, vectors: Vectors, old: bool) -> None:
    fill_old(path, vectors)
    if not old:
        VectorCache(path, IDENTITY).close()
    path.with_name("cache.sqlite.tmp").write_bytes(vectors[7].tobytes())  # a night was killed while it copied
    assert forget(path, [TEXTS[0], TEXTS[7], "never embedded"]) == 4, "two, one of another model, and the note"
    left = b"".join(one.read_bytes() for one in path.parent.iterdir())
    # The first numbers of a row suffice: a long one lies on several pages.
    gone = {0: False, 1: True, 7: False, 8: True}
    assert {number: vectors[number][:64].tobytes() in left for number in gone} == gone
    assert NOTES.encode() not in left
    assert b"written by a model" not in left
    with closing(VectorCache(path, IDENTITY)) as cache:
        assert [one is None for one in cache.get_many(TEXTS)].count(True) == 2


def test_a_file_that_was_begun_for_written_texts_is_compact_too(path: Path, vectors: Vectors) -> None:
    TextCache(path).close()
    with closing(VectorCache(path, IDENTITY)) as cache:
        cache.put(TEXTS, vectors)
    assert page_size(path) == PAGE
    assert forget(path.with_name("none.sqlite"), TEXTS) == 0
    assert known_texts(path.with_name("none.sqlite"), IDENTITY, TEXTS) == set()
