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
from shared.release.manifest import read_manifest
from shared.vectors.base import backend_of
from shared.vectors.searching import AskingBackend
from tests.support.night.index_world import (
    DIMENSIONS,
    IDENTITY,
    MadeUp,
    Said,
    finds,
    make_release,
    nearest,
    notes,
    opened,
    vector_of,
)
from tests.support.night.mirrors import damage as flip


def test_a_chat_finds_its_own_words_and_nobody_elses(backend: Callable[[Said], AskingBackend]) -> None:
    chats = [str(number) for number in range(5)]
    said = {chat: {**notes(chat, 5), f"{chat}/canary": f"canary {chat}"} for chat in chats}
    opened = backend(said)
    for asker in chats:
        for asked in chats:
            found = nearest(opened, f"canary {asked}", asker, said, 10)
            assert {one.split("/")[0] for one in found} == {asker}
            assert (found[0] == f"{asker}/canary") or asker != asked


def test_a_chat_without_vectors_has_no_answer(backend: Callable[[Said], AskingBackend]) -> None:
    opened = backend({"1": notes("1", 3)})
    for nobody in ("2", "", "1 ", "%", "*"):
        assert np.isnan(opened.similarities("note 1 of 1", nobody, ["1/1", "1/2"])).all()


ODD = ["-100123", "../../etc/passwd", "a'b\"c; DROP TABLE chats", "*", "%", "_", "", " ", "A", "a", "Ünï ☃ 漢字", "x" * 300, "1", "01", "1 ", "{}",
       "chat\x00id", "chat", '{"$ne": 1}']  # fmt: skip


def test_odd_chat_ids_are_chats_like_others(backend: Callable[[Said], AskingBackend]) -> None:
    said = {chat: {f"c{number}": f"said in chat number {number}"} for number, chat in enumerate(ODD)}
    opened = backend(said)
    for number, chat in enumerate(ODD):
        assert nearest(opened, "said in chat number 3", chat, said, 50) == [f"c{number}"]
        assert opened.similarities(f"said in chat number {number}", chat, [f"c{number}"])[0] > 0.99


def test_words_and_chunk_ids_of_any_script(backend: Callable[[Said], AskingBackend]) -> None:
    texts = ["Größe: 🚀", "שלום", "नमस्ते", 'quo"te \\ "', "line\nbreak\x00", "NULL", "漢字かな交じり文"]
    said = {"1": {f"ü☃'\"-{number}:user#1": text for number, text in enumerate(texts)}}
    opened = backend(said)
    for number, text in enumerate(texts):
        assert nearest(opened, text, "1", said) == [f"ü☃'\"-{number}:user#1"]


def test_similarities_are_those_of_the_vectors(name: str, backend: Callable[[Said], AskingBackend]) -> None:
    said = notes("1", 400)
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
        found = opened.similarities("a question", "1", asked)
        told = ~np.isnan(found)
        assert told.mean() >= (0.97 if name == "chroma" else 1), "HNSW may miss some"
        np.testing.assert_allclose(found[told], np.array(exact)[told], atol=2e-3)


def test_a_repeated_text_is_as_near_as_the_first_or_is_not_compared(
    name: str, backend: Callable[[Said], AskingBackend]
) -> None:
    opened = backend({"1": {"first": "OK", **notes("1", 3), "again": "OK", "and again": "OK"}})
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
    assert np.isnan(found.similarities("note 1 of 1", "1", ["1/1"])).all()
    assert embedder.closed == (identity is not None)
    found.close()


def test_an_embedder_that_goes_away_is_an_error_of_the_lookup_alone(backend: Callable[[Said], AskingBackend]) -> None:
    found = backend({"1": notes("1", 3)})
    with pytest.raises(EmbeddingError, match="away"):
        found.similarities("away", "1", ["1/1"])
    assert found.similarities("note 1 of 1", "1", ["1/1"])[0] > 0.99


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
    assert not finds(found)
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
    said = {chat: notes(chat, 30) for chat in chats}
    found, gone = backend(said), threading.Event()

    def ask(chat: str) -> bool:
        before = nearest(found, f"note 3 of {chat}", chat, said, 3)
        gone.wait(600)
        return nearest(found, f"note 3 of {chat}", chat, said, 3) == before and before[0] == f"{chat}/3"

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(ask, chat) for chat in chats[:8]]
        shutil.rmtree(tmp_path / "releases" / "1")
        gone.set()
        assert all(answer.result() for answer in answers)
    assert all(nearest(found, f"note 9 of {chat}", chat, said) == [f"{chat}/9"] for chat in chats), "also new ones"


@pytest.mark.slow
def test_closed_while_it_is_asked_it_says_so_and_harms_nobody(backend: Callable[[Said], AskingBackend]) -> None:
    said = {str(chat): notes(str(chat), 30) for chat in range(60)}
    found = backend(said)

    def ask(number: int) -> int:
        return len(nearest(found, "a question", str(number % 60), said, 5))

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(ask, number) for number in range(200)]
        found.close()
    assert {answer.result() for answer in answers if answer.exception() is None} <= {0, 5}
    assert (found.is_available(), found.why_not) == (False, "closed")
    assert not finds(found)
    found.close()
    found.open()
    assert finds(found), "it may be opened again"


def test_what_the_manifest_promises_must_be_there(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp
) -> None:
    path = make_release(settings, tmp_path, [], {})
    found = backend_of(settings, path, replace(read_manifest(path), indexes=[name]))
    found.open()
    assert found.why_not == f"release 1 has no {name} index"
