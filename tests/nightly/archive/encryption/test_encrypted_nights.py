"""Nights with encryption: what is on the disk, what is recalled from it, and what is left when a chat is forgotten."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nightly.archive.segments import read_segment
from nightly.imports.candidates import turn_candidate
from nightly.imports.staging import StagedImport, StagedUnreadable, adopt, stage
from nightly.night.folder import imports_dir
from nightly.night.sealed import destroy_import_keys
from nightly.pipeline import step_names
from shared.errors import EncryptionKeyMissing, SettingsError
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.system.keys import sealing
from shared.turns.records import Tombstone, Turn
from tests.nightly.archive.encryption.conftest import encrypt
from tests.support.world import World

SAYINGS = {
    "9912": ("The blue bicycle stands in the cellar of Marigold Street.", "I have noted the cellar for the bicycle."),
    "777": ("Grandmother's samovar came from Yekaterinburg.", "A samovar from Yekaterinburg, noted."),
}
WORDS = (b"bicycle", b"cellar", b"Marigold", b"samovar", b"Yekaterinburg", b"bicycl", b"Philippa")


def talk(world: World, run: str = "a") -> None:
    for chat_id, (asked, answered) in SAYINGS.items():
        world.say(f"{run}-{chat_id}", asked, chat_id=chat_id, name="Philippa")
        world.say(f"{run}-{chat_id}", answered, chat_id=chat_id, role="asst", timestamp=1_707_500_010.0)


def files(*folders: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for one in folders for path in sorted(one.rglob("*")) if path.is_file()}


def words_in(*folders: Path) -> dict[str, list[bytes]]:
    """The words that stand in files, as they are or in lower case."""
    found = {
        str(path): [one for one in WORDS if one.lower() in content.lower()] for path, content in files(*folders).items()
    }
    return {path: words for path, words in found.items() if words}


def recalled(world: World, chat_id: str, question: str) -> list[str]:
    with closing(OpenRelease(world.settings(), world.memory_dir / "current")) as release:
        return [hit.chunk.text for hit in release.recall(Query(chat_id, question, 5)).hits]


def test_no_word_and_no_vector_is_on_the_disk_and_all_is_recalled(sealed_world: World) -> None:
    world = sealed_world
    talk(world)
    world.night()
    assert words_in(world.night_dir, world.memory_dir) == {}
    assert SAYINGS["9912"][0] in recalled(world, "9912", "where is the bicycle?")
    assert not any("samovar" in text for text in recalled(world, "9912", "where is the samovar from?"))
    assert _vectors_on_disk(world) == 0
    talk(world, "b")
    world.night()  # goes on from the first
    assert words_in(world.night_dir, world.memory_dir) == {}
    assert SAYINGS["777"][0] in recalled(world, "777", "where is the samovar from?")


def _vectors_on_disk(world: World) -> int:
    """How many files contain the vector of what was said, as float32 or float16."""
    import numpy as np

    with closing(OpenRelease(world.settings(), world.memory_dir / "current")) as release:
        release.open_vectors()
        chat = release._backend._chat("9912")  # type: ignore[attr-defined]
        row = chat.vectors[0]
    needles = [row.astype(np.float16).tobytes()[:64], row.astype(np.float32).tobytes()[:64]]
    return sum(any(one in content for one in needles) for content in files(world.night_dir, world.memory_dir).values())


def test_without_encryption_the_same_scan_finds_words_and_vectors(world: World) -> None:
    talk(world)
    world.night()
    assert words_in(world.night_dir, world.memory_dir)
    assert _vectors_on_disk(world)


def test_what_was_stored_before_encryption_is_sealed_by_the_next_night(light: World) -> None:
    mirror = light.root / "mirror"
    mirror.mkdir()
    light.environment["ARCHIVE_MIRROR"] = str(mirror)
    talk(light)
    light.night()
    assert words_in(light.night_dir, light.memory_dir, mirror)
    before = list(read_segment(light.night_dir / "archive" / "seg-1.jsonl"))
    encrypt(light)
    light.say("later", "A later word.", chat_id="9912")
    light.night()
    assert words_in(light.night_dir / "archive", mirror) == {}
    assert words_in(light.memory_dir / "current" / "lexical", light.memory_dir / "current" / "chats") == {}
    assert list(read_segment(light.night_dir / "archive" / "seg-1.jsonl")) == before
    assert SAYINGS["9912"][0] in recalled(light, "9912", "where is the bicycle?")
    light.command("hmem-night", "verify")


def test_a_forgotten_chat_is_unreadable_in_a_stale_copy_and_another_is_not(sealed_world: World) -> None:
    world, stale = sealed_world, sealed_world.root / "stale"
    talk(world)
    world.night()
    for name in ("night", "memory"):
        shutil.copytree(world.root / name, stale / name, symlinks=True)
    world.push_tombstone(Tombstone("t1", "9912", 1_900_000_000.0, erase=True))
    world.night()
    assert recalled(world, "9912", "where is the bicycle?") == []
    lines = list(read_segment(stale / "night" / "archive" / "seg-1.jsonl"))
    assert [line["kind"] for line in lines].count("erased") == 2
    told = [line for line in lines if line["kind"] == "turn"]
    assert {"samovar" in line["value"] for line in told} == {True}
    with closing(
        OpenRelease(world.settings(hmem_memory_dir=stale / "memory"), stale / "memory" / "current")
    ) as release:
        assert release.recall(Query("9912", "where is the bicycle?", 5)).hits == []
        assert release.recall(Query("777", "where is the samovar from?", 5)).hits
        assert release.summary("9912") is None
    world.command("hmem-night", "verify")


@pytest.mark.parametrize(
    "value",
    [
        b'{"chat_id": "9912", "timestamp": 1707500000, "content": ["the bicycle is in the cellar"]}',
        b'{"content": "the bicycle is in the cellar", "chat_id" : 9912, "time',
    ],
)
def test_what_is_no_turn_and_names_a_forgotten_chat_is_unreadable_in_a_stale_copy(sealed: World, value: bytes) -> None:
    other = value.replace(b"9912", b"777").replace(b"bicycle", b"samovar")
    talk(sealed)
    sealed.redis.set("hcli:memory:odd:user", value)
    sealed.redis.set("hcli:memory:odd-too:user", other)
    sealed.night()
    segment = sealed.night_dir / "archive" / "seg-1.jsonl"
    stale = sealed.root / "seg-1.jsonl"
    shutil.copy2(segment, stale)
    assert {one["value"].encode() for one in read_segment(stale) if one["kind"] == "quarantine"} == {value, other}
    sealed.push_tombstone(Tombstone("t1", "9912", 1_900_000_000.0, erase=True))
    sealed.night()
    for path in (stale, segment):
        lines = list(read_segment(path))
        assert [one["value"].encode() for one in lines if one["kind"] == "quarantine"] == [other]
        assert {"kind": "erased", "key": None, "chat_id": None, "timestamp": None}.items() <= _erased_odd(lines).items()
    sealed.command("hmem-night", "verify")


def _erased_odd(lines: list[dict[str, Any]]) -> dict[str, Any]:
    (odd,) = [one for one in lines if one["kind"] == "erased" and one["key"] is None]
    return odd


def test_what_is_no_turn_and_came_after_what_was_forgotten_stays(sealed: World) -> None:
    talk(sealed)
    later = b'{"chat_id": "9912", "timestamp": 1707600000, "content": 7}'
    sealed.redis.set("hcli:memory:odd:user", later)
    sealed.night()
    sealed.push_tombstone(Tombstone("t1", "9912", 1_900_000_000.0, before=1_707_550_000.0, erase=True))
    sealed.night()
    lines = list(read_segment(sealed.night_dir / "archive" / "seg-1.jsonl"))
    assert [one["value"].encode() for one in lines if one["kind"] == "quarantine"] == [later]


def test_a_chat_that_goes_on_after_it_was_forgotten_keeps_what_came_later(sealed: World) -> None:
    talk(sealed)
    sealed.night()
    sealed.say("new", "The red scooter is in the garage.", chat_id="9912", timestamp=1_707_600_000.0)
    sealed.push_tombstone(Tombstone("t1", "9912", 1_900_000_000.0, before=1_707_550_000.0, erase=True))
    sealed.night()
    assert recalled(sealed, "9912", "bicycle scooter garage") == ["The red scooter is in the garage."]
    sealed.say("newer", "The scooter has a bell.", chat_id="9912", timestamp=1_707_600_100.0)
    sealed.night()
    assert len(recalled(sealed, "9912", "scooter")) == 2
    sealed.command("hmem-night", "verify")


def test_without_the_key_the_night_says_so_before_it_begins(sealed: World) -> None:
    talk(sealed)
    sealed.night()
    key = Path(sealed.environment["ENCRYPT_KEY_FILE"])
    key.rename(key.with_suffix(".away"))
    sealing.configure(sealed.settings(), "night")
    with pytest.raises(EncryptionKeyMissing, match="cannot be read"):
        sealed.night()
    done = sealed.command("hmem-night", "run", check=False)
    assert done.returncode == EncryptionKeyMissing.exit_code
    assert "Put your copy of the file back" in done.stderr
    del sealed.environment["ENCRYPT_KEY_FILE"]
    sealing.use(None)
    talk(sealed, "b")
    with pytest.raises(EncryptionKeyMissing, match="ENCRYPT_KEY_FILE is not set"):
        sealed.night()


def test_an_index_that_cannot_be_encrypted_is_refused(sealed: World) -> None:
    sealed.environment["NIGHT_INDEXES"] = "chroma"
    with pytest.raises(SettingsError, match="only the index sqlite can be encrypted"):
        sealed.night()


def test_a_release_that_is_built_twice_is_the_same(sealed: World) -> None:
    talk(sealed)
    sealed.night()
    first = files(sealed.memory_dir / "current" / "lexical")
    sealed.command("hmem-night", "backfill", "archive")
    second = files(sealed.memory_dir / "current" / "lexical")
    assert sorted(first.values()) == sorted(second.values())


@pytest.mark.parametrize("step", [name for name in step_names() if name != "restart"])
def test_a_night_that_is_killed_leaves_no_word_on_the_disk(sealed_world: World, step: str) -> None:
    talk(sealed_world)
    killed = sealed_world.command("hmem-night", "run", check=False, HMEM_CRASH_AT=f"{step}:before-commit")
    assert killed.returncode != 0
    assert words_in(sealed_world.night_dir, sealed_world.memory_dir) == {}
    sealed_world.night()
    assert SAYINGS["9912"][0] in recalled(sealed_world, "9912", "where is the bicycle?")
    assert words_in(sealed_world.night_dir, sealed_world.memory_dir) == {}


def staged(directory: Path, chat_id: str) -> Path:
    with stage(directory, "telegram") as staging:
        for number, said in enumerate(SAYINGS[chat_id]):
            told = Turn(f"import-{chat_id}-{number}", "user", chat_id, said, 1_707_500_000.0 + number)
            staging.add(turn_candidate("telegram", 0, told))
    assert staging.path is not None
    return staging.path


@pytest.mark.parametrize("killed_at", ["archive:mirrored", "archive:before-commit", ""])
def test_no_copy_of_an_import_can_be_read_once_it_is_archived(sealed: World, killed_at: str) -> None:
    waiting = staged(imports_dir(sealed.settings()), "9912")
    copy = sealed.root / waiting.name
    shutil.copy2(waiting, copy)
    assert len(list(StagedImport(copy))) == 2
    if killed_at:
        sealed.command("hmem-night", "run", check=False, HMEM_CRASH_AT=killed_at)
    sealed.night()
    assert not waiting.exists()
    assert recalled(sealed, "9912", "where is the bicycle?")
    with pytest.raises(StagedUnreadable, match="destroyed its key"):
        StagedImport(copy)
    shutil.copy2(copy, waiting)  # a backup is put back
    sealed.night()
    assert waiting.with_suffix(".bad").exists()


def test_an_import_that_is_written_while_a_night_runs_keeps_its_key(sealed: World) -> None:
    directory = imports_dir(sealed.settings())
    staged(directory, "9912")
    told = [Turn(f"import-{n}", "user", "777", said, 1_707_500_000.0 + n) for n, said in enumerate(SAYINGS["777"])]
    with stage(directory, "telegram") as staging:
        staging.add(turn_candidate("telegram", 0, told[0]))
        sealed.night()
        staging.add(turn_candidate("telegram", 0, told[1]))
    assert staging.path is not None
    destroy_import_keys([staging.path.read_bytes().splitlines()[0]])
    assert len(list(StagedImport(staging.path))) == 2
    assert adopt(staged(sealed.root / "plan", "9912"), directory).exists()
    sealed.night()
    assert not list(directory.iterdir())
    assert recalled(sealed, "777", "where is the samovar from?")
    assert sealing.keys().ids_of([sealing.IMPORTS]) == []
