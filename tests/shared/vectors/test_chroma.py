"""What only Chroma is asked: which damage to a closed index is seen, crowds of equal texts, what its files keep, and what a broken disk ends as."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.config.kinds import place_of
from shared.errors import HmemError, ReleaseRefused, StorageError
from shared.release.manifest import list_files
from shared.system.files import sha256_file
from shared.vectors.chroma import index as chroma
from shared.vectors.chroma.index import ChromaBuilder
from tests.support.night.builds import INDEXED, Nights, of_chunks, said, talk
from tests.support.night.index_world import vector_of
from tests.support.night.indexes.damage import files_limited_to, flip_page

CHROMA = place_of("chroma")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed index of two chats, one of them above Chroma's threshold for writing its files."""
    path = tmp_path_factory.mktemp("sound") / CHROMA
    ChromaBuilder().build(path, of_chunks(INDEXED))
    return path


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
    "a folder of nobody": (lambda p: (p / "4711").mkdir(), ReleaseRefused, "belongs to no collection"),
    "a flipped byte": (lambda p: flip_page(p / chroma.DATABASE), StorageError, "is damaged"),
    "half of the vectors": (_cut_vectors, ReleaseRefused, "not written completely"),
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


def test_the_same_words_hundreds_of_times_hide_nothing_else(tmp_path: Path) -> None:
    """As rows of their own they do: some of the notes are then not found by any question."""
    nights = Nights(tmp_path, "chroma")
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


def test_chroma_leaves_no_memory_of_the_night_in_its_files(tmp_path: Path) -> None:
    """hnswlib saves what it has reserved and not used, as it was."""
    nights = Nights(tmp_path, "chroma")
    nights.published(talk(10))
    segments = [*(nights.built / "chroma").glob("*/header.bin")]
    assert segments
    for segment in segments:
        count, size = struct.unpack_from("<QQ", segment.read_bytes(), 20)
        assert 0 < count < 100
        content = (segment.parent / "data_level0.bin").read_bytes()
        assert len(content) > count * size, "more is reserved than used"
        assert not any(content[count * size :])
        assert any(content[: count * size])
        assert not any((segment.parent / "length.bin").read_bytes()[4 * count :])


@pytest.mark.parametrize("size", [0, 150_000])
def test_a_full_disk_is_a_storage_error_wherever_chroma_meets_it(tmp_path: Path, size: int) -> None:
    with files_limited_to(size), pytest.raises(StorageError, match="could not write the index"):
        ChromaBuilder().build(tmp_path / CHROMA, of_chunks(talk(300)))
