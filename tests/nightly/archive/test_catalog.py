"""The catalog says what the segments say; damaged, stale, foreign or deleted it is made anew, and nothing is deleted because of what it says."""

from __future__ import annotations

import os
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nightly.archive.catalog import CATALOG, Catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.segments import RawRecord, write_segment
from nightly.index.chunk_file import ChunkFolder, writing_chunks
from nightly.steps import chunk
from shared.errors import ArchiveDamaged
from shared.release.integrity import SCRUB_NIGHTS
from tests.nightly.imports.test_staging import archive as lines_of
from tests.nightly.imports.test_staging import turn
from tests.support.night.archives import stone, talk, texts
from tests.support.night.mirrors import damage
from tests.support.night.steps import replace_step
from tests.support.night.whole_archive import read_archive
from tests.support.world import World


def refreshed(folder: Path, scrub: int | None = None) -> tuple[list[str], Catalog]:
    """What it reports, and the catalog as it is now."""
    said = list[str]()
    catalog = Catalog(folder, said.append)
    catalog.refresh(scrub=scrub)
    return said, catalog


def refuse_unless_equal(folder: Path) -> list[str]:
    """Compare the catalog with the segments, read whole; what it reports."""
    wanted = read_archive(folder / "archive")
    said, catalog = refreshed(folder)
    with closing(catalog):
        assert catalog.segments == wanted.segments
        assert catalog.originals == wanted.originals
        assert catalog.tombstones == wanted.tombstones
        assert catalog.tombstone_runs == wanted.tombstone_runs
        chats, forgotten = wanted.turns_per_chat(), wanted.forgotten_per_chat()
        assert {chat: catalog.turns_of(chat) for chat in chats} == chats
        assert {chat: count for chat in chats if (count := catalog.forgotten_of(chat))} == forgotten
        assert catalog.all_turns == sum(chats.values())
        for turn_id in {*wanted.versions, *wanted.erased, "unknown:user"}:
            version = wanted.versions.get(turn_id)
            assert catalog.last_version(turn_id) == (version[1] if version else None)
            assert catalog.owner_of(turn_id) == wanted.owner_of(turn_id)
        assert {sha256: catalog.segment_of(sha256) for sha256 in wanted.hashes} == wanted.hashes
    return said


def nights_of_every_kind(world: World) -> None:
    talk(world)
    world.redis.set("hcli:memory:bad:user", b"no turn")
    world.night()
    world.say("a1", "said again in other words")
    stone(world, "hides", "77", erase=False)
    world.night()
    stone(world, "erases", turn_ids=frozenset({"a2:user"}))
    world.night()


def test_it_says_what_the_segments_say(light: World) -> None:
    nights_of_every_kind(light)
    assert refuse_unless_equal(light.night_dir) == []
    (light.night_dir / CATALOG).unlink()
    assert refuse_unless_equal(light.night_dir) == []


