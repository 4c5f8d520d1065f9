"""ARCHIVE_MIRROR with real rsync, on a second directory and behind a real sshd: damage on each side, a mirror that is away, full or ahead."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightly.archive.mirror import MirrorDiffers
from nightly.night.folder import unfinished_run
from nightly.steps import flush
from shared.errors import ArchiveDamaged, MirrorFailed
from tests.nightly.archive.media.kept_media import PHOTO, file_of, media_files, send
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.night.archives import archive, places, stone, texts
from tests.support.night.mirrors import damage, files, repair, two_nights, verified, verify
from tests.support.night.steps import replace_step
from tests.support.night.two_hosts import DayHost
from tests.support.world import World


def test_texts_that_a_model_wrote_are_mirrored_before_the_flush(light: World, mirror: Path) -> None:
    light.say("t1", "The boiler stopped and its display shows F28 since Thursday.")
    with OllamaApi({"llama3.2:latest": DIGEST}) as api:
        light.night(writer="ollama:llama3.2", writes="summaries", ollama_url=api.url)
    assert sorted(files(mirror)) == ["seg-1.jsonl", "texts-1.jsonl"]
    assert files(mirror) == files(archive(light))
    assert mirror.joinpath("seg-1.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_mirror_that_is_away_delays_the_flush_and_not_the_memory(light: World, mirror: Path) -> None:
    mirror.rmdir()
    light.say("t1", "said while the disk is away")
    done = light.command("hmem-night", "run", check=False)
    assert done.returncode == MirrorFailed.exit_code
    assert "Warning: The archive's mirror" in done.stderr
    assert "No such file" in done.stderr
    assert list(texts(light)) == ["t1:user#1"]
    assert light.redis.exists("hcli:memory:t1:user")
    assert not mirror.exists(), "a mount point without its disk is no mirror"
    light.say("t2", "said on the second day without it")
    (summary,) = light.night()
    assert (summary["deleted"], len(texts(light))) == (0, 2), "memory is kept up however long it is away"
    assert not light.redis.exists("hcli:mem:night:last"), "no good night"
    assert b"MirrorFailed" in (light.redis.get("hcli:mem:night:failed") or b"")
    mirror.mkdir()
    light.night()
    assert not light.redis.exists("hcli:mem:night:failed")
    assert unfinished_run(light.settings()) is None
    assert light.redis.keys("hcli:memory:*") == []
    assert files(mirror) == files(archive(light))


@pytest.mark.slow
def test_a_damaged_mirror_stops_the_night_and_is_mended(light: World, mirror: Path) -> None:
    two_nights(light)
    damage(mirror / "seg-1.jsonl")
    broken = (mirror / "seg-1.jsonl").read_bytes()
    light.say("t3", "said after the damage")
    with pytest.raises(MirrorDiffers, match=r"or are missing: seg-1\.jsonl\. Nothing was deleted"):
        light.night()
    assert light.redis.exists("hcli:memory:t3:user")
    assert (light.memory_dir / "current").readlink() == Path("releases/2")
    assert (mirror / "seg-1.jsonl").read_bytes() == broken, "a night overwrites nothing"
    with pytest.raises(MirrorFailed, match=r"or are missing: seg-1\.jsonl\."):
        verify(light)
    done = verified(light, "--repair")
    assert done.returncode == 0, done.stderr
    assert "seg-1.jsonl: sent to the mirror" in done.stderr
    light.night()
    assert files(archive(light)) == files(mirror)
    assert light.redis.keys("hcli:memory:*") == []


@pytest.mark.slow
def test_the_mirror_is_proven_again_before_anything_is_deleted(
    light: World, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    light.say("t1", "something")
    real = flush.run

    def after_damage(night: Any, out: Path) -> dict[str, Any]:
        damage(mirror / "seg-1.jsonl")
        return real(night, out)

    replace_step(monkeypatch, "flush", after_damage)
    (summary,) = light.night()
    assert "seg-1.jsonl" in summary["mirror_failed"]
    assert light.redis.exists("hcli:memory:t1:user")
    monkeypatch.undo()
    repair(light)
    light.night()
    assert light.redis.keys("hcli:memory:*") == []


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_mirror_delays_the_flush_and_keeps_what_it_has(light: World, mirror: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mirror)], check=True)
    try:
        light.say("t1", "small")
        light.night()
        light.say("t2", "large " * 40_000)
        done = light.command("hmem-night", "run", check=False)
        assert done.returncode == MirrorFailed.exit_code
        assert "No space left on device" in done.stderr
        assert sorted(files(mirror)) == ["seg-1.jsonl"]
        assert any(name.startswith("t2:user") for name in texts(light))
        assert light.redis.exists("hcli:memory:t2:user")
        subprocess.run(["mount", "-o", "remount,size=8m", str(mirror)], check=True)
        light.night()
        assert files(mirror) == files(archive(light))
        assert light.redis.keys("hcli:memory:*") == []
    finally:
        subprocess.run(["umount", str(mirror)], check=True)


@pytest.fixture
def far_mirror(day_host: DayHost) -> Iterator[DayHost]:
    """The archive mirrored through sshd, with a key whose forced command is rrsync into one directory."""
    world, place = day_host.world, day_host.world.root / "mirror"
    place.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(day_host.folder / "mirror")], check=True)
    public = (day_host.folder / "mirror.pub").read_text()
    with (day_host.folder / "authorized_keys").open("a") as keys:
        keys.write(f'restrict,command="rrsync -no-del {place}" {public}')
    world.environment |= {"ARCHIVE_MIRROR": f"{day_host.place}:", "PUBLISH_SSH": " ".join(day_host.ssh("mirror"))}
    yield day_host


@pytest.mark.slow
@pytest.mark.parametrize("may_delete", [True, False])
def test_a_mirror_on_another_host_is_proven_mended_and_forgets(far_mirror: DayHost, *, may_delete: bool) -> None:
    world, place = far_mirror.world, far_mirror.world.root / "mirror"
    if may_delete:
        keys = far_mirror.folder / "authorized_keys"
        keys.write_text(keys.read_text().replace("rrsync -no-del", "rrsync"))
    send(world, "t1", PHOTO)
    send(world, "t2", b"another")
    world.night()
    assert (files(place), media_files(place)) == (files(archive(world)), media_files(archive(world)))
    assert world.redis.keys("hcli:memory:*") == []
    file_of(world, "t2", b"another", base=place).write_bytes(b"x")
    damage(place / "seg-1.jsonl")
    world.say("t3", "said after the damage")
    with pytest.raises(MirrorDiffers, match=r"seg-1\.jsonl"):
        world.night()
    assert len(repair(world)) == 2
    (archive(world) / "seg-1.jsonl").unlink()
    with pytest.raises(ArchiveDamaged, match="missing here or of no turn: seg-1"):
        world.night()
    repair(world)
    stone(world, turn_ids=frozenset({"t1:user"}))
    world.night()
    assert files(archive(world)).items() <= files(place).items()
    assert places(world, "a picture of t1") == []
    assert media_files(archive(world)) == {
        str(file_of(world, "t2", b"another").relative_to(archive(world))): b"another"
    }
    left = media_files(place)
    assert b"".join(left.values()) == b"another"
    assert len(left) == (1 if may_delete else 2), "a key that may not delete leaves the name"
    assert verify(world)["media_mirrored"] == 1
