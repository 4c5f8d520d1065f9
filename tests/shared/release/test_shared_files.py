"""The files that releases share: stored once, sent once, compared each night, and sent again if they are damaged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nightly.night import target
from shared.errors import ReleaseRefused
from shared.release.manifest import verify
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


def part(light: World, run: int) -> Path:
    return light.memory_dir / "releases" / str(run) / PART


def test_what_two_releases_share_is_sent_and_stored_once(light: World, sent: list[str]) -> None:
    nights(light, 1)
    assert PART in sent
    sent.clear()
    nights(light, 1, first=2)
    assert sent and PART not in sent
    assert part(light, 1).samefile(part(light, 2))
    for run in (1, 2):
        verify(light.memory_dir / "releases" / str(run))


def test_a_file_that_is_not_what_it_was_is_sent_again(light: World, sent: list[str], tmp_path: Path) -> None:
    nights(light, 1)
    content, foreign = part(light, 1).read_bytes(), tmp_path / "foreign"
    foreign.write_bytes(content)
    damages: list[Callable[[Path], object]] = [
        lambda path: path.write_bytes(content[:100] + bytes(8) + content[108:]),
        lambda path: path.write_bytes(content[:-1]),
        lambda path: path.symlink_to(foreign),
        lambda path: path,
    ]
    for run, damage in enumerate(damages, start=1):
        part(light, run).unlink()
        damage(part(light, run))
        sent.clear()
        nights(light, 1, first=run + 1)
        assert PART in sent
        verify((light.memory_dir / "current").resolve())
        assert light.redis.keys("hcli:memory:*") == []
        with pytest.raises(ReleaseRefused, match=PART):
            verify(light.memory_dir / "releases" / str(run))


def test_without_hard_links_each_release_is_stored_whole(
    light: World, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def refuse(source: Path, destination: Path, **more: bool) -> None:
        if "verifying" in Path(destination).parts:
            raise PermissionError(1, "Operation not permitted")
        real(source, destination, **more)

    monkeypatch.setattr("os.link", refuse)
    nights(light, 2)
    assert sent.count(PART) == 1
    assert not part(light, 1).samefile(part(light, 2))
    verify(light.memory_dir / "releases" / "2")


def test_a_damaged_manifest_of_the_current_release_says_the_way_out_and_it_is_one(light: World) -> None:
    nights(light, 2)
    manifest = light.memory_dir / "releases" / "2" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-5])
    light.say("t3", "said after the damage")
    refused = light.command("hmem-night", "run", check=False)
    assert (refused.returncode, "hmem release rollback RUN" in refused.stderr) == (16, True)
    light.command("hmem", "release", "rollback", "1", "--yes")
    light.command("hmem", "release", "rollback", "--unpin")
    light.night()
    assert verify((light.memory_dir / "current").resolve()).turns == 3
    assert light.redis.keys("hcli:memory:*") == []
