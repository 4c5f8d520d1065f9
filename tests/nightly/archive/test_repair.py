"""`hmem-night verify --repair`: which copy of a damaged or lost segment is taken, here and in the mirror, and which is left to the owner."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from nightly.archive.segments import RawRecord, write_segment
from shared.errors import ArchiveDamaged, MirrorFailed, NightRunning, SettingsError
from tests.support.night.archives import archive, texts
from tests.support.night.mirrors import damage, files, repair, two_nights, verified, verify
from tests.support.world import World


def test_a_lost_segment_stops_the_night_before_it_writes(light: World, mirror: Path) -> None:
    two_nights(light)
    name = "seg-2.jsonl"
    (archive(light) / name).unlink()
    light.say("t3", "said after the loss")
    with pytest.raises(ArchiveDamaged, match=f"has files that are missing here or of no turn: {name}"):
        light.night()
    assert len(files(archive(light))) == 1
    assert light.redis.exists("hcli:memory:t3:user")
    with pytest.raises(ArchiveDamaged, match=rf"{name} is missing"):
        verify(light)
    repair(light)
    light.night()
    assert sorted(texts(light)) == ["t1:user#1", "t2:user#1", "t3:user#1"]


@pytest.mark.slow
def test_a_fresh_host_gets_its_whole_archive_back(light: World, mirror: Path) -> None:
    two_nights(light)
    os.utime(archive(light) / "seg-1.jsonl", (0, 0))  # times do not count
    before = files(archive(light))
    light.environment["HMEM_NIGHT_DIR"] = str(light.root / "fresh")
    with pytest.raises(ArchiveDamaged, match=r"missing here or of no turn: seg-1\.jsonl, seg-2\.jsonl"):
        light.night()
    done = verified(light, "--repair")
    assert done.returncode == 0, done.stderr
    assert "Repaired files: 2." in done.stdout
    assert files(light.root / "fresh" / "archive") == before
    assert repair(light) == []
    (light.memory_dir / "current").unlink()
    light.night()
    assert sorted(texts(light)) == ["t1:user#1", "t2:user#1"]


def other_history(directory: Path) -> None:
    """A sound segment of run 1 that was written elsewhere."""
    record = RawRecord(b"hcli:memory:x1:user", "string", b'{"chat_id":"1","role":"user","content":"x","timestamp":1}')
    (directory / "seg-1.jsonl").unlink()
    write_segment(directory / "seg-1.jsonl", 1, [{"kind": "turn", **record.to_json()}])


@pytest.mark.slow
def test_two_sound_copies_that_differ_are_left_to_the_owner(light: World, mirror: Path) -> None:
    two_nights(light)
    other_history(mirror)
    (mirror / "seg-2.jsonl").unlink()
    before = files(archive(light)), files(mirror)
    done = verified(light, "--repair")
    assert done.returncode == ArchiveDamaged.exit_code
    assert (
        "seg-1.jsonl: the copy here and the copy in the mirror are both intact, and differ: two histories"
        in done.stderr
    )
    assert (files(archive(light)), files(mirror)) == before


@pytest.mark.slow
def test_what_has_no_sound_copy_is_named_and_the_rest_is_mended(light: World, mirror: Path) -> None:
    two_nights(light)
    light.say("t3", "third")
    light.night()
    before = files(archive(light))
    for path in (archive(light) / "seg-1.jsonl", mirror / "seg-1.jsonl", archive(light) / "seg-2.jsonl"):
        damage(path)
    (mirror / "seg-3.jsonl").unlink()
    with pytest.raises(ArchiveDamaged, match=r"seg-1\.jsonl: no intact copy, neither here nor in the mirror"):
        repair(light)
    for name in ("seg-2.jsonl", "seg-3.jsonl"):
        assert files(archive(light))[name] == files(mirror)[name] == before[name]


def test_every_kind_of_damage_is_mended(light: World, mirror: Path) -> None:
    two_nights(light)
    for side, how in ((archive(light), "link"), (mirror, "directory")):
        path, before = side / "seg-1.jsonl", files(archive(light))
        spoil(path, how)
        light.say(how, "said after the damage")
        assert "seg-1.jsonl" in what_stops(light)
        assert light.redis.exists(f"hcli:memory:{how}:user")
        if how == "directory":  # rsync does not make way for a file where a directory is
            with pytest.raises(MirrorFailed, match=r"seg-1\.jsonl"):
                repair(light)
            path.rename(mirror / "away")
        repair(light)
        light.night()
        assert before.items() <= files(archive(light)).items() <= files(mirror).items()


def what_stops(world: World) -> str:
    """Why the night deletes nothing: it is stopped by it, or done but for the flush."""
    try:
        return world.night()[-1]["mirror_failed"] or ""
    except (ArchiveDamaged, MirrorFailed) as error:
        return str(error)


def spoil(path: Path, how: str) -> None:
    path.unlink()
    if how == "directory":
        path.mkdir()
        (path / "x").write_text("x")
    else:
        path.symlink_to("/dev/null")


@pytest.mark.slow
def test_repair_needs_a_mirror_and_the_lock(light: World, mirror: Path) -> None:
    two_nights(light)
    with (light.night_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NightRunning):
            repair(light)
    light.environment["ARCHIVE_MIRROR"] = str(archive(light))
    with pytest.raises(SettingsError, match="is the archive itself"):
        verify(light)
    del light.environment["ARCHIVE_MIRROR"]
    done = verified(light, "--repair")
    assert done.returncode == SettingsError.exit_code
    assert "ARCHIVE_MIRROR is not set" in done.stderr
