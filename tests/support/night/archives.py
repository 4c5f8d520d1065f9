"""What lies on the night host, and what a test puts there."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

from shared.search.lexical import LexicalIndex
from shared.turns.chunk import Chunk
from shared.turns.records import Tombstone
from tests.support.world import World


def texts(world: World, run: int | str = "current") -> dict[str, str]:
    """chunk id -> text of a release."""
    folder = world.memory_dir / "current" if run == "current" else world.memory_dir / "releases" / str(run)
    return {chunk.chunk_id: chunk.text for chunk in chunks_in(folder / "lexical")}


def chunks_in(place: Path) -> list[Chunk]:
    """Those of `lexical/`, or of one part of it."""
    with closing(LexicalIndex(place)) as index:
        return every_chunk(index)


def every_chunk(index: LexicalIndex) -> list[Chunk]:
    """In order of chat and time."""
    return [chunk for chat in sorted(index.chunks_per_chat()) for chunk in index.chunks_of(chat)]


SECRET, TAJNA = "the locker opens with pelican7731", "код от сейфа кукушка4410"
LATER = 1_800_000_000.0


def stone(world: World, name: str = "s1", chat: str = "9912", **more: Any) -> None:
    made = Tombstone(name, chat, more.pop("created_at", LATER), erase=more.pop("erase", True), **more)
    world.push_tombstone(made)


def archive(world: World) -> Path:
    return world.night_dir / "archive"


def places(world: World, *words: str) -> list[str]:
    """Every file of the installation that holds one of these words, as it is or as JSON escapes it."""
    needles = [form for word in words for form in (word.encode(), json.dumps(word)[1:-1].encode())]
    files = [Path(folder) / name for folder, _, names in os.walk(world.root) for name in names]
    return sorted(str(f.relative_to(world.root)) for f in files if any(n in f.read_bytes() for n in needles))


def talk(world: World) -> None:
    world.say("a1", SECRET)
    world.say("a2", TAJNA, timestamp=1_707_500_100.0)
    world.say("a3", "we paint the fence on Friday", timestamp=1_707_500_200.0)
    world.say("b1", "the other chat talks of boats", chat_id="77")
    world.night()
