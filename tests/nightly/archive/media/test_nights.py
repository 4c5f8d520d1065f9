"""Nights with files of messages: brought into the archive, mirrored, flushed only when proven, each accounted for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightly.archive.media import flushing
from nightly.archive.media.bring import MediaOutcome, outcomes
from nightly.night.failure import alarm_of
from shared.errors import ArchiveDamaged, MirrorFailed
from shared.release import integrity
from tests.nightly.archive.media.kept_media import PHOTO, entry, file_of, keep, media_files, send, sha256, waiting
from tests.support.world import World

VOICE = b"OggS the voice says that the heron is back"


def test_a_night_moves_a_file_from_redis_to_the_archive(light: World) -> None:
    send(light, "t1", PHOTO, VOICE)
    (summary,) = light.night()
    assert file_of(light, "t1", PHOTO).read_bytes() == PHOTO
    assert file_of(light, "t1", VOICE).read_bytes() == VOICE
    assert file_of(light, "t1", PHOTO).stat().st_mode & 0o777 == 0o600
    assert waiting(light) == []
    counts = summary["media"]
    assert (counts["exported"], counts["archived"], counts["lost"], counts["files"]) == (2, 2, [], 2)
    assert not list(light.night_dir.glob("archive/media/*/.*"))
    assert not [path for path in light.memory_dir.rglob("*") if path.is_file() and PHOTO in path.read_bytes()]
    before = file_of(light, "t1", PHOTO).stat()
    send(light, "t2", PHOTO, text="the same picture once more")
    (summary,) = light.night()
    assert file_of(light, "t1", PHOTO).stat().st_mtime_ns == before.st_mtime_ns
    assert file_of(light, "t2", PHOTO).read_bytes() == PHOTO, "each message has its own"
    assert (summary["media"]["archived"], summary["media"]["files"]) == (1, 3)


def test_a_file_waits_for_its_turn_and_then_for_two_days(light: World) -> None:
    keep(light, "t1", PHOTO)
    keep(light, "t2", VOICE, at=time.time() - 3 * 86_400)
    light.say("t0", "something else")
    (summary,) = light.night()
    assert (summary["media"]["waiting"], summary["media"]["orphaned"]) == (1, 1)
    assert waiting(light) == sorted([f"hcli:mem:kept:t1:{sha256(PHOTO)}".encode(), f"t1:{sha256(PHOTO)}".encode()])
    assert media_files(light.night_dir / "archive") == {}
    light.say("t1", "the turn came later", extra={"media": [entry(PHOTO)]})
    light.night()
    assert (waiting(light), file_of(light, "t1", PHOTO).read_bytes()) == ([], PHOTO)


def test_bytes_that_are_not_what_their_name_says_are_refused_and_stay(light: World) -> None:
    send(light, "t1", PHOTO)
    light.redis.set(f"hcli:mem:kept:t1:{sha256(PHOTO)}", b"something else")
    (summary,) = light.night()
    assert summary["media"]["refused"] == 1
    assert media_files(light.night_dir / "archive") == {}
    assert light.redis.get(f"hcli:mem:kept:t1:{sha256(PHOTO)}") == b"something else"
    light.redis.delete(f"hcli:mem:kept:t1:{sha256(PHOTO)}")
    light.redis.rpush(f"hcli:mem:kept:t1:{sha256(PHOTO)}", "a list")
    (summary,) = light.night()
    assert summary["media"]["refused"] == 1


def test_a_file_changed_before_the_flush_is_not_deleted(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    send(light, "t1", PHOTO)
    real = outcomes

    def damaging(path: Path) -> Iterator[MediaOutcome]:
        file_of(light, "t1", PHOTO).write_bytes(b"damaged between archive and flush")
        return real(path)

    monkeypatch.setattr(flushing, "outcomes", damaging)
    light.night()
    assert light.redis.get(f"hcli:mem:kept:t1:{sha256(PHOTO)}") == PHOTO
    monkeypatch.setattr(flushing, "outcomes", real)
    light.night()
    assert (waiting(light), file_of(light, "t1", PHOTO).read_bytes()) == ([], PHOTO), "mended from Redis"


@pytest.fixture
def all_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each night."""
    monkeypatch.setattr(integrity, "SCRUB_NIGHTS", 1)


@pytest.mark.usefixtures("all_is_read_again")
def test_a_damaged_file_is_named_within_a_week_until_it_is_repaired(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(light, "t1", PHOTO)
    light.night()
    file_of(light, "t1", PHOTO).write_bytes(b"x")
    light.say("t2", "the next day")
    (summary,) = light.night()
    assert [Path(path).name for path in summary["media"]["damaged"]] == [f"t1.{sha256(PHOTO)}"]
    assert isinstance(alarm_of(summary), ArchiveDamaged)
    assert light.redis.keys("hcli:memory:*") == []
    monkeypatch.setattr(integrity, "SCRUB_NIGHTS", 10_000)
    for change in (lambda path: path.write_bytes(b"y"), Path.unlink):
        change(file_of(light, "t1", PHOTO))
        light.say("t2", "a day later", timestamp=1_707_600_000.0)
        (later,) = light.night()
        assert later["media"]["damaged"] == summary["media"]["damaged"], "no night is well until it is repaired"
    file_of(light, "t1", PHOTO).write_bytes(PHOTO)
    light.say("t3", "repaired")
    assert light.night()[0]["media"]["damaged"] == []


def test_the_mirror_gets_each_file_before_it_leaves_redis(light: World, mirror: Path) -> None:
    send(light, "t1", PHOTO)
    light.night()
    assert media_files(mirror) == media_files(light.night_dir / "archive") != {}
    assert file_of(light, "t1", PHOTO, base=mirror).stat().st_mode & 0o777 == 0o600
    send(light, "t2", VOICE)
    mirror.rename(mirror.with_name("away"))
    light.night()
    assert light.redis.get(f"hcli:mem:kept:t2:{sha256(VOICE)}") == VOICE
    mirror.with_name("away").rename(mirror)
    light.night()
    assert waiting(light) == []
    assert media_files(mirror) == media_files(light.night_dir / "archive")
    other = mirror.with_name("other")
    other.mkdir(mode=0o700)
    light.say("t3", "the next day")
    light.night(archive_mirror=str(other))
    assert media_files(other) == media_files(mirror), "another mirror gets all files"


@pytest.mark.usefixtures("all_is_read_again")
def test_a_copy_that_differs_in_the_mirror_delays_the_flush(
    light: World, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(light, "t1", PHOTO)
    light.night()
    file_of(light, "t1", PHOTO, base=mirror).write_bytes(b"damaged there")
    send(light, "t2", VOICE)
    (summary,) = light.night()
    assert file_of(light, "t1", PHOTO).name in summary["mirror_failed"]
    assert isinstance(alarm_of(summary), MirrorFailed)
    assert light.redis.get(f"hcli:mem:kept:t2:{sha256(VOICE)}") == VOICE
    monkeypatch.setattr(integrity, "SCRUB_NIGHTS", 10_000)
    assert light.night()[0]["mirror_failed"], "it differs still, though it is not its turn"
    file_of(light, "t1", PHOTO, base=mirror).unlink()
    light.night()
    assert file_of(light, "t1", PHOTO, base=mirror).read_bytes() == PHOTO, "what is missing there is sent again"
    assert waiting(light) == []
