"""What every vector backend must do, asked of each of them in the same words."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shared.config.kinds import indexes, place_of
from shared.config.settings import Settings
from shared.errors import EmbeddingError
from shared.release.manifest import list_files, read_manifest, verify
from shared.system.files import sha256_file
from shared.vectors.base import backend_of
from shared.vectors.searching import AskingBackend
from tests.support.night.index_world import (
    DIMENSIONS,
    IDENTITY,
    MadeUp,
    Said,
    ids,
    make_release,
    notes,
    opened,
    vector_of,
)
from tests.support.night.mirrors import damage as flip


def test_a_chat_finds_its_own_words_and_nobody_elses(backend: Callable[[Said], AskingBackend]) -> None:
    chats = [str(number) for number in range(5)]
    opened = backend({chat: {**notes(chat, 5), f"{chat}/canary": f"canary {chat}"} for chat in chats})
    for asker in chats:
        for asked in chats:
            found = opened.search(f"canary {asked}", asker, 10)
            assert {one.split("/")[0] for one in ids(found)} == {asker}
            assert (found[0].score > 0.99) == (asker == asked)
            assert (found[0].chunk_id == f"{asker}/canary") or asker != asked


def test_the_order_is_that_of_an_exact_search(name: str, backend: Callable[[Said], AskingBackend]) -> None:
    said = notes("1", 400)
    opened = backend({"1": said, "2": notes("2", 50)})
    every = np.array([vector_of(text) for text in said.values()])
    kept = 0
    for question in (f"question {number}" for number in range(25)):
        scores = every @ vector_of(question)
        exact = [list(said)[row] for row in np.argsort(-scores)[:20]]
        found = opened.search(question, "1", 20)
        assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)
        by_id = dict(zip(said, scores, strict=True))
        assert [match.score for match in found] == pytest.approx([by_id[one] for one in ids(found)], abs=2e-3)
        kept += len(set(exact) & set(ids(found)))
    assert kept >= (25 * 20 * 0.97 if name == "chroma" else 25 * 20 - 2), "float16 may swap a tie, HNSW may miss some"


def test_a_chat_without_vectors_has_no_answer(backend: Callable[[Said], AskingBackend]) -> None:
    opened = backend({"1": notes("1", 3)})
    for nobody in ("2", "", "1 ", "%", "*"):
        assert opened.search("note 1 of 1", nobody, 5) == []
        assert np.isnan(opened.similarities("note 1 of 1", nobody, ["1/1", "1/2"])).all()


ODD = ["-100123", "../../etc/passwd", "a'b\"c; DROP TABLE chats", "*", "%", "_", "", " ", "A", "a", "Ünï ☃ 漢字", "x" * 300, "1", "01", "1 ", "{}",
       "chat\x00id", "chat", '{"$ne": 1}']  # fmt: skip


def test_odd_chat_ids_are_chats_like_others(backend: Callable[[Said], AskingBackend]) -> None:
    opened = backend({chat: {f"c{number}": f"said in chat number {number}"} for number, chat in enumerate(ODD)})
    for number, chat in enumerate(ODD):
        assert ids(opened.search("said in chat number 3", chat, 50)) == [f"c{number}"]
        assert opened.similarities(f"said in chat number {number}", chat, [f"c{number}"])[0] > 0.99


def test_words_and_chunk_ids_of_any_script(backend: Callable[[Said], AskingBackend]) -> None:
    texts = ["Größe: 🚀", "שלום", "नमस्ते", 'quo"te \\ "', "line\nbreak\x00", "NULL", "漢字かな交じり文"]
    opened = backend({"1": {f"ü☃'\"-{number}:user#1": text for number, text in enumerate(texts)}})
    for number, text in enumerate(texts):
        assert ids(opened.search(text, "1", 1)) == [f"ü☃'\"-{number}:user#1"]


def test_similarities_are_those_of_the_vectors(backend: Callable[[Said], AskingBackend]) -> None:
    said = notes("1", 60)
    opened = backend({"1": said, "2": notes("2", 60)})
    wanted = ["1/7", "2/7", "1/59", "nobody", "1/7", "", "1/0"]
    found = opened.similarities("a question", "1", wanted)
    assert found.dtype == np.float32
    exact = [float(vector_of(said[one]) @ vector_of("a question")) if one in said else np.nan for one in wanted]
    np.testing.assert_allclose(found, exact, atol=2e-3)
    assert opened.similarities("a question", "1", []).shape == (0,)
    everybody = tuple(said)  # asked again, in another order, and one of many
    for asked in (everybody, everybody, tuple(reversed(everybody)), ("1/9",), everybody):
        exact = [float(vector_of(said[one]) @ vector_of("a question")) for one in asked]
        np.testing.assert_allclose(opened.similarities("a question", "1", asked), exact, atol=2e-3)


def test_a_repeated_text_is_found_once(name: str, backend: Callable[[Said], AskingBackend]) -> None:
    said = {"first": "OK", **notes("1", 3), "again": "OK", "and again": "OK"}
    opened = backend({"1": said})
    assert ids(opened.search("OK", "1", 10)).count("first") == 1
    assert len(opened.search("OK", "1", 10)) == 4
    found = opened.similarities("OK", "1", ["first", "again", "and again"])
    assert found[0] > 0.99
    if name == "sqlite":  # which knows whose vector theirs is
        assert (found == found[0]).all()
    else:
        assert all(np.isnan(one) or one == found[0] for one in found[1:])


OTHER_MODELS = {
    "another family": (replace(IDENTITY, family="other"), "family"),
    "other dimensions": (replace(IDENTITY, dimensions=384), "dimensions"),
    "another prefix": (replace(IDENTITY, query_prefix="query: "), "query prefix"),
    "another version": (replace(IDENTITY, digest="d2"), "another version of the model"),
    "other answers": (replace(IDENTITY, probes=((1.0,) + (0.0,) * (DIMENSIONS - 1),) * 3), "answers differently"),
    "no model at all": (None, "does not record how it was embedded"),
}


@pytest.mark.parametrize(
    ("name", "other"),
    [(name, "another family") for name in indexes()] + [("sqlite", other) for other in [*OTHER_MODELS][1:]],
)
def test_vectors_of_another_model_are_not_compared(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp, other: str
) -> None:
    identity, why = OTHER_MODELS[other]
    found = opened(settings, make_release(settings, tmp_path, [name], {"1": notes("1", 3)}, identity=identity), name)
    assert not found.is_available()
    assert why in (found.why_not or "")
    assert found.search("note 1 of 1", "1", 3) == []
    assert np.isnan(found.similarities("note 1 of 1", "1", ["1/1"])).all()
    assert embedder.closed == (identity is not None)
    found.close()


def test_an_embedder_that_goes_away_is_an_error_of_the_lookup_alone(backend: Callable[[Said], AskingBackend]) -> None:
    found = backend({"1": notes("1", 3)})
    with pytest.raises(EmbeddingError, match="away"):
        found.search("away", "1", 3)
    assert ids(found.search("note 1 of 1", "1", 1)) == ["1/1"]


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a flipped bit": flip,
    "a file that is gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize(
    ("name", "damage"),
    [(name, "a flipped bit") for name in indexes()] + [("sqlite", damage) for damage in [*DAMAGE][1:]],
)
def test_a_damaged_index_is_refused(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp, damage: str
) -> None:
    path = make_release(settings, tmp_path, [name], {"1": notes("1", 50)})
    index = path / place_of(name)
    DAMAGE[damage](
        index if index.is_file() else max(index.rglob("*"), key=lambda file: file.is_file() * file.stat().st_size)
    )
    found = opened(settings, path, name)
    assert not found.is_available()
    assert any(why in (found.why_not or "") for why in ("was changed", "is missing", f"has no {name} index"))
    assert found.search("note 1 of 1", "1", 3) == []
    found.close()


def test_a_damaged_manifest_is_refused(tmp_path: Path, settings: Settings, name: str, embedder: MadeUp) -> None:
    path = make_release(settings, tmp_path, [name], {"1": notes("1", 5)})
    found = backend_of(settings.model_copy(update={"memory_backend": name}), path, read_manifest(path))
    (path / "manifest.json").write_bytes((path / "manifest.json").read_bytes().replace(b"sha256:", b"sha256:0", 1))
    found.open()
    assert "manifest" in (found.why_not or "")
    found.close()


def test_a_release_that_is_removed_while_it_is_read_answers_until_it_is_closed(
    tmp_path: Path, backend: Callable[[Said], AskingBackend]
) -> None:
    chats = [str(number) for number in range(40)]
    found = backend({chat: notes(chat, 30) for chat in chats})
    gone = threading.Event()

    def ask(chat: str) -> bool:
        before = ids(found.search(f"note 3 of {chat}", chat, 3))
        gone.wait(600)
        return ids(found.search(f"note 3 of {chat}", chat, 3)) == before and before[0] == f"{chat}/3"

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(ask, chat) for chat in chats[:8]]
        shutil.rmtree(tmp_path / "releases" / "1")
        gone.set()
        assert all(answer.result() for answer in answers)
    assert all(ids(found.search(f"note 9 of {chat}", chat, 1)) == [f"{chat}/9"] for chat in chats), (
        "also those not read yet"
    )


@pytest.mark.slow
def test_closed_while_it_is_asked_it_says_so_and_harms_nobody(backend: Callable[[Said], AskingBackend]) -> None:
    found = backend({str(chat): notes(str(chat), 30) for chat in range(60)})

    def ask(number: int) -> int:
        return len(found.search("a question", str(number % 60), 5))

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(ask, number) for number in range(200)]
        found.close()
    assert {answer.result() for answer in answers if answer.exception() is None} <= {0, 5}
    assert (found.is_available(), found.why_not) == (False, "closed")
    assert found.search("a question", "1", 5) == []
    found.close()
    found.open()
    assert ids(found.search("note 3 of 1", "1", 1)) == ["1/3"], "it may be opened again"


def test_reading_writes_nothing(tmp_path: Path, backend: Callable[[Said], AskingBackend]) -> None:
    found = backend({"1": notes("1", 50), "2": notes("2", 5)})
    path = tmp_path / "releases" / "1"
    before = {file: sha256_file(path / file) for file in list_files(path)}
    found.search("a question", "1", 5)
    found.search("a question", "2", 5)
    found.close()
    verify(path)
    assert {file: sha256_file(path / file) for file in list_files(path)} == before


def test_what_the_manifest_promises_must_be_there(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp
) -> None:
    path = make_release(settings, tmp_path, [], {})
    found = backend_of(settings, path, replace(read_manifest(path), indexes=[name]))
    found.open()
    assert found.why_not == f"release 1 has no {name} index"
