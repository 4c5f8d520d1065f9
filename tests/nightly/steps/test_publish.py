"""What a night publishes: releases that are refused, switched to, gone back from, pruned, and what happens after the switch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nightly.archive.catalog import Catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.night import target
from shared.delivery.receiver import Receiver
from shared.errors import LedgerMismatch, PublishFailed, ReleaseRefused
from shared.release.manifest import read_manifest
from tests.support.night.archives import texts
from tests.support.night.steps import failing_step
from tests.support.world import World


def test_a_fresh_night_host_cannot_shrink_memory(light: World) -> None:
    light.say("t1", "years of talk")
    light.night()
    light.environment["HMEM_NIGHT_DIR"] = str(light.root / "another-night")
    light.say("t2", "one day of talk")
    with pytest.raises(ReleaseRefused, match=r"seg-1\.jsonl"):
        light.night()
    assert list(texts(light)) == ["t1:user#1"]
    assert light.redis.exists("hcli:memory:t2:user")


@pytest.mark.slow
def test_an_overtaken_night_is_given_up_and_loses_nothing(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "before")
    light.night()
    light.say("t2", "between")
    failing_step(monkeypatch, "publish", PublishFailed("the network is away"))
    with pytest.raises(PublishFailed):
        light.night()
    monkeypatch.undo()
    _renumber(light, 7)
    (summary,) = light.night()
    assert summary["run"] == 8
    assert sorted(texts(light)) == ["t1:user#1", "t2:user#1"]
    assert light.redis.keys("hcli:memory:*") == []


def _renumber(world: World, run: int) -> None:
    """The current release gets the number of another run."""
    current, other = world.memory_dir / "current", world.memory_dir / "releases" / str(run)
    current.resolve().rename(other)
    (other / "manifest.json").write_bytes(replace(read_manifest(other), run=run).to_json())
    current.unlink()
    current.symlink_to(f"releases/{run}")


@pytest.mark.slow
def test_a_changed_release_is_refused_before_the_switch(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "something")
    real = target.transfer

    def damage(source: Path, names: list[str], destination: str, *rest: Any) -> int:
        moved = real(source, names, destination, *rest)
        if names == ["manifest.json"]:
            return moved
        with (Path(destination) / "lexical" / "1.sqlite").open("r+b") as handle:
            handle.seek(100)
            handle.write(b"\x00" * 8)
        return moved

    monkeypatch.setattr(target, "transfer", damage)
    with pytest.raises(ReleaseRefused, match=r"lexical/1\.sqlite was changed"):
        light.night()
    assert not (light.memory_dir / "current").exists()
    assert light.redis.exists("hcli:memory:t1:user")
    monkeypatch.undo()
    light.night()
    assert list(texts(light)) == ["t1:user#1"]
    assert not list((light.memory_dir / "incoming").iterdir())


def test_a_dispatcher_that_does_not_follow_switches_back(light: World) -> None:
    light.say("t1", "something")
    light.redis.sadd("hcli:mem:workers", "deaf")
    light.redis.set("hcli:mem:lease:deaf", "1", ex=60)
    with pytest.raises(PublishFailed, match="deaf did not switch to release"):
        light.night(publish_wait=0.3)
    assert not (light.memory_dir / "current").is_symlink()
    assert light.redis.exists("hcli:memory:t1:user")


def test_a_release_that_shrinks_a_chat_is_refused(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "one")
    light.say("t2", "two")
    light.night()
    light.say("t3", "three")
    real = ChatReader.recalled
    monkeypatch.setattr(ChatReader, "recalled", lambda reader, chat: iter([*real(reader, chat)][:-2]))
    with pytest.raises(LedgerMismatch, match="3 archived are not 1 with chunks"):
        light.night()
    monkeypatch.setattr(Catalog, "turns_of", lambda catalog, chat: 1)
    with pytest.raises(ReleaseRefused, match="would shrink"):
        light.night()
    assert sorted(texts(light)) == ["t1:user#1", "t2:user#1"]


def test_a_release_that_kills_its_reader_is_not_switched_to(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from shared.delivery import receiver

    light.say("t1", "one")
    monkeypatch.setattr(receiver, "TRIAL_MODULE", "tests.support.processes.dies")
    with pytest.raises(ReleaseRefused, match="killed by signal 11"):
        light.night()
    assert list((light.memory_dir / "releases").iterdir()) == [], "it is never named"
    assert not (light.memory_dir / "current").exists()
    assert light.redis.exists("hcli:memory:t1:user")


def test_a_rollback_to_a_release_that_is_gone_is_refused(light: World) -> None:
    for number in (1, 2):
        light.say(f"t{number}", "something")
        light.night()
    away = light.memory_dir / "releases" / "1"
    away.rename(light.root / "away")
    with pytest.raises(ReleaseRefused):
        Receiver(light.settings(), light.memory_dir).rollback(2)
    assert (light.memory_dir / "current").exists()
    (light.root / "away").rename(away)
    Receiver(light.settings(), light.memory_dir).rollback(2)
    assert (light.memory_dir / "current").readlink() == Path("releases/1")


@pytest.mark.slow
def test_old_releases_are_pruned_and_what_the_night_began_from_stays_with_its_parent(light: World) -> None:
    for number in range(5):
        light.say(f"t{number}", f"note {number}")
        light.night(releases_kept=2)
    assert sorted(int(p.name) for p in (light.memory_dir / "releases").iterdir()) == [3, 4, 5]
    assert read_manifest((light.memory_dir / "current").resolve()).parent == 4
