"""The built indexes: what is proven after closing, what is copied forward from the last night, and what a broken disk ends as."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest

from nightly.index import previous
from nightly.index.chunk_file import read_columns
from nightly.index.rows import read_rows
from nightly.steps import build
from shared.errors import HmemError, LedgerMismatch, ReleaseRefused, StorageError
from shared.release.manifest import CHROMA, LEXICAL, PLACES, VECTORS, list_files
from shared.search import lexical
from shared.system.files import sha256_file
from shared.turns.chunk import Chunk
from shared.vectors import chroma
from shared.vectors.base import Corpus
from shared.vectors.chroma import ChromaBuilder
from shared.vectors.sqlite.files import VectorFile
from shared.vectors.sqlite.index import SqliteBuilder
from tests.support.world import World

if TYPE_CHECKING:
    pass
from tests.support.night.builds import DIMENSIONS, Nights, said, talk, vector_of


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


# What is proven after closing


def of_chunks(chunks: list[Chunk], repeats: dict[str, dict[str, str]] | None = None) -> Corpus:
    chats: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        chats.setdefault(chunk.chat_id, []).append(chunk)
    vectors = {
        chat: ([c.chunk_id for c in own], np.array([vector_of(c.text) for c in own])) for chat, own in chats.items()
    }
    return Corpus(vectors, repeats or {})


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed index of two chats, one of them above Chroma's threshold for writing its files."""
    path = tmp_path_factory.mktemp("sound") / CHROMA
    ChromaBuilder().build(path, of_chunks(INDEXED))
    return path


INDEXED = [*talk(1100, ("9912",)), *talk(60, ("-100123",))]


def with_client(change: Callable[[Any], object]) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        with chroma._opened(path, "change") as client:
            change(client)

    return damage


def _collection(client: Any, chat: str) -> Any:
    return client.get_collection(chroma.collection_name(chat), embedding_function=None)


def _swap_vectors(client: Any) -> None:
    ids = ["t0-9912:user#1", "t50-9912:user#1"]
    _collection(client, "9912").upsert(ids=ids, embeddings=[vector_of("something else"), vector_of("and else")])


def _without_a_chat(path: Path) -> None:
    shutil.rmtree(path)
    ChromaBuilder().build(path, of_chunks([chunk for chunk in INDEXED if chunk.chat_id == "9912"]))


def _flip_page(path: Path, page: int = 3) -> None:
    """The byte that says what kind of page this is."""
    with path.open("r+b") as file:
        size = int.from_bytes(path.read_bytes()[16:18], "big")
        file.seek(page * size)
        file.write(b"\xff")


def _cut_vectors(path: Path) -> None:
    largest = max(path.rglob("data_level0.bin"), key=lambda file: file.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)


