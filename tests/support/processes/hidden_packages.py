"""Commands that run as if some Python packages were not installed: nobody finds them."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.world import World

_HIDE = """
from importlib.machinery import PathFinder
_found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in {names} else _found(name, *more)
"""


def hide(world: World, *names: str) -> None:
    """From now on the world's commands do not have these packages."""
    folder = Path(world.root) / "hidden"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(_HIDE.format(names=set(names)))
    world.environment["PYTHONPATH"] = os.pathsep.join((str(folder), os.environ["PYTHONPATH"]))
