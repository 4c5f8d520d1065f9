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
    """To the newest file of its keywords, in this release alone: the file is replaced, so other releases keep theirs."""
    path = part_files(world.memory_dir / "releases" / str(run) / "lexical")[-1]
    content = bytearray(path.read_bytes())
    content[100:108] = bytes(8)
    path.unlink()
    path.write_bytes(content)
