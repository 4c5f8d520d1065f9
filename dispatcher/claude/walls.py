"""What surrounds each call of the Claude CLI: no process but its own, and of our files only what belongs to this question (confine.py).

Hidden are our three directories, and the files that open something: settings, credentials, the owner's key. `HOME` is the CLI's: where one of
them lies in there, the call uses what is in `HOME`, and makes no new names beside that in the directories above the hidden one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from dispatcher.claude import confine
from shared.config import credentials
from shared.config.settings import Settings
from shared.config.sources import settings_file
from shared.config.values import names_a_host
from shared.system.processes import last_line, run_bounded

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
#: Seconds that the trial of the fence may take.
TRIAL_SECONDS = 20.0


class Walls:
    """`open_because` says what cannot be hidden from the CLI and why, None if all can."""

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
        self._hidden = [] if confine.version() < 2 else [path for path, open_because in why.items() if not open_because]
        self.open_because = _NO_LANDLOCK if confine.version() < 2 else "; ".join(filter(None, why.values())) or None

    def around(self, shown: Iterable[Path]) -> list[str]:
        """What stands before the command; of the hidden directories it may use what is `shown`."""
        if any(path.is_relative_to(self._home.resolve()) for path in self._hidden):
            self._make_config()
        told = {"hidden": self._hidden, "shown": [*self._shown, *shown], "needed": self._needed}
        words = {name: [str(path) for path in paths] for name, paths in told.items()}
        return [sys.executable, "-I", "-S", confine.__file__, json.dumps(words)]

    def found_open(self) -> str | None:
        """Try the fence once: what can be opened inside it though it should be hidden, or why it could not be tried; None if it holds."""
        command = [*self.around([]), sys.executable, "-I", "-S", "-c", _PROBE, *map(str, self._hidden)]
        try:
            done = run_bounded(command, TRIAL_SECONDS, directory=Path("/"))
            opened = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return f"the fence around the Claude CLI could not be tried ({error!r})"
        if not opened:
            return None
        why = f" ({last_line(done)})" if done.stderr.strip() else ""
        return f"the Claude CLI can open {', '.join(opened)} in spite of Landlock{why}"

    def _make_config(self) -> None:
        """The CLI cannot make it then, and would lose its sessions."""
        try:
            self._config.mkdir(mode=0o700, exist_ok=True)
        except OSError:  # no home, so no sessions either way
            return


_NO_LANDLOCK = "this kernel has no Landlock, or it is forbidden here (Linux 5.19 or newer has it), so nothing is hidden"


def _private(settings: Settings) -> list[Path]:
    """What no call may see, by its real name. A link to such a file counts, too: who could change it could put another file there.

    The owner's key also before there is one: who could make it would know it.
    """
    ours = [settings.hmem_state_dir, settings.hmem_memory_dir, settings.hmem_night_dir]
    mirror = settings.archive_mirror
    ours += [Path(mirror)] if mirror and not names_a_host(mirror) else []
    files = [path for path in (settings_file(), *credentials.places()) if path and _holds_something(path)]
    key = settings.owner_key_file
    files += [key] if key and (_holds_something(key) or not _night_is_another_user(settings)) else []
    links = [Path(os.path.realpath(path.parent)) / path.name for path in files if _is_link(path)]
    return [*_really([*ours, *files]), *links]


def _holds_something(path: Path) -> bool:
    """Whether it is there, for this user, and no device (/dev/null stands for no settings)."""
    try:
        return path.is_file() or path.is_dir()
    except OSError:
        return False


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:  # behind a directory that is closed to this user
        return False


def _night_is_another_user(settings: Settings) -> bool:
    """Then a key that a call made in this user's home would be nobody's."""
    try:
        return settings.hmem_night_dir.stat().st_uid != os.geteuid()
    except OSError:
        return False


def _really(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(Path(os.path.realpath(path)) for path in paths))


def _why_open(path: Path, temporary: Path, needed: list[Path]) -> str | None:
    """Landlock gives rights to whole trees: what the CLI needs may not lie in a hidden one, and its temporary directory can have no hole."""
    if path.is_relative_to(temporary):
        return f"{path} lies in {temporary}, where the CLI makes its temporary files"
    if inside := next((one for one in needed if one.is_relative_to(path)), None):
        return f"{inside}, which the CLI needs, lies in {path}"
    return None
