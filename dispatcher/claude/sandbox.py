"""The sandbox of each call of the Claude CLI: it sees only its own processes, and only those of our files that this call needs (landlock.py).

Hidden are our three directories, and the files with secrets: settings, credentials and the owner's key. `HOME` belongs to the CLI: if one of them
is inside, the call can use what is in `HOME`, but cannot create new files in the directories above the hidden one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from dispatcher.claude import landlock
from shared.config import credentials
from shared.config.settings import Settings
from shared.config.sources import settings_file
from shared.config.values import names_a_host
from shared.system.processes import Start, run_bounded
from shared.text.logs import Logger

log = Logger()

#: Prints which of the paths after it can be opened, as JSON.
_PROBE = """
import json, os, sys
def opened(path):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
    except OSError:
        return False
    return True
print(json.dumps([path for path in sys.argv[1:] if opened(path)]))
"""
#: Time limit of the sandbox check. Seconds.
TRIAL_SECONDS = 20.0


class Walls:
    """`open_because`: what cannot be hidden from the CLI, and why; None if everything can."""

    def __init__(self, settings: Settings, environment: Mapping[str, str], binary: str) -> None:
        self._home = Path(environment.get("HOME", "/"))
        self._config = Path(environment.get("CLAUDE_CONFIG_DIR") or self._home / ".claude")
        temporary = Path(environment.get("TMPDIR", "/tmp"))  # noqa: S108 - the CLI's
        self._needed = _really(
            [self._home, self._config, self._home / ".claude.json", self._home / ".cache", temporary, Path(binary)]
            + [Path(binary).resolve().parent, Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable)]
            + [Path(one) for one in environment.get("PATH", "").split(os.pathsep) if one]
        )
        self._shown = [settings.claude_mcp_config] if settings.claude_mcp_config else []
        why = {path: _why_open(path, temporary.resolve(), self._needed) for path in _private(settings)}
        self._hidden = (
            [] if landlock.version() < 2 else [path for path, open_because in why.items() if not open_because]
        )
        self.open_because = _NO_LANDLOCK if landlock.version() < 2 else "; ".join(filter(None, why.values())) or None

    def around(self, shown: Iterable[Path], report: Callable[[str], None] | None = None) -> Start:
        """Starts a command inside; in the hidden directories it may use the paths in `shown`. `report`: instead of the log."""
        if any(path.is_relative_to(self._home.resolve()) for path in self._hidden):
            self._make_config()
        hidden, seen, needed = ([*map(str, some)] for some in (self._hidden, [*self._shown, *shown], self._needed))
        return partial(landlock.start_inside, (hidden, seen, needed), report or _log)

    def found_open(self) -> str | None:
        """Test the sandbox once: which hidden files, or which of this process', can be opened inside it, or why it could not be tested; None if it
        works."""
        ours = [f"/proc/{os.getpid()}/{name}" for name in ("environ", "mem", "maps") if landlock.version()]
        command = [sys.executable, "-I", "-S", "-c", _PROBE, *map(str, self._hidden), *ours]
        missing: list[str] = []
        try:
            done = run_bounded(command, TRIAL_SECONDS, directory=Path("/"), start=self.around([], missing.append))
            opened = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return f"the sandbox of the Claude CLI could not be tested ({error!r})"
        if not opened:
            return None
        why = f" ({missing[0]})" if missing else ""
        return f"the Claude CLI can open {', '.join(opened)} despite Landlock{why}"

    def _make_config(self) -> None:
        """Create the CLI's directory, because the CLI could not in this case, and would lose its sessions."""
        try:
            self._config.mkdir(mode=0o700, exist_ok=True)
        except OSError:  # no home, so no sessions in any case
            return


def _log(missing: str) -> None:
    log.warning("a program runs without the whole sandbox", missing=missing)


_NO_LANDLOCK = "this kernel has no Landlock, or it is forbidden here (Linux 5.19 or newer has it), so nothing is hidden"


def _private(settings: Settings) -> list[Path]:
    """What no call may see, by its real path. A link to such a file is included, because changing it would replace the file.

    The path of the owner's key is hidden even before it exists, because a program that creates it would know it.
    """
    ours = [settings.hmem_state_dir, settings.hmem_memory_dir, settings.hmem_night_dir]
    mirror = settings.archive_mirror
    ours += [Path(mirror)] if mirror and not names_a_host(mirror) else []
    files = [path for path in (settings_file(), *credentials.places()) if path and _holds_something(path)]
    key = settings.owner_key_file
    files += [key] if key and (_holds_something(key) or not _night_is_another_user(settings)) else []
    links = [Path(os.path.realpath(path.parent)) / path.name for path in files if os.path.islink(path)]  # noqa: PTH114 - see below
    return [*_really([*ours, *files]), *links]


def _holds_something(path: Path) -> bool:
    """Whether this user can see it, and it is not a device (/dev/null means no settings). Behind a closed directory, pathlib raises."""
    return os.path.isfile(path) or os.path.isdir(path)  # noqa: PTH112, PTH113


def _night_is_another_user(settings: Settings) -> bool:
    """Whether the night runs as another user: then it would not use a key that a call created in this user's home."""
    try:
        return settings.hmem_night_dir.stat().st_uid != os.geteuid()
    except OSError:
        return False


def _really(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(Path(os.path.realpath(path)) for path in paths))


def _why_open(path: Path, temporary: Path, needed: list[Path]) -> str | None:
    """Landlock grants rights to whole trees: a hidden one cannot contain what the CLI needs, nor be in its temporary directory."""
    if path.is_relative_to(temporary):
        return f"{path} is in {temporary}, where the CLI creates its temporary files"
    if inside := next((one for one in needed if one.is_relative_to(path)), None):
        return f"{inside}, which the CLI needs, is in {path}"
    return None
