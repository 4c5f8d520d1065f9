"""What every vector backend must do, asked of each of them in the same words; then what only one of them is asked."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from shared.backends import asking, chroma, sqlite
from shared.backends.asking import KEPT, AskingBackend
from shared.backends.choose import backend_of
from shared.backends.null import NullBackend
from shared.backends.sqlite import VectorFile
from shared.embedding import DocumentVectors, EmbeddingIdentity
from shared.errors import EmbeddingError, ReleaseRefused, SettingsError
from shared.files import sha256_file
from shared.release import CHROMA, VECTORS, Manifest, list_files, read_manifest, seal, verify
from shared.settings import INDEXES, load_settings
from tests.conftest import World

if TYPE_CHECKING:
    from shared.embedding import Vectors

DIMENSIONS = 32
IDENTITY = EmbeddingIdentity("made-up", DIMENSIONS, "", "", "test", "d1")
PLACES = {"sqlite": VECTORS, "chroma": CHROMA}


def vector_of(text: str) -> Vectors:
    """A unit vector that follows from the text."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    made = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return cast("Vectors", made / np.linalg.norm(made))


class MadeUp:
    """An embedder without a model."""

    def __init__(self, identity: EmbeddingIdentity = IDENTITY) -> None:
        self.identity, self.asked, self.closed = identity, list[str](), False

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        return DocumentVectors(np.array([vector_of(text) for text in texts]))

    def embed_query(self, text: str) -> Vectors:
        if text == "away":
            raise EmbeddingError("The embedder is away.")
        self.asked.append(text)
        return vector_of(text)

    def close(self) -> None:
        self.closed = True


Said = Mapping[str, Mapping[str, str]]


def make_release(root: Path, names: Sequence[str], said: Said, identity: EmbeddingIdentity | None = IDENTITY) -> Path:
    """A sealed release of `said` (chat id -> chunk id -> text) with these indexes."""
    path = root / "release"
    path.mkdir(parents=True)
    chats, repeats = {}, {}
    for chat, chunks in said.items():
        first: dict[str, str] = {}
        for chunk_id, text in chunks.items():
            first.setdefault(text, chunk_id)
        chats[chat] = (list(first.values()), np.array([vector_of(text) for text in first]))
        repeats[chat] = {one: first[text] for one, text in chunks.items() if first[text] != one}
    if "sqlite" in names:
        sqlite.build(path / VECTORS, chats, repeats)
    if "chroma" in names:
        chroma.build(path / CHROMA, chats)
    seal(path, Manifest(1, None, {}, 1, 1, "UTC", list(names), identity, {}, {}, {}, {}))
    return path


Open = Callable[..., AskingBackend]


