"""The day's only way to run the night's commands: `hmem-night …` as a separate process, because no part of the day reads the archive."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from shared.config.credentials import for_child
from shared.config.settings import Settings
from shared.errors import ArchiveDamaged
from shared.system.privileges import as_owner_of
from shared.system.processes import last_line, module_command, of_the_night
from shared.wire.json import loads_object

#: How long a command that only reads may take before it is killed. Seconds. A night has its own limits (STEP_TIMEOUT).
READING_SECONDS = 3_600.0


class NightCommandFailed(Exception):
    """`hmem-night …` ended with the exit code `code`, which is negative for a signal; `message` is its last line."""

    def __init__(self, command: str, code: int, message: str = "") -> None:
        self.code, self.message = code, message
        super().__init__(f"hmem-night {command} ended with exit code {code}: {message}")


def archive_is_here(settings: Settings) -> bool:
    """Whether this host has the archive and this process may read it: if nights run as another user, only root may."""
    return _is_of_the_night(settings, "archive")


def night_was_here(settings: Settings) -> bool:
    """Whether a night was ever begun here, as far as this process may see."""
    return _is_of_the_night(settings, "lock")


def _is_of_the_night(settings: Settings, name: str) -> bool:
    try:
        with as_owner_of(settings.hmem_night_dir):
            return (settings.hmem_night_dir / name).exists()
    except PermissionError:
        return False


def night_is_here(settings: Settings) -> bool:
    """Whether nights can run on this host as this process: their directory is there, or can be made, and may be written to."""
    folder = settings.hmem_night_dir
    try:
        with as_owner_of(folder):
            return os.access(folder if folder.exists() else folder.parent, os.W_OK | os.X_OK, effective_ids=True)
    except PermissionError:
        return False


def run_night(settings: Settings, *arguments: str, ours: bool = False) -> bytes:
    """Run a command that takes long, with its progress on our standard error; what it printed. NightCommandFailed with its exit code.

    `ours`: for a command that needs no archive.
    """
    with (
        tempfile.TemporaryFile() as printed,
        _started(settings, arguments, ours, stdout=printed, stderr=subprocess.PIPE) as night,
    ):
        last = ""
        for line in night.stderr or ():
            text = line.decode("utf-8", "replace").rstrip()
            last = text or last
            sys.stderr.write(f"{text}\n")
        if night.wait():
            raise NightCommandFailed(arguments[0], night.returncode, last)
        printed.seek(0)
        return printed.read()


def read_json(settings: Settings, *arguments: str, ours: bool = False) -> Any:
    """The JSON document that a command prints. `ours`: for a command that writes files of this user."""
    return orjson.loads(b"".join(read_lines(settings, *arguments, ours=ours)))


def read_lines(settings: Settings, *arguments: str, ours: bool = False) -> Iterator[bytes]:
    """The lines that a command prints, as they come; NightCommandFailed at the end if it failed."""
    with tempfile.TemporaryFile() as errors:
        with _started(settings, arguments, ours, stdout=subprocess.PIPE, stderr=errors) as night:
            limit = threading.Timer(READING_SECONDS, night.kill)
            limit.start()
            try:
                yield from night.stdout or ()
            finally:
                limit.cancel()
        if night.returncode:
            errors.seek(0)
            said = errors.read().decode("utf-8", "replace")
            failed = subprocess.CompletedProcess(arguments, night.returncode, stderr=said)
            raise NightCommandFailed(arguments[0], night.returncode, last_line(failed))


def read_archive(settings: Settings, *options: str) -> Iterator[dict[str, Any]]:
    """What `hmem-night turns` prints of the archive, record by record; ArchiveDamaged if it fails."""
    try:
        yield from map(loads_object, read_lines(settings, "turns", *options))
    except NightCommandFailed as failed:
        why = failed.message or failed
        raise ArchiveDamaged(f"The archive cannot be read, so nothing was changed: {why}") from failed


@contextmanager
def _started(
    settings: Settings, arguments: tuple[str, ...], ours: bool = False, **streams: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """As the night's user with the night's credentials if we may, else as this user, as with `ours`."""
    with as_ourselves() if ours else of_the_night(settings) as child:
        command = module_command("nightly", *arguments)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, **streams, **child) as night:
            yield night


@contextmanager
def as_ourselves() -> Iterator[dict[str, Any]]:
    """Arguments for subprocess for a command of ours: our environment, and our credentials by a pipe."""
    with for_child() as (environment, descriptors):
        yield {"env": environment, "pass_fds": descriptors}