def _edit(folder: Path, *statements: str) -> None:
    """Change the catalog."""
    with closing(sqlite3.connect(folder / CATALOG)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


HARM: dict[str, Callable[[Path], object]] = {
    "damaged": lambda folder: (folder / CATALOG).write_bytes(b"\xff" * (folder / CATALOG).stat().st_size),
    "cut short": lambda folder: os.truncate(folder / CATALOG, 8192),
    "deleted": lambda folder: (folder / CATALOG).unlink(),
    "of another program": lambda folder: _edit(folder, "PRAGMA user_version = 99"),
}


def test_a_damaged_or_deleted_catalog_is_made_anew(light: World) -> None:
    talk(light)
    for name, harm in HARM.items():
        harm(light.night_dir)
        said = refuse_unless_equal(light.night_dir)
        assert ["made anew from the segments" in one for one in said] == [True] * (name != "deleted"), name
        assert refuse_unless_equal(light.night_dir) == []


def test_nothing_is_deleted_because_the_catalog_says_so(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names a segment for a record which that segment does not contain: flush reads the segment and keeps the key."""
    light.say("old", "in the first segment")
    light.night()
    light.say("new", "in the second segment")

    def lying(night: Any, out: Path) -> dict[str, Any]:
        _edit(light.night_dir, "UPDATE records SET segment = 1")
        return chunk.run(night, out)

    replace_step(monkeypatch, "chunk", lying)
    (summary,) = light.night()
    assert (summary["deleted"], summary["unproven"]) == (0, 1)
    assert light.redis.exists("hcli:memory:new:user")


def test_every_segment_is_hashed_again_every_seventh_night(tmp_path: Path) -> None:
    """Bytes that changed without a trace in size and times, as on a failing disk."""
    (tmp_path / "archive").mkdir()
    for run in (1, 2, 3):
        write_segment(tmp_path / "archive" / f"seg-{run}.jsonl", run, lines_of(turn(f"t{run}", f"segment {run}")))
    refreshed(tmp_path)[1].close()
    path = tmp_path / "archive" / "seg-2.jsonl"
    damage(path)
    stat = path.stat()
    times = f"size = {stat.st_size}, modified = {stat.st_mtime_ns}, changed = {stat.st_ctime_ns}"
    _edit(tmp_path, f"UPDATE segments SET {times} WHERE name = 'seg-2.jsonl'")
    refreshed(tmp_path)[1].close()  # nothing shows it
    with pytest.raises(ArchiveDamaged, match=r"seg-2\.jsonl"):
        for run in range(4, 4 + SCRUB_NIGHTS):
            refreshed(tmp_path, run)[1].close()


def a_lost_row(world: World) -> set[str]:
    """A row that a failing disk has lost, of a segment that is not read again tonight; the ids of the chunks that there are."""
    world.say("first", "the first words", chat_id="5")
    world.night()
    talk(world)
    _edit(world.night_dir, "DELETE FROM turns WHERE turn_id = 'a2:user'")
    return {"first:user#1", "a1:user#1", "a2:user#1", "a3:user#1", "b1:user#1", "next:user#1"}


def test_what_shows_nothing_is_found_when_the_chat_has_news(light: World) -> None:
    """A new digest of the rows that are left would hide it."""
    every = a_lost_row(light)
    light.say("next", "something new")
    said = light.command("hmem-night", "run").stderr
    assert "made anew from the segments: it does not have the turns of chat 9912 that it says it has" in said
    assert set(texts(light)) == every
    assert refuse_unless_equal(light.night_dir) == []


def test_nobody_holds_a_segment(tmp_path: Path) -> None:
    """Neither to read, write or catalog it, nor to cut a chat in order of time: a million turns may have been imported in one night."""
    (tmp_path / "archive").mkdir()
    path, words = tmp_path / "archive" / "seg-1.jsonl", b"x" * 2000

    def lines() -> Iterator[dict[str, Any]]:
        for number in range(5000):
            value = b'{"chat_id": "5", "content": "%s", "timestamp": %d}' % (words, number % 50)
            yield {"kind": "turn", **RawRecord(b"hcli:memory:t%d:user" % number, "string", value).to_json()}

    tracemalloc.start()
    try:
        write_segment(path, 1, lines())
        with (
            closing(refreshed(tmp_path)[1]) as catalog,
            ChatReader(catalog, path.parent) as reader,
            writing_chunks(tmp_path) as writer,
        ):
            account = dict[str, int]()
            writer.add("5", reader.cut("5", ZoneInfo("UTC"), account, {}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 4
    assert account["with_chunks"] == 5000
    cut = [chunk.task_id for chunk, _ in ChunkFolder(tmp_path).read("5")]
    assert [*dict.fromkeys(cut)] == sorted(
        (f"t{number}" for number in range(5000)), key=lambda one: (int(one[1:]) % 50, one)
    )