@pytest.fixture(params=INDEXES)
def name(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made = MadeUp()
    monkeypatch.setattr(asking, "open_embedder", lambda settings: made)
    return made


@pytest.fixture
def backend(tmp_path: Path, name: str, embedder: MadeUp) -> Iterator[Callable[[Said], AskingBackend]]:
    """An opened backend on a release of what was said."""
    made: list[AskingBackend] = []

    def on(said: Said) -> AskingBackend:
        made.append(opened(make_release(tmp_path, [name], said), tmp_path, name))
        assert made[-1].is_available(), made[-1].why_not
        return made[-1]

    yield on
    for one in made:
        one.close()


def opened(path: Path, root: Path, name: str = "auto") -> AskingBackend:
    settings = load_settings(hmem_state_dir=root / "state", memory_backend=name)
    found = backend_of(settings, path, read_manifest(path))
    assert isinstance(found, AskingBackend), found.why_not
    found.open()
    return found


def notes(chat: str, count: int) -> dict[str, str]:
    return {f"{chat}/{number}": f"note {number} of {chat}" for number in range(count)}


def ids(found: Sequence[Any]) -> list[str]:
    return [match.chunk_id for match in found]


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
    assert kept >= (25 * 20 - 2 if name == "sqlite" else 25 * 20 * 0.97), "float16 may swap a tie, HNSW may miss some"


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
        assert np.isnan(found[1:]).all()


OTHER_MODELS = {
    "another family": (replace(IDENTITY, family="other"), "family"),
    "other dimensions": (replace(IDENTITY, dimensions=384), "dimensions"),
    "another prefix": (replace(IDENTITY, query_prefix="query: "), "query prefix"),
    "another version": (replace(IDENTITY, digest="d2"), "another version of the model"),
    "other answers": (replace(IDENTITY, probes=((1.0,) + (0.0,) * (DIMENSIONS - 1),) * 3), "answers differently"),
    "no model at all": (None, "does not say how it was embedded"),
}


@pytest.mark.parametrize("other", OTHER_MODELS)
def test_vectors_of_another_model_are_not_compared(tmp_path: Path, name: str, embedder: MadeUp, other: str) -> None:
    identity, why = OTHER_MODELS[other]
    found = opened(make_release(tmp_path, [name], {"1": notes("1", 3)}, identity), tmp_path, name)
    assert not found.is_available()
    assert why in (found.why_not or "")
    assert found.search("note 1 of 1", "1", 3) == []
    assert np.isnan(found.similarities("note 1 of 1", "1", ["1/1"])).all()
    assert embedder.closed == (identity is not None)
    found.close()


def test_without_an_embedder_there_is_no_question(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "open_embedder", lambda settings: None)
    found = opened(make_release(tmp_path, [name], {"1": notes("1", 3)}), tmp_path, name)
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
def test_a_damaged_index_is_refused(tmp_path: Path, name: str, embedder: MadeUp, damage: str) -> None:
    path = make_release(tmp_path, [name], {"1": notes("1", 50)})
    index = path / PLACES[name]
    DAMAGE[damage](index if index.is_file() else index / chroma.DATABASE)
    found = opened(path, tmp_path, name)
    assert not found.is_available()
    assert any(why in (found.why_not or "") for why in ("was changed", "is missing", "has no sqlite index"))
    assert found.search("note 1 of 1", "1", 3) == []
    found.close()


def test_a_damaged_manifest_is_refused(tmp_path: Path, name: str, embedder: MadeUp) -> None:
    path = make_release(tmp_path, [name], {"1": notes("1", 5)})
    settings = load_settings(hmem_state_dir=tmp_path / "state", memory_backend=name)
    found = backend_of(settings, path, read_manifest(path))
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
        shutil.rmtree(tmp_path / "release")
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
    path = tmp_path / "release"
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


# ---------------------------------------------------------------------------------------------------------- which one it is


@pytest.mark.parametrize(
    ("setting", "built", "chosen"),
    [
        ("auto", ["sqlite", "chroma"], "sqlite"),
        ("auto", ["chroma"], "chroma"),
        ("auto", ["sqlite"], "sqlite"),
        ("chroma", ["sqlite", "chroma"], "chroma"),
        ("sqlite", ["sqlite", "chroma"], "sqlite"),
        ("chroma", ["sqlite"], "MEMORY_BACKEND=chroma asks for others"),
        ("sqlite", ["chroma"], "MEMORY_BACKEND=sqlite asks for others"),
        ("auto", ["qdrant"], "MEMORY_BACKEND=auto asks for others"),
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


def test_what_the_manifest_promises_must_be_there(tmp_path: Path, name: str, embedder: MadeUp) -> None:
    path = make_release(tmp_path, [], {})
    manifest = replace(read_manifest(path), indexes=[name])
    found = backend_of(load_settings(hmem_state_dir=tmp_path), path, manifest)
    found.open()
    assert found.why_not == f"release release has no {name} index"


@pytest.fixture
def poisoned(world: World) -> World:
    """A world whose commands end when they import Chroma."""
    library = world.root / "library" / "chromadb"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("import os\nos._exit(99)\n")
    world.environment["PYTHONPATH"] = str(library.parent)
    return world


def test_without_chroma_in_the_settings_nobody_imports_it(poisoned: World) -> None:
    poisoned.say("t1", "the boiler code is 4711")
    poisoned.command("hmem-night", "run")
    done = poisoned.command("hmem", "search", "9912", "what opens the boiler?", "--json")
    assert '"vector": null' not in done.stdout
    assert "t1:user" in done.stdout
    poisoned.say("t2", "the wifi is called heron")
    assert poisoned.command("hmem-night", "run", check=False, NIGHT_INDEXES="chroma").returncode == 99


def test_a_host_without_the_library_says_what_to_install(
    tmp_path: Path, embedder: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_release(tmp_path, ["chroma"], {"1": notes("1", 3)})

    def missing(path: Path) -> None:
        raise ModuleNotFoundError("No module named 'chromadb'", name="chromadb")

    monkeypatch.setattr(chroma, "_client", missing)
    found = opened(path, tmp_path)
    assert "not installed (chromadb); install the extra: pip install 'hcli-memory[chroma]'" in (found.why_not or "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"NIGHT_INDEXES names chroma.*hcli-memory\[chroma\]"):
        chroma.refuse_without_library()


# ---------------------------------------------------------------------------------------------------------------- SQLite


@pytest.fixture
def file(tmp_path: Path) -> Iterator[VectorFile]:
    """Ten chats of a hundred vectors; memory for three of them."""
    chats = {
        str(n): ([f"{n}/{row}" for row in range(100)], np.array([vector_of(f"{n} {row}") for row in range(100)]))
        for n in range(10)
    }
    sqlite.build(tmp_path / VECTORS, chats)
    with closing(VectorFile(tmp_path / VECTORS, DIMENSIONS, 3 * 100 * (DIMENSIONS * 4 + sqlite.ROW_BYTES))) as made:
        yield made


def test_the_chats_asked_last_stay_in_memory_and_no_more(file: VectorFile) -> None:
    first = file.chat("0")
    for chat in ("1", "2", "0", "3"):
        file.chat(chat)
    assert list(file._kept) == ["2", "0", "3"]
    assert file.chat("0") is first
    file._cache_bytes = 10
    assert file.chat("5") is file.chat("5"), "the newest one stays, however large"
    assert list(file._kept) == ["5"]


def test_a_chat_over_many_blocks_is_read_in_order(tmp_path: Path) -> None:
    count = 2 * sqlite.BLOCK_ROWS + 3
    vectors = np.array([vector_of(str(row)) for row in range(count)])
    chats = {"1": ([str(row) for row in range(count)], vectors), "2": (["other"], vectors[:1])}
    sqlite.build(tmp_path / VECTORS, chats, {"1": {"again": "2050"}})
    assert sqlite.check(tmp_path / VECTORS, chats, {"1": {"again": "2050"}}) == {"1": count, "2": 1}
    with closing(VectorFile(tmp_path / VECTORS, DIMENSIONS)) as file:
        chat = file.chat("1")
        assert chat is not None
        assert [chat.nearest(vectors[row], 1)[0].chunk_id for row in (0, 1023, 1024, 2047, 2050)] == [
            "0",
            "1023",
            "1024",
            "2047",
            "2050",
        ]
        assert chat.compare(vectors[2050], ["again", "2050"]).min() > 0.999


def test_equal_scores_come_in_the_order_of_the_rows() -> None:
    chat = sqlite.ChatVectors(
        list("abcdef"), np.array([[1, 0], [0, 1], [1, 0], [1, 0], [0, 1], [1, 0]], np.float32), {}
    )
    assert [ids(chat.nearest(np.array([1, 0], np.float32), k)) for k in (2, 4, 5, 6, 99)] == [
        ["a", "c"], ["a", "c", "d", "f"], ["a", "c", "d", "f", "b"], ["a", "c", "d", "f", "b", "e"], ["a", "c", "d", "f", "b", "e"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE blocks SET chat_id = '2' WHERE chat_no = 1", "does not fit its chat"),
        ("UPDATE blocks SET chat_no = 1, block_no = 1 WHERE chat_no = 2", "does not fit its chat"),
        ("UPDATE blocks SET vectors = CAST(x'00' || vectors AS BLOB) WHERE chat_no = 1", "does not fit its chat"),
        ("UPDATE blocks SET vectors = zeroblob(64) WHERE chat_no = 1", "does not fit its chat"),
        ("DELETE FROM blocks WHERE chat_no = 1", "holds 0 of 3"),
        ("UPDATE chats SET vectors = 2 WHERE chat_no = 1", "does not fit its chat"),
    ],
)
def test_a_file_that_does_not_fit_itself_gives_no_answer(tmp_path: Path, change: str, why: str) -> None:
    """No night builds one, and its hash would be wrong: still another chat's rows must not come out of it."""
    said = {
        chat: (list(notes(chat, 3)), np.array([vector_of(text) for text in notes(chat, 3).values()])) for chat in "12"
    }
    sqlite.build(tmp_path / VECTORS, said)
    with closing(sqlite3.connect(tmp_path / VECTORS)) as connection:
        connection.execute(change)
        connection.commit()
    with (
        closing(VectorFile(tmp_path / VECTORS, DIMENSIONS)) as file,
        pytest.raises(ReleaseRefused, match=why),
    ):
        file.chat("1")


def test_a_file_of_another_layout_is_not_read(tmp_path: Path, embedder: MadeUp) -> None:
    path = make_release(tmp_path, [], {})
    sqlite.build(path / VECTORS, {})
    with closing(sqlite3.connect(path / VECTORS)) as connection:
        connection.execute("PRAGMA user_version = 2")
    seal(path, replace(read_manifest(path), indexes=["sqlite"]))
    found = opened(path, tmp_path)
    assert "has layout 2, this program knows 1" in (found.why_not or "")
