"""The files that releases share: stored once, sent once, compared again in turns, removed with the last release that has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nightly.night import target
from shared.errors import ReleaseRefused
from shared.release import integrity
from shared.release.manifest import read_manifest, verify
from shared.release.objects import Objects
from tests.support.day.releases import nights
from tests.support.world import World

PART = "lexical/1.sqlite"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that nights have sent, manifests left out."""
    real, names = target.transfer, list[str]()

    def transfer(source: Path, some: list[str], *rest: str) -> int:
        names.extend(name for name in some if name != "manifest.json")
        return real(source, some, *rest)

    monkeypatch.setattr(target, "transfer", transfer)
    return names


def release(light: World, run: int) -> Path:
    return light.memory_dir / "releases" / str(run)


def held(light: World, run: int = 1) -> Path:
    digest = str(read_manifest(release(light, run)).files[PART]["sha256"]).removeprefix("sha256:")
    return light.memory_dir / "objects" / digest[:2] / digest[2:]


def stored(light: World) -> list[Path]:
    return [path for path in (light.memory_dir / "objects").rglob("*") if path.is_file()]


def damage(path: Path) -> None:
    """In place, so every release that shares the file has the damage; its size stays."""
    with path.open("r+b") as handle:
        handle.seek(100)
        handle.write(bytes(8))


def test_what_two_releases_share_is_sent_and_stored_once(light: World, sent: list[str]) -> None:
    nights(light, 1)
    assert PART in sent
    sent.clear()
    nights(light, 1, first=2)
    assert sent and PART not in sent
    assert release(light, 1).joinpath(PART).samefile(release(light, 2) / PART)
    assert held(light).samefile(release(light, 2) / PART)
    verify(release(light, 1))
    verify(release(light, 2))
    named = {file["sha256"] for run in (1, 2) for file in read_manifest(release(light, run)).files.values()}
    assert len(stored(light)) == len(named)


def test_an_object_whose_turn_it_is_and_that_is_damaged_is_sent_again(
    light: World, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(light, 1)
    damage(held(light))
    monkeypatch.setattr(integrity, "SCRUB_NIGHTS", 1)
    sent.clear()
    nights(light, 1, first=2)
    assert PART in sent
    verify(release(light, 2))
    assert not held(light).samefile(release(light, 1) / PART), "the release before has the damaged file alone"
    with pytest.raises(ReleaseRefused, match=f"{PART} was changed"):
        verify(release(light, 1))


def test_damage_to_an_object_whose_turn_it_is_not_is_found_before_the_switch(
    light: World, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(light, 1)
    path = held(light)
    damage(path)
    monkeypatch.setattr("shared.release.objects.is_due", lambda *_: False)
    light.say("t2", "another note")
    with pytest.raises(ReleaseRefused, match=f"damaged on the disk of .*: {PART}. They were removed"):
        light.night()
    assert (light.memory_dir / "current").readlink().name == "1"
    assert not path.exists()
    sent.clear()
    light.night()
    assert PART in sent
    verify((light.memory_dir / "current").resolve())
    assert light.redis.keys("hcli:memory:*") == []


@pytest.mark.parametrize("left", ["shorter", "link"])
def test_what_is_not_the_object_counts_as_lacking(light: World, sent: list[str], tmp_path: Path, left: str) -> None:
    nights(light, 1)
    path, foreign = held(light), tmp_path / "foreign"
    content = path.read_bytes()
    path.unlink()
    if left == "shorter":
        path.write_bytes(content[:-1])
    else:
        foreign.write_bytes(content)
        path.symlink_to(foreign)
    sent.clear()
    nights(light, 1, first=2)
    assert PART in sent
    assert not path.is_symlink()
    assert path.read_bytes() == content
    assert path.samefile(release(light, 2) / PART)


def test_objects_go_with_the_last_release_that_has_them(light: World) -> None:
    light.environment["RELEASES_KEPT"] = "2"
    nights(light, 4)
    inodes = {path.stat().st_ino for path in (light.memory_dir / "releases").rglob("*") if path.is_file()}
    assert {path.stat().st_ino for path in stored(light)} <= inodes
    unused = light.memory_dir / "objects" / "ab" / ("c" * 62)
    unused.parent.mkdir(exist_ok=True)
    unused.write_text("of no release")
    assert Objects(light.memory_dir).sweep() == 1
    assert not unused.exists()


def test_without_hard_links_each_release_is_sent_and_stored_whole(
    light: World, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def refuse(source: Path, destination: Path, **more: bool) -> None:
        if "objects" in (*Path(source).parts, *Path(destination).parts):
            raise PermissionError(1, "Operation not permitted")
        real(source, destination, **more)

    monkeypatch.setattr("os.link", refuse)
    nights(light, 2)
    assert sent.count(PART) == 2
    assert stored(light) == []
    verify(release(light, 2))
