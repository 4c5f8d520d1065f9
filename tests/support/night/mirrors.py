"""The archive and its mirror: looked at, damaged, verified and repaired."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from nightly.archive import verification
from nightly.night.progress import Reporter
from tests.support.world import World


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def two_nights(world: World) -> None:
    for day in (1, 2):
        world.say(f"t{day}", f"said on day {day}")
        world.night()


def verified(world: World, *options: str) -> subprocess.CompletedProcess[str]:
    """`hmem-night verify` as a command; `verify` and `repair` of this process take a tenth of the time."""
    return world.command("hmem-night", "verify", *options, check=False)


def verify(world: World) -> dict[str, Any]:
    return verification.verify(world.settings(), Reporter(quiet=True))


def repair(world: World) -> list[str]:
    done: list[str] = verification.repair(world.settings(), Reporter(quiet=True))["repaired"]
    return done
