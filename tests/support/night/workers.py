"""Nights that are large enough for workers, and the bytes of their releases."""

from __future__ import annotations

from typing import Any

import pytest

from nightly.backfill.rebuild import rebuild_archive
from nightly.night import workers
from nightly.night.progress import Reporter
from nightly.steps import embed
from shared.release.manifest import read_manifest
from tests.support.world import World

NOON = 1_707_500_000.0


def make_nights_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few texts count as many."""
    monkeypatch.setattr(workers, "FEWEST_FOR_PROCESSES", 1)
    monkeypatch.setattr(workers, "FEWEST_FOR_CLUSTER", 1)
    monkeypatch.setattr(workers, "TASK_BYTES", 500)
    monkeypatch.setattr(embed, "BATCH_TEXTS", 4)


def talk(world: World, chats: int = 16, count: int = 4) -> None:
    """What is said in some chats, some of it twice, and an answer that is cut into passages."""
    for chat in range(chats):
        for number in range(count):
            seen = f"heron {number} of {chat % 5} was seen at the pond on day {number}."
            words = seen if number % 3 else "OK, thanks"
            world.say(f"t{number}-{chat}", words, chat_id=str(chat), timestamp=NOON + 60 * number)
    world.say("long", "A long answer. " * 200, chat_id="0", role="asst", timestamp=NOON + 1000)


def rebuilt(world: World, **more: Any) -> tuple[dict[str, str], list[str]]:
    """Build the release from nothing but the cache: its files without the names of runs, with their hashes; what was said of workers."""
    (world.night_dir / "cache.sqlite").unlink(missing_ok=True)
    (summary,) = rebuild_archive(world.settings(**more), Reporter(quiet=True), reembed=False)
    manifest = read_manifest((world.memory_dir / "current").resolve())
    run = f"/{manifest.run}"
    return {name.replace(run, "/run"): file["sha256"] for name, file in manifest.files.items()}, summary["workers"]
