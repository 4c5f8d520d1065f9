"""A day host that is reached as over ssh, without one: rsync's remote shell runs its command here, and so does the verbs' command.

Files in `hooks` interfere: while `<verb>.hang` exists a verb waits before it does anything, while `<verb>.after` exists it has done it and
does not answer; `rsync.hang` holds the transfer. Each says so by a file of the same name with `.reached` behind it. `rsync.break` breaks the
connection once.
"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

from tests.support.machine import script, wait_for
from tests.support.world import REPOSITORY, World

_WAIT = """#!/bin/sh
hold() {
  [ -e "$1" ] || return 0
  : >"$1.reached"
  while [ -e "$1" ]; do sleep 0.02; done
}
"""


class Remote:
    """The memory directory of `world` as another host's; `variables` are the night's settings for it."""

    def __init__(self, world: World) -> None:
        self.hooks = world.root / "hooks"
        self.hooks.mkdir(exist_ok=True)
        day = world.variables(PYTHONPATH=str(REPOSITORY))
        environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in day.items())
        verbs = script(
            world.root / "day-host" / "verbs",
            f'{_WAIT}verb={self.hooks}/${{1%% *}}\nhold "$verb.hang"\n'
            f'answer=$(env -i {environment} {sys.executable} -m shared.delivery.receiver "$1")\ncode=$?\nhold "$verb.after"\n'
            'printf %s "$answer"\nexit $code\n',
        )
        shell = script(
            world.root / "day-host" / "shell",
            f'{_WAIT}shift\nhold "{self.hooks}/rsync.hang"\nif rm "{self.hooks}/rsync.break" 2>/dev/null; then exit 255; fi\nexec "$@"\n',
        )
        target = f"day:{world.memory_dir}"
        self.variables = {"PUBLISH_TARGET": target, "PUBLISH_SSH": str(shell), "RELEASE_COMMAND": str(verbs)}

    def hook(self, name: str) -> Path:
        """Set a hook."""
        path = self.hooks / name
        path.touch()
        return path

    def reached(self, name: str, seconds: float = 60.0) -> None:
        """Wait until somebody waits at the hook."""
        wait_for((self.hooks / f"{name}.reached").exists, f"the night to reach {name}", seconds)

    def clear(self) -> None:
        """Take all hooks away: whoever waits goes on."""
        for path in self.hooks.iterdir():
            path.unlink(missing_ok=True)
        time.sleep(0.05)  # those that wait look 50 times a second
