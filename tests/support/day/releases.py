"""Releases of real nights, and damage to them."""

from __future__ import annotations

from shared.release.parts import part_files
from tests.support.world import World


def nights(world: World, count: int, first: int = 1) -> None:
    """So many releases, each after the one before."""
    for number in range(first, first + count):
        world.say(f"t{number}", f"note {number} about the boiler")
        world.night()


def current(world: World) -> int:
    return int((world.memory_dir / "current").readlink().name)


def silent(_: str) -> None:
    pass


def damage(world: World, run: int) -> None:
    """To the newest file of its keywords."""
    with part_files(world.memory_dir / "releases" / str(run) / "lexical")[-1].open("r+b") as handle:
        handle.seek(100)
        handle.write(b"\x00" * 8)