DAMAGE: dict[str, tuple[Callable[[Path], object], type[HmemError], str]] = {
    "a row is gone": (
        with_client(lambda c: _collection(c, "9912").delete(ids=["t7-9912:user#1"])),
        ReleaseRefused,
        "holds 1099 of 1100",
    ),
    "a chat is gone": (
        _without_a_chat,
        ReleaseRefused,
        "1 chats too few",
    ),
    "a collection of nobody": (
        with_client(lambda c: c.create_collection("nobody", embedding_function=None)),
        ReleaseRefused,
        "1 collections that belong to no chat",
    ),
    "other vectors": (with_client(_swap_vectors), ReleaseRefused, "does not find the vector of chunk t0-9912"),
    "another chat's record": (
        with_client(lambda c: _collection(c, "9912").modify(metadata={"chat_id": "1"})),
        ReleaseRefused,
        "of a chat",
    ),
    "a log that was not folded in": (lambda p: (p / "chroma.sqlite3-wal").write_bytes(b""), ReleaseRefused, "left behind"),
    "a journal": (lambda p: (p / "chroma.sqlite3-journal").write_bytes(b"x"), ReleaseRefused, "left behind"),
    "a folder of nobody": (lambda p: (p / "4711").mkdir(), ReleaseRefused, "belongs to no collection"),
    "a flipped byte": (lambda p: _flip_page(p / chroma.DATABASE), StorageError, "was damaged"),
    "half of the vectors": (_cut_vectors, ReleaseRefused, "not written completely"),
    "no header": (lambda p: next(p.rglob("header.bin")).unlink(), ReleaseRefused, "not written completely"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_to_a_closed_index_is_seen(tmp_path: Path, sound: Path, name: str) -> None:
    damage, error, why = DAMAGE[name]
    shutil.copytree(sound, tmp_path / CHROMA)
    damage(tmp_path / CHROMA)
    with pytest.raises(error, match=why):
        ChromaBuilder().check(tmp_path / CHROMA, tmp_path / "proof", of_chunks(INDEXED))


def test_the_proof_of_an_index_leaves_it_as_it_was(tmp_path: Path, sound: Path) -> None:
    before = {name: sha256_file(sound / name) for name in list_files(sound)}
    checked = ChromaBuilder().check(sound, tmp_path / "proof", of_chunks(INDEXED))
    assert (checked.vectors, checked.unreached) == ({"9912": 1100, "-100123": 60}, 0)
    assert {name: sha256_file(sound / name) for name in list_files(sound)} == before


def _sql(*statements: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return damage


LEXICAL_DAMAGE: dict[str, tuple[Callable[[Path], object], type[HmemError], str]] = {
    "a chunk is gone": (_sql("DELETE FROM chunks WHERE chunk_no = 3"), LedgerMismatch, "holds 39 chunks"),
    "a chunk that nobody made": (
        _sql("INSERT INTO chunks SELECT 99, 'x', chat_id, exchange, turn_ids, role, speaker, text, 1, 1, 1, 1, NULL, NULL FROM chunks LIMIT 1"),
        LedgerMismatch,
        "holds 41 chunks",
    ),
    "a chat is gone": (_sql("DELETE FROM chats WHERE chat_no = 1"), LedgerMismatch, "finds 20 by keyword"),
    "two chats changed places": (
        _sql("UPDATE chats SET chat_no = -chat_no", "UPDATE chats SET chat_no = chat_no + 3"),
        LedgerMismatch,
        "by keyword",
    ),
    "a row without its words": (_sql("DELETE FROM items WHERE chat_no = 1"), LedgerMismatch, "finds 19 by keyword"),
    "a word is gone": (_sql("DELETE FROM postings WHERE chat_no = 1 AND term = 'note'"), LedgerMismatch, "finds 19 by keyword"),
    "another chat's word": (_sql("UPDATE postings SET chat_no = 2 WHERE chat_no = 1 AND term = '9912'"), LedgerMismatch, "by keyword"),
    "words of nobody": (
        _sql("INSERT INTO postings SELECT 7, term, ordinals, counts FROM postings WHERE chat_no = 1"), LedgerMismatch, "finds 40 by keyword"),
    "items of nobody": (
        _sql("INSERT INTO items SELECT 7, chunk_ids, speakers, starts, lengths, tokens, said_by, flags, users FROM items WHERE chat_no = 1"),
        LedgerMismatch,
        "finds 40 by keyword",
    ),
    "two chats changed their words": (
        _sql("UPDATE items SET chat_no = -chat_no", "UPDATE items SET chat_no = chat_no + 3"), LedgerMismatch, "by keyword"),
    "a flipped byte": (lambda p: _flip_page(p, 2), StorageError, "was damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEXICAL_DAMAGE)
def test_damage_to_closed_keywords_is_seen(tmp_path: Path, name: str) -> None:
    damage, error, why = LEXICAL_DAMAGE[name]
    lexical.build(tmp_path, 1, [(chunk, chunk.text) for chunk in talk(20)])
    (part,) = tmp_path.iterdir()
    before = sha256_file(part)
    assert lexical.check(tmp_path, {"9912": 20, "-100123": 20}) == {"9912": 20, "-100123": 20}
    assert (sha256_file(part), list(tmp_path.iterdir())) == (before, [part]), "the proof leaves no trace"
    damage(part)
    with pytest.raises(error, match=why):
        lexical.check(tmp_path, {"9912": 20, "-100123": 20})


@pytest.mark.parametrize(
    ("indexes", "more"),
    [
        ("chroma", {"indexes": ["chroma"], "copied_forward": 0, "added": 7, "unreached": 0}),
        ("sqlite", {"indexes": ["sqlite"], "copied_forward": 0, "added": 7, "unreached": 0}),
        ("chroma,sqlite", {"indexes": ["sqlite", "chroma"], "copied_forward": 0, "added": 7, "unreached": 0}),
    ],
)
def test_a_build_counts_what_each_chat_has_and_leaves_only_its_files(
    tmp_path: Path, indexes: str, more: dict[str, Any]
) -> None:
    nights = Nights(tmp_path, indexes)
    chunks = [*talk(3), said("9912", 8, "OK"), said("9912", 9, "OK"), said("77", 1, "poison")]
    night, result = nights.build(chunks, refused={"t1-77:user#1": "too long"})
    assert result["indexed"] == {
        "9912": {"keywords": 5, "vectors": 5, "repeated": 1, "not_embedded": 0},
        "-100123": {"keywords": 3, "vectors": 3, "repeated": 0, "not_embedded": 0},
        "77": {"keywords": 1, "vectors": 0, "repeated": 0, "not_embedded": 1},
    }
    places = {LEXICAL, *(PLACES[name] for name in more["indexes"])}
    assert {name: value for name, value in result.items() if name not in ("indexed", "proven", "places")} == more
    assert {path.name for path in night.output("build").iterdir()} == {"result.json", *places}
    held = {LEXICAL: 9, VECTORS: 8, CHROMA: 7}  # chunks; vectors and what repeats one; vectors
    rows = {
        place: record.get("parts", {}).get("1.sqlite") or _counted(record) for place, record in result["places"].items()
    }
    assert {place: found["rows"] for place, found in rows.items()} == {place: held[place] for place in places}
    assert result["proven"] == {
        place: previous.digest_of(previous.hash_files(night.output("build") / place)) for place in places
    }


def _counted(record: dict[str, Any]) -> dict[str, int]:
    return {"rows": sum(map(len, record["rows"].values()))}


def test_a_build_without_vectors_says_so(nights: Nights) -> None:
    _, result = nights.build(talk(2, ("1",)), family=None)
    assert (result["indexes"], [*result["places"]], [*result["proven"]]) == ([], [LEXICAL], [LEXICAL])
    assert result["indexed"] == {"1": {"keywords": 2, "vectors": None, "not_embedded": 0}}


def test_a_stray_file_stops_the_build(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    real = lexical.build

    def and_a_log(place: Path, *arguments: Any) -> None:
        real(place, *arguments)
        (place / "1.sqlite-wal").write_bytes(b"")

    monkeypatch.setattr(lexical, "build", and_a_log)
    with pytest.raises(ReleaseRefused, match=r"lexical/1\.sqlite-wal was left behind"):
        nights.build(talk(2))


@pytest.mark.parametrize("missing", [1, -1])
def test_vectors_that_do_not_fit_the_chunks_stop_the_build(nights: Nights, missing: int) -> None:
    night = nights.night(talk(3))
    vectors = np.load(night.output("embed") / "vectors.npy")
    fitting = vectors[:-1] if missing == 1 else np.concatenate([vectors, vectors[:1]])
    np.save(night.output("embed") / "vectors.npy", fitting)
    with pytest.raises(LedgerMismatch, match="do not belong to the chunks"):
        read_rows(night, read_columns(night.output("chunk")))
    vectors[2] = 0  # and no reason why
    np.save(night.output("embed") / "vectors.npy", vectors)
    with pytest.raises(LedgerMismatch, match="do not belong to the chunks"):
        read_rows(night, read_columns(night.output("chunk")))


def test_no_texts_with_vectors_make_an_empty_index(tmp_path: Path) -> None:
    """All that was said was refused by the embedder."""
    nights = Nights(tmp_path, "sqlite,chroma")
    _, result = nights.build([said("1", 1)], refused={"t1-1:user#1": "too long"})
    assert result["indexed"] == {"1": {"keywords": 1, "vectors": 0, "repeated": 0, "not_embedded": 1}}
    assert [path.name for path in (nights.built / VECTORS).iterdir()] == ["1.sqlite"]


# SQLite


REPEATS = {"9912": {"again": "t7-9912:user#1"}}

SQLITE_DAMAGE: dict[str, tuple[Callable[[Path], object], type[HmemError], str]] = {
    "a block is gone": (_sql("DELETE FROM blocks WHERE chat_no = 1 AND block_no = 1"), ReleaseRefused, "holds 1024 of 1100 vectors"),
    "a chat is gone": (_sql("DELETE FROM chats WHERE chat_no = 2"), ReleaseRefused, "1 chats that are not as they were given"),
    "a chat of nobody": (_sql("INSERT INTO chats VALUES (9, '1', 0, '{}')"), ReleaseRefused, "holds other chats"),
    "another count": (_sql("UPDATE chats SET vectors = 1099 WHERE chat_no = 1"), ReleaseRefused, "1 chats that are not as they were given"),
    "other vectors": (_sql("UPDATE blocks SET vectors = zeroblob(60 * 64) WHERE chat_no = 2"), ReleaseRefused, "holds other vectors of a chat"),
    "other ids": (
        _sql("UPDATE blocks SET ids = CAST(replace(CAST(ids AS TEXT), 't7-', 't9999-') AS BLOB)"), ReleaseRefused, "holds other chunks"),
    "the ids of another": (
        _sql("UPDATE blocks SET ids = CAST(replace(CAST(ids AS TEXT), 't7-', 't8-') AS BLOB)"), ReleaseRefused, "holds other chunks"),
    "a repeated chunk of another": (
        _sql("UPDATE chats SET repeated = CAST(replace(CAST(repeated AS TEXT), 't7-', 't8-') AS BLOB)"), ReleaseRefused, "repeats other chunks"),
    "a repeated chunk is gone": (_sql("UPDATE chats SET repeated = CAST('{}' AS BLOB)"), ReleaseRefused, "repeats other chunks"),
    "two chats changed places": (
        _sql("UPDATE chats SET chat_no = -chat_no", "UPDATE chats SET chat_no = chat_no + 3"), ReleaseRefused, "does not fit its chat"),
    "a flipped byte": (lambda p: _flip_page(p, 1), StorageError, "was damaged"),
    "half of it": (lambda p: os.truncate(p, p.stat().st_size // 2), StorageError, "was damaged"),
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


def test_the_same_vectors_make_the_same_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        SqliteBuilder(1).build(tmp_path / name, of_chunks(INDEXED, REPEATS))
    assert sha256_file(tmp_path / "one" / "1.sqlite") == sha256_file(tmp_path / "two" / "1.sqlite")


@pytest.mark.parametrize("size", [0, 4096, 50_000])
def test_a_full_disk_is_a_storage_error_for_sqlite_too(tmp_path: Path, size: int) -> None:
    with files_limited_to(size), pytest.raises(StorageError, match="SQLite could not write the index"):
        SqliteBuilder(1).build(tmp_path / VECTORS, of_chunks(INDEXED))


def test_repeated_words_are_known_by_their_first(tmp_path: Path) -> None:
    nights = Nights(tmp_path, "sqlite")
    nights.build([said("1", 1), *(said("1", number, "OK") for number in (2, 3, 4)), said("2", 5, "OK")])
    with closing(VectorFile(nights.built / VECTORS, DIMENSIONS)) as file:
        chat = file.chat("1")
        assert chat is not None
        assert chat.rows == {"t1-1:user#1": 0, "t2-1:user#1": 1, "t3-1:user#1": 1, "t4-1:user#1": 1}
        assert len(chat.vectors) == 2


def test_an_index_that_is_not_built_any_more_is_not_kept(tmp_path: Path) -> None:
    Nights(tmp_path).published(talk(6))
    nights = Nights(tmp_path, "sqlite")
    nights.runs = 1
    nights.published(talk(6))
    assert {path.name for path in (nights.last / "2").iterdir()} == {LEXICAL, VECTORS, "index.json"}
    nights = Nights(tmp_path, "sqlite,chroma")
    nights.runs = 2
    assert nights.published(talk(6))["copied_forward"] == 12, (
        "counted of the first index: SQLite's was kept, Chroma's was not"
    )
    assert {path.name for path in (nights.last / "3").iterdir()} == {LEXICAL, VECTORS, CHROMA, "index.json"}
    assert nights.published(talk(7))["copied_forward"] == 12
    with closing(VectorFile(nights.built / VECTORS, DIMENSIONS)) as file:
        assert file.chats() == {"9912": 7, "-100123": 7}


# Crowds


def test_the_same_words_hundreds_of_times_hide_nothing_else(nights: Nights, tmp_path: Path) -> None:
    """As rows of their own they do: some of the notes are then not found by any question."""
    notes = [said("1", number) for number in range(500)]
    crowd = [said("1", 1000 + number, f"All is well, {number % 2}.") for number in range(600)]
    mixed = [chunk for group in zip(notes, crowd[:500], strict=True) for chunk in group] + crowd[500:]
    _, result = nights.build(mixed)
    assert result["indexed"]["1"] == {"keywords": 1100, "vectors": 1100, "repeated": 598, "not_embedded": 0}
    assert result["unreached"] == 0
    every = of_chunks(notes).chats["1"][1]
    shutil.copytree(nights.built / CHROMA, tmp_path / "all")
    with chroma._opened(tmp_path / "all", "read") as client:
        answer = _collection(client, "1").query(query_embeddings=every, n_results=1)
    assert [found[0] for found in answer["ids"]] == [chunk.chunk_id for chunk in notes]


@pytest.mark.parametrize(
    ("asked", "missed", "stored", "passes"),
    [(9, 1, True, False), (10, 1, True, True), (10, 2, True, False), (10, 1, False, False), (50, 3, True, True)],
)
def test_a_search_that_misses_few_is_no_damage(asked: int, missed: int, *, stored: bool, passes: bool) -> None:
    ids = [f"c{number}" for number in range(asked * chroma.SELF_CHECK_EVERY)]
    vectors = np.array([vector_of(one) for one in ids])
    answer = {"ids": [["other"]] * asked, "distances": [[0.5]] * missed + [[0.0]] * (asked - missed)}
    collection = SimpleNamespace(
        metadata={"chat_id": "1"},
        count=lambda: len(ids),
        query=lambda **_: answer,
        get=lambda ids, **_: {"embeddings": vectors[[int(ids[0][1:])]] if stored else []},
    )
    client = SimpleNamespace(get_collection=lambda *_, **__: collection)
    if passes:
        assert chroma._check_chat(client, "1", ids, vectors) == (len(ids), missed)
    else:
        with pytest.raises(ReleaseRefused, match="does not find the vector of chunk c0"):
            chroma._check_chat(client, "1", ids, vectors)


# Copied forward


def test_an_index_that_only_grew_is_added_to_and_equals_a_new_one(nights: Nights, tmp_path: Path) -> None:
    nights.published([*talk(60), said("1", 1, "alone")])
    grown = [*talk(70), said("1", 1, "alone"), said("1", 2, "alone"), said("new", 1)]
    result = nights.published(grown)
    assert (result["copied_forward"], result["added"]) == (121, 21)
    added = nights.contents(tmp_path)
    shutil.rmtree(nights.last)
    anew = nights.published(grown)
    assert (anew["copied_forward"], anew["added"]) == (0, 142)
    assert nights.contents(tmp_path) == added, "the same ids and the same bytes"
    assert anew["indexed"] == result["indexed"]
    assert [path.name for path in nights.last.iterdir()] == ["3"], "the newest one only"
    assert nights.report.lines == []


def test_what_was_added_can_be_added_to(nights: Nights, tmp_path: Path) -> None:
    for count in (30, 33, 36):
        last = nights.published(talk(count))
    assert (last["copied_forward"], last["added"]) == (66, 6)
    found = nights.contents(tmp_path)
    assert {chat: len(ids) for chat, ids in found.items()} == {"9912": 36, "-100123": 36}


def _without_record(last: Path) -> None:
    (last / "1" / "index.json").unlink()


def _changed_record(last: Path) -> None:
    record = last / "1" / "index.json"
    record.write_bytes(record.read_bytes().replace(b"t1-9912", b"t9-9912"))


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """A new file: the old one is a link to what a night has built."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(change(content))


REFUSED: dict[str, tuple[Callable[[Path], object], dict[str, Any], str]] = {
    "no record": (_without_record, {}, "cannot be read"),
    "a changed record": (_changed_record, {}, "its own checksum"),
    "an unreadable record": (lambda p: (p / "1" / "index.json").write_bytes(b"{"), {}, "cannot be read"),
    "a changed file": (
        lambda p: _rewrite(p / "1" / CHROMA / chroma.DATABASE, lambda c: c[:-1] + bytes([c[-1] ^ 1])), {}, "were changed"),
    "a cut file": (lambda p: _rewrite(p / "1" / CHROMA / chroma.DATABASE, lambda c: c[:-1]), {}, "were changed"),
    "a file too many": (lambda p: (p / "1" / CHROMA / "more").touch(), {}, "were changed"),
    "a link": (lambda p: (p / "1" / CHROMA / "more").symlink_to("/etc/hostname"), {}, "changed"),
    "another model": (lambda p: None, {"digest": "d2"}, "another embedding"),
    "other prefixes": (lambda p: None, {"prefixes": {"document": "passage: "}}, "another embedding"),
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
    assert {path.name for path in nights.built.iterdir()} == {LEXICAL, CHROMA, "result.json"}
    assert nights.published(talk(7), **identity)["copied_forward"] == 12, "what this night kept is whole"


def test_an_empty_folder_is_no_last_index(nights: Nights) -> None:
    nights.published(talk(5))
    shutil.rmtree(nights.last / "1")
    assert nights.published(talk(6))["copied_forward"] == 0
    assert nights.report.lines == [], "it may be deleted at any time"


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
    nights = Nights(tmp_path, "sqlite,chroma")
    nights.published(talk(10))
    result = nights.published([*tonight, *(said("9912", number) for number in range(20, 23))])
    assert result["copied_forward"] == 0
    assert [line.split()[0] for line in nights.report.lines] == ["lexical/1.sqlite", "vectors/1.sqlite", "chroma/"]
    assert all("forgotten or has changed" in line for line in nights.report.lines)
    gone = _words(talk(10)) - _words(tonight)
    assert gone
    content = b"".join(
        path.read_bytes() for top in (nights.built, nights.last) for path in top.rglob("*") if path.is_file()
    )
    assert not [one for one in gone if re.search(rb"\b" + one.encode() + rb"\b", content)]


def test_chroma_leaves_no_memory_of_the_night_in_its_files(nights: Nights) -> None:
    """hnswlib saves what it has reserved and not used, as it was."""
    nights.published(talk(10))
    for segment in (nights.built / "chroma").glob("*/header.bin"):
        count, size = struct.unpack_from("<QQ", segment.read_bytes(), 20)
        assert 0 < count < 100
        content = (segment.parent / "data_level0.bin").read_bytes()
        assert len(content) > count * size, "more is reserved than used"
        assert not any(content[count * size :])
        assert any(content[: count * size])
        assert not any((segment.parent / "length.bin").read_bytes()[4 * count :])


def test_mostly_new_vectors_are_written_anew(nights: Nights) -> None:
    nights.published(talk(4))
    assert nights.published(talk(8))["copied_forward"] == 8
    assert nights.published(talk(17))["copied_forward"] == 0
    assert "18 of 34 vectors are new" in nights.report.lines[0]


def test_another_version_of_chroma_does_not_add_to_it(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    nights.published(talk(4))
    monkeypatch.setattr(ChromaBuilder, "version", lambda _: "chromadb 9")
    assert nights.published(talk(5))["copied_forward"] == 0
    assert "chroma/ is built from nothing" in nights.report.lines[0]
    assert "another version" in nights.report.lines[0]


def test_nothing_of_the_last_index_is_written_to(nights: Nights) -> None:
    """Its files are those of a finished night: only their copy may be opened."""
    night, _ = nights.build(talk(6))
    previous.keep(night)
    source = night.output("build") / CHROMA
    before = previous.hash_files(source)
    assert all((source / name).samefile(nights.last / "1" / CHROMA / name) for name in before)
    assert nights.published(talk(7))["copied_forward"] == 12
    assert previous.hash_files(source) == before


def test_an_index_is_taken_once_so_that_a_build_that_dies_of_it_is_not_repeated(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights.published(talk(6))
    with monkeypatch.context() as broken:
        broken.setattr(ChromaBuilder, "build", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        night = nights.night(talk(7))
        with pytest.raises(KeyboardInterrupt):
            build.run(night, night.begin("build"))
    result = build.run(night, night.begin("build"))
    assert (result["copied_forward"], result["added"]) == (0, 14)


def test_keeping_is_repeated_without_harm_and_ends_with_the_index(nights: Nights) -> None:
    night, _ = nights.build(talk(6))
    previous.keep(night)
    files = previous.hash_files(nights.last)
    previous.keep(night)
    assert previous.hash_files(nights.last) == files
    night, _ = nights.build(talk(6), family=None)
    previous.keep(night)
    kept = {path.name for path in (nights.last / "2").iterdir()}
    assert kept == {LEXICAL, "index.json"}, "vectors are switched off: none are kept"


def test_a_night_that_built_nothing_keeps_what_is_there(nights: Nights) -> None:
    nights.published(talk(6))
    night = nights.night(talk(6))
    night.begin("build")
    night.commit("build", {"skipped": "nothing new"})
    previous.keep(night)
    assert [path.name for path in nights.last.iterdir()] == ["1"]


def test_words_of_another_stemmer_are_not_carried_on(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    nights.published(talk(6))
    monkeypatch.setattr(lexical, "version", lambda: "another stemmer")
    nights.published(talk(7))
    assert [path.name for path in (nights.built / LEXICAL).iterdir()] == ["2.sqlite"]
    assert "lexical/ is built from nothing" in nights.report.lines[0]


def test_an_index_that_changed_after_its_proof_is_not_kept(nights: Nights) -> None:
    night, _ = nights.build(talk(6))
    _rewrite(night.output("build") / CHROMA / chroma.DATABASE, lambda c: c + b"x")
    previous.keep(night)
    assert {path.name for path in (nights.last / "1").iterdir()} == {LEXICAL, "index.json"}
    assert [*previous._read(nights.last / "1")] == [LEXICAL]
    assert "chroma/ was changed after it was verified" in nights.report.lines[0]


class Died(BaseException):
    """As if the power had gone."""


@contextmanager
def dying_at(call: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The n-th file operation of keeping fails; yields the names of those that were begun."""
    begun: list[str] = []

    def guarded(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **more: Any) -> Any:
            begun.append(name)
            if len(begun) == call:
                raise error
            return real(*arguments, **more)

        return operation

    with monkeypatch.context() as patch:
        for module, name in (
            (os, "link"),
            (previous, "write_atomic"),
            (previous, "commit_dir"),
            (previous, "remove_tree"),
            (previous, "fresh_dir"),
        ):
            patch.setattr(module, name, guarded(name, getattr(module, name)))
        yield begun


def test_a_death_while_keeping_leaves_the_old_or_the_new_index(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every file operation in turn: after it the next build adds to one of the two, or builds anew, and always holds the same."""
    nights.published(talk(6))
    shutil.copytree(nights.last, tmp_path / "old")
    night, _ = nights.build(talk(7))
    call, passed = 0, False
    while not passed:
        call += 1
        shutil.rmtree(nights.last, ignore_errors=True)
        shutil.copytree(tmp_path / "old", nights.last)
        with dying_at(call, Died(), monkeypatch) as begun:
            try:
                previous.keep(night)
                passed = True
            except Died:
                pass
        whole = [path for path in nights.last.iterdir() if path.name.isdigit()]
        assert whole, f"one of the two is there at any time (died at {begun[-1]})"
        for path in whole:
            places = previous._read(path)
            assert {*places} == {LEXICAL, CHROMA}
            assert all(previous.hash_files(path / place) == record["files"] for place, record in places.items())
    assert call > 8
    assert begun.count("commit_dir") == 1, "made durable before it has its name"
    assert [path.name for path in nights.last.iterdir()] == ["2"]
    assert nights.published(talk(8))["copied_forward"] > 0


def test_a_disk_that_fails_while_keeping_does_not_fail_the_night(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    night, _ = nights.build(talk(6))
    with dying_at(2, OSError(28, "No space left on device"), monkeypatch):
        previous.keep(night)
    assert "No space left" in nights.report.lines[0]
    nights.report.lines.clear()
    assert nights.published(talk(7))["copied_forward"] == 0
    assert [path.name for path in nights.last.iterdir()] == ["2"]


def test_the_second_night_adds_to_the_first_ones_index(world: World) -> None:
    for number in range(4):
        world.say(f"t{number}", f"note number {number} about the garden")
    world.night(night_indexes="chroma")
    world.say("t9", "the boiler code is 4711")
    world.night(night_indexes="chroma")
    result = orjson.loads((world.night_dir / "nights" / "2" / "build" / "result.json").read_bytes())
    assert (result["copied_forward"], result["added"]) == (4, 1)


# A disk that fails


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the write fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 20_000, 150_000, 300_000])
def test_a_full_disk_is_a_storage_error_wherever_chroma_meets_it(tmp_path: Path, size: int) -> None:
    with files_limited_to(size), pytest.raises(StorageError, match="could not write the index"):
        ChromaBuilder().build(tmp_path / CHROMA, of_chunks(talk(300)))


def test_a_full_disk_while_the_proof_is_made_is_a_storage_error(tmp_path: Path, sound: Path) -> None:
    with files_limited_to(100_000), pytest.raises(StorageError, match="could not be copied"):
        ChromaBuilder().check(sound, tmp_path / "proof", of_chunks(INDEXED))


def test_a_panic_of_chromas_rust_part_is_a_storage_error(tmp_path: Path) -> None:
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(StorageError, match="could not write the index"), chroma._opened(tmp_path, "write"):
        raise panic("called `Result::unwrap()` on an `Err` value")
    with pytest.raises(KeyboardInterrupt), chroma._opened(tmp_path / "other", "write"):
        raise KeyboardInterrupt
