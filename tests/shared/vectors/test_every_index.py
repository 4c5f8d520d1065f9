"""What every vector backend must do, asked of each of them in the same words; then what only one of them is asked."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from shared.config.settings import INDEXES, Settings, load_settings
from shared.errors import EmbeddingError, IndexServerUnavailable, SettingsError
from shared.release.manifest import PLACES, Manifest, list_files, read_manifest, verify
from shared.search.recall import OpenRelease
from shared.search.types import HiddenTurns, Query
from shared.system.files import sha256_file
from shared.vectors import searching
from shared.vectors.base import NullBackend
from shared.vectors.on_server import served_names
from shared.vectors.registry import SERVED, backend_of, builder_of, served_builder_of
from shared.vectors.searching import KEPT, AskingBackend
from tests.support.night.index_world import (
    DIMENSIONS,
    IDENTITY,
    MadeUp,
    Said,
    earlier_of,
    ids,
    make_release,
    notes,
    opened,
    settings_for,
    vector_of,
)
from tests.support.world import World


@pytest.fixture(params=INDEXES)
def name(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)


@pytest.fixture
def settings(tmp_path: Path, name: str) -> Iterator[Settings]:
    with settings_for([name], tmp_path) as made:
        yield made


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made = MadeUp()
    monkeypatch.setattr(searching, "open_embedder", lambda settings: made)
    return made


@pytest.fixture
def backend(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp
) -> Iterator[Callable[[Said], AskingBackend]]:
    """An opened backend on a release of what was said."""
    made: list[AskingBackend] = []

    def on(said: Said) -> AskingBackend:
        made.append(opened(settings, make_release(settings, tmp_path, [name], said), name))
        assert made[-1].is_available(), made[-1].why_not
        return made[-1]

    yield on
    for one in made:
        one.close()


# ------------------------------------------------------------------------------------------------------------ the contract


def test_a_chat_finds_its_own_words_and_nobody_elses(backend: Callable[[Said], AskingBackend]) -> None:
    chats = [str(number) for number in range(12)]
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


def test_more_than_the_chat_has_is_all_that_it_has(backend: Callable[[Said], AskingBackend]) -> None:
    opened = backend({"1": notes("1", 7), "2": notes("2", 3)})
    assert sorted(ids(opened.search("note 3 of 1", "1", 1000))) == sorted(notes("1", 7))
    assert len(opened.search("note 3 of 1", "1", 1)) == 1
    assert opened.search("note 3 of 1", "1", 0) == []


def test_a_chat_without_vectors_has_no_answer(backend: Callable[[Said], AskingBackend]) -> None:
    opened = backend({"1": notes("1", 3)})
    for nobody in ("2", "", "1 ", "%", "*"):
        assert opened.search("note 1 of 1", nobody, 5) == []
        assert np.isnan(opened.similarities("note 1 of 1", nobody, ["1/1", "1/2"])).all()


def test_a_release_in_which_nobody_said_anything(backend: Callable[[Said], AskingBackend]) -> None:
    assert backend({}).search("anything", "1", 5) == []


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


@pytest.mark.parametrize("other", OTHER_MODELS)
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


def test_without_an_embedder_there_is_no_question(
    tmp_path: Path, settings: Settings, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "open_embedder", lambda settings: None)
    found = opened(settings, make_release(settings, tmp_path, [name], {"1": notes("1", 3)}), name)
    assert found.why_not == "EMBEDDER=none: no vector of the question"


def test_an_embedder_that_goes_away_is_an_error_of_the_lookup_alone(backend: Callable[[Said], AskingBackend]) -> None:
    found = backend({"1": notes("1", 3)})
    with pytest.raises(EmbeddingError, match="away"):
        found.search("away", "1", 3)
    assert ids(found.search("note 1 of 1", "1", 1)) == ["1/1"]


def _flip_last(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a flipped bit": _flip_last,
    "a cut file": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "an empty file": lambda file: file.write_bytes(b""),
    "something else": lambda file: file.write_bytes(b"no index"),
    "a file that is gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_refused(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp, damage: str
) -> None:
    path = make_release(settings, tmp_path, [name], {"1": notes("1", 50)})
    index = path / PLACES[name]
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


def test_readers_at_the_same_time_get_their_own_answers(backend: Callable[[Said], AskingBackend]) -> None:
    chats = [str(number) for number in range(20)]
    found = backend({chat: notes(chat, 40) for chat in chats})

    def ask(number: int) -> bool:
        chat, note = chats[number % 20], number * 7 % 40
        hits = found.search(f"note {note} of {chat}", chat, 5)
        similar = found.similarities(f"note {note} of {chat}", chat, [f"{chat}/{note}"])
        return ids(hits)[0] == f"{chat}/{note}" and len(hits) == 5 and similar[0] > 0.99

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(400)))


def test_a_release_that_is_removed_while_it_is_read_answers_until_it_is_closed(
    tmp_path: Path, backend: Callable[[Said], AskingBackend]
) -> None:
    chats = [str(number) for number in range(40)]
    found = backend({chat: notes(chat, 30) for chat in chats})
    gone = threading.Event()

    def ask(chat: str) -> bool:
        before = ids(found.search(f"note 3 of {chat}", chat, 3))
        gone.wait(10)
        return ids(found.search(f"note 3 of {chat}", chat, 3)) == before and before[0] == f"{chat}/3"

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(ask, chat) for chat in chats[:8]]
        shutil.rmtree(tmp_path / "releases" / "1")
        gone.set()
        assert all(answer.result() for answer in answers)
    assert all(ids(found.search(f"note 9 of {chat}", chat, 1)) == [f"{chat}/9"] for chat in chats), (
        "also those not read yet"
    )


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


def test_a_question_is_embedded_once(backend: Callable[[Said], AskingBackend], embedder: MadeUp) -> None:
    found = backend({"1": notes("1", 5)})
    embedder.asked.clear()
    for _ in range(3):
        found.search("a question", "1", 5)
        found.similarities("a question", "1", ["1/1"])
    assert embedder.asked == ["a question"]
    for number in range(KEPT):
        found.search(f"question {number}", "1", 5)
    found.search("a question", "1", 5)
    assert embedder.asked[-1] == "a question", "the oldest one was forgotten"


def test_what_the_manifest_promises_must_be_there(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp
) -> None:
    path = make_release(settings, tmp_path, [], {})
    found = backend_of(settings, path, replace(read_manifest(path), indexes=[name]))
    found.open()
    assert found.why_not == f"release 1 has no {name} index"


# ------------------------------------------------------------------------------------------------------ from night to night


SAID = {"1": notes("1", 30), "-2": notes("-2", 12)}


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
    second = make_release(settings, tmp_path, [name], grown(), run=2, earlier={name: earlier_of(name, first, SAID)})
    new, anew = opened(settings, second, name), make_release(settings, tmp_path / "anew", [name], grown())
    whole = opened(settings, anew, name)
    for question, chat in (("note 33 of 1", "1"), ("note 3 of 1", "1"), ("note 2 of 3", "3"), ("a question", "-2")):
        assert ids(new.search(question, chat, 10)) == ids(whole.search(question, chat, 10))
        every = tuple(grown()[chat])
        np.testing.assert_array_equal(
            new.similarities(question, chat, every), whole.similarities(question, chat, every)
        )
    assert ids(old.search("note 33 of 1", "1", 1)) != ["1/33"]
    assert old.search("note 2 of 3", "3", 1) == []
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
    assert gone not in ids(found_later.search(said["1"][gone], "1", 50))
    assert np.isnan(found_later.similarities(said["1"][gone], "1", [gone])).all()
    found_later.close()
    assert not [file for file in list_files(second) if gone.encode() in (second / file).read_bytes()]


def test_a_switch_and_a_way_back_while_questions_are_asked(
    tmp_path: Path, settings: Settings, name: str, embedder: MadeUp
) -> None:
    """Each reader answers from its own release to the end, whichever one is current, and an alias moves both ways."""
    first = make_release(settings, tmp_path, [name], SAID)
    second = make_release(settings, tmp_path, [name], grown(), run=2, earlier={name: earlier_of(name, first, SAID)})
    old, stop = opened(settings, first, name), threading.Event()

    def ask() -> set[str]:
        seen = set[str]()
        while not stop.is_set():
            seen.add(ids(old.search("note 35 of 1", "1", 1))[0])
        return seen

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(ask) for _ in range(4)]
        _follow(settings, name, second)
        new = opened(settings, second, name)
        assert ids(new.search("note 35 of 1", "1", 1)) == ["1/35"]
        _follow(settings, name, first)  # back
        new.close()
        again = opened(settings, first, name)
        assert ids(again.search("note 3 of 1", "1", 1)) == ["1/3"]
        again.close()
        stop.set()
        assert {one for answer in answers for one in answer.result()}.isdisjoint({"1/35"})
    old.close()


def _follow(settings: Settings, name: str, release: Path) -> None:
    if name in SERVED:
        served_builder_of(name, settings, 0).follow(release / PLACES[name])


# ------------------------------------------------------------------------------------------------------------- on a server


@pytest.fixture(params=SERVED)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Settings]]:
    """The name of an index on a server, and settings that lead there."""
    with settings_for([request.param], tmp_path) as made:
        yield request.param, made


def test_what_no_release_names_is_swept_away(tmp_path: Path, server: tuple[str, Settings], embedder: MadeUp) -> None:
    name, settings = server
    first, second, third = (make_release(settings, tmp_path, [name], SAID, run=run) for run in (1, 2, 3))
    builder = served_builder_of(name, settings, 3)
    builder.follow(second / PLACES[name])
    assert builder.left_over([], newest=1) == served_names(first), "a later night may be building one"
    assert builder.sweep(served_names(third), newest=1) == served_names(first)
    assert builder.sweep(served_names(third)) == served_names(second), "wherever an alias leads"
    assert builder.left_over(served_names(third)) == builder.sweep(served_names(third)) == []
    gone = opened(settings, first, name)
    assert not gone.is_available()
    assert gone.search("note 3 of 1", "1", 1) == []
    with closing(opened(settings, third, name)) as kept:
        assert ids(kept.search("note 3 of 1", "1", 1)) == ["1/3"]


def test_another_installation_on_the_same_server_is_left_alone(
    tmp_path: Path, server: tuple[str, Settings], embedder: MadeUp
) -> None:
    name, ours = server
    theirs = ours.model_copy(update={"index_name": f"{ours.index_name}-2"})
    release = make_release(theirs, tmp_path, [name], SAID)
    assert served_builder_of(name, ours, 1).sweep([]) == []
    with closing(opened(theirs, release, name)) as found:
        assert found.is_available(), found.why_not
    assert served_builder_of(name, theirs, 1).sweep([]) == served_names(release)


def test_a_server_that_is_away_costs_the_vectors_and_no_time(
    tmp_path: Path, server: tuple[str, Settings], embedder: MadeUp
) -> None:
    """A port that nobody listens on, and one that takes the call and never answers."""
    name, settings = server
    release = make_release(settings, tmp_path, [name], SAID)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for away in (_at(settings, port), _at(settings, 1)):
            found = opened(away, release, name)
            assert not found.is_available()
            assert f"the {name} server is not available" in (found.why_not or "")
            assert found.search("note 3 of 1", "1", 1) == []
            found.close()
            with pytest.raises(IndexServerUnavailable, match=r"does not answer|cannot be reached"):
                served_builder_of(name, away, 2).refuse_unless_usable()
    served_builder_of(name, settings, 2).sweep([])


def _at(settings: Settings, port: int) -> Settings:
    scheme = {"qdrant_url": "http", "redis_stack_url": "redis"}
    return settings.model_copy(update={one: f"{scheme[one]}://127.0.0.1:{port}" for one in scheme})


# ---------------------------------------------------------------------------------------------------------- which one it is


@pytest.mark.parametrize(
    ("setting", "built", "chosen"),
    [
        ("auto", ["sqlite", "chroma"], "sqlite"),
        ("auto", ["chroma"], "chroma"),
        ("auto", ["redis", "lancedb"], "lancedb"),
        ("chroma", ["sqlite", "chroma"], "chroma"),
        ("qdrant", ["sqlite", "qdrant"], "qdrant"),
        ("sqlite", ["sqlite", "chroma"], "sqlite"),
        ("chroma", ["sqlite"], "MEMORY_BACKEND=chroma requires another index"),
        ("sqlite", ["chroma"], "MEMORY_BACKEND=sqlite requires another index"),
        ("auto", ["pinecone"], "MEMORY_BACKEND=auto requires another index"),
        ("auto", [], "without a vector index"),
        ("none", ["sqlite"], "MEMORY_BACKEND=none"),
    ],
)
def test_the_setting_and_the_release_choose_the_backend(
    tmp_path: Path, setting: str, built: list[str], chosen: str
) -> None:
    manifest = Manifest(1, None, {}, 1, 1, "UTC", built, IDENTITY, {}, {}, {}, {})
    found = backend_of(load_settings(memory_backend=setting), tmp_path, manifest)
    if isinstance(found, AskingBackend):
        assert found.name == chosen
    else:
        assert chosen in (found.why_not or "")
        assert isinstance(found, NullBackend)
        assert found.search("a question", "1", 5) == []
        assert np.isnan(found.similarities("a question", "1", ["a", "b"])).all()


LIBRARIES = {"chroma": "chromadb", "lancedb": "lancedb", "qdrant": "qdrant_client", "redis": "redisvl"}


@pytest.fixture(params=LIBRARIES)
def poisoned(world: World, request: pytest.FixtureRequest) -> World:
    """A world whose commands end when they import the library of this index."""
    library = world.root / "library" / LIBRARIES[request.param]
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("import os\nos._exit(99)\n")
    world.environment |= {"PYTHONPATH": str(library.parent), "WANTED": request.param}
    return world


def test_nobody_imports_the_library_of_an_index_that_the_settings_do_not_name(poisoned: World) -> None:
    poisoned.say("t1", "the boiler code is 4711")
    poisoned.command("hmem-night", "run")
    done = poisoned.command("hmem", "search", "9912", "what opens the boiler?", "--json")
    assert '"vector": null' not in done.stdout
    assert "t1:user" in done.stdout
    poisoned.say("t2", "the wifi is called heron")
    named = poisoned.environment["WANTED"]
    wanted = {"NIGHT_INDEXES": named, "QDRANT_URL": "http://127.0.0.1:1"}
    assert poisoned.command("hmem-night", "run", check=False, **wanted).returncode == 99


@pytest.mark.parametrize("index", LIBRARIES)
def test_a_host_without_the_library_says_what_to_install(
    tmp_path: Path, index: str, embedder: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    with settings_for([index], tmp_path) as settings:
        path = make_release(settings, tmp_path, [index], {"1": notes("1", 3)})
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        extra = "redis-search" if index == "redis" else index
        with pytest.raises(SettingsError, match=rf"NIGHT_INDEXES names {index}.*--with {extra} in "):
            builder_of(index, settings, 1).refuse_unless_usable()
        found = opened(settings, path, index)
        assert f"scripts/setup --with {extra}" in (found.why_not or "")
        if index in SERVED:
            monkeypatch.undo()
            served_builder_of(index, settings, 1).sweep([])
