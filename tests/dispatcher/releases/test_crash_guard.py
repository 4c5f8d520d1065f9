"""A release that ends its reader: real nights, real dispatchers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dispatcher.memory.day.open_memory import open_memory
from dispatcher.releases.crash_guard import MARKS, OPENED, PASSED
from dispatcher.releases.served import ServedRelease
from shared.delivery import receiver
from shared.system.files import make_dir
from tests.support.day.hcli_bot import Bot
from tests.support.day.releases import nights
from tests.support.machine import wait_for
from tests.support.world import Dispatcher, World


@pytest.fixture
def deadly(world: World) -> dict[str, str]:
    """The environment of a dispatcher whose Chroma dies as it does over a damaged index; the nights build one."""
    world.environment["NIGHT_INDEXES"] = "chroma"
    library = world.root / "library" / "chromadb"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("import signal\nsignal.raise_signal(signal.SIGSEGV)  # in this very thread\n")
    return {"PYTHONPATH": str(library.parent)}


def logged(running: Dispatcher, words: str) -> bool:
    return words in running.log.read_text()


@pytest.mark.slow
def test_a_release_that_ends_its_reader_is_served_without_vectors(world: World, deadly: dict[str, str]) -> None:
    nights(world, 1)
    first = world.start_dispatcher(**deadly)
    assert first.process.wait(timeout=600) == -signal.SIGSEGV
    second = world.start_dispatcher(**deadly)
    wait_for(lambda: logged(second, "serving release"), "the release to be served")
    assert logged(second, "hmem release rollback")
    assert logged(second, "killed by signal 11")
    died = ("vectors=a process died while it opened release 1", "vectors='a process died")
    assert any(logged(second, words) for words in died)
    assert Bot(world.redis).ask("what about the boiler?", 9912)
    wait_for(lambda: b"1" in world.redis.hvals("hcli:mem:release"), "the heartbeat to name the release")
    assert second.stop() == 0
    sound = world.start_dispatcher()  # the cause is mended: one trial, and all is as before
    wait_for(lambda: logged(sound, "vectors=yes"), "the vectors")
    assert logged(sound, "testing it in a separate process")
    assert sound.stop() == 0
    assert list((world.root / "state" / MARKS).iterdir()) == []


def left_behind(world: World) -> Path:
    """What a dispatcher leaves that dies while it opens the current release."""
    release = (world.memory_dir / "current").resolve()
    place = world.root / "state" / MARKS / f"{release.name}-{release.stat().st_ino}"
    make_dir(place.parent)
    place.write_bytes(OPENED)
    return place


def vectors_missing(memory: ServedRelease) -> str | None:
    with memory.reading() as release:
        assert release is not None
        return release.vectors_missing


@pytest.mark.slow
def test_vectors_that_failed_a_trial_are_left_until_a_restart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(world, 1)
    left_behind(world)
    memory = ServedRelease(world.settings())
    monkeypatch.setattr(receiver, "TRIAL_MODULE", "tests.support.processes.dies")
    memory.refresh()
    assert "died while it opened release 1" in (vectors_missing(memory) or "")
    monkeypatch.undo()
    memory.retry()
    assert vectors_missing(memory), "no trial each minute: now it would pass"
    memory.close()
    again = ServedRelease(world.settings())
    again.refresh()
    assert vectors_missing(again) is None
    again.close()


def test_a_release_that_passes_its_trial_and_kills_all_the_same_is_not_opened_a_third_time(world: World) -> None:
    nights(world, 1)
    place = left_behind(world)
    place.write_bytes(PASSED)
    memory = ServedRelease(world.settings())
    memory.refresh()
    assert vectors_missing(memory)
    memory.close()


@pytest.mark.slow
def test_a_command_obeys_the_same_marks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(world, 1)
    place = left_behind(world)
    monkeypatch.setattr(receiver, "TRIAL_MODULE", "tests.support.processes.dies")
    with open_memory(world.settings()) as memory:
        release = memory.required_release()
        memory.open_vectors()
        assert "died while it opened release 1" in (release.vectors_missing or "")
    monkeypatch.undo()
    with open_memory(world.settings()) as memory:
        release = memory.required_release()
        memory.open_vectors()
        assert release.vectors_missing is None
    assert not place.exists(), "it has passed its trial"
