"""Programs that an installation starts: as another account where it has one, with a time limit, and their last words in the error."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dispatcher.installation import environment
from dispatcher.installation.layout import account
from shared.errors import InstallationIncomplete

#: Seconds that a package manager may take.
DOWNLOAD_SECONDS = 1800.0
#: Seconds between TERM and KILL.
END_SECONDS = 30.0
#: Of a program that failed, what its error shows.
LAST_CHARACTERS = 400


def as_account(name: str | None, home: Path | None = None, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Arguments for subprocess by which a program runs as this account, in a clean environment; None is this user."""
    if name is None:
        return {"env": {**environment.clean(own=True), **(more or {})}, "cwd": "/"}
    user = account(name)
    if user is None:
        raise InstallationIncomplete(f"There is no account {name} on this host. Run hmem init again, which creates it.")
    names = {"HOME": str(home or user.pw_dir), "USER": name, "LOGNAME": name}
    return {
        "env": {**environment.clean(own=False), **names, **(more or {})},
        "user": user.pw_uid,
        "group": user.pw_gid,
        "extra_groups": os.getgrouplist(name, user.pw_gid),
        "cwd": "/",
    }


def run(command: Sequence[str], why: str, remedy: str, *, seconds: float = 60.0, **how: Any) -> str:
    """Run a program to its end; what it printed. InstallationIncomplete ("`why` failed: its last words. `remedy`") if it fails.

    `how`: further arguments for subprocess (as_account).
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                list(command),
                start_new_session="user" in how,  # an account must not reach root's terminal
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                **how,
            )
        except OSError as error:
            raise InstallationIncomplete(
                f"{why} failed: {command[0]} cannot be started ({error.strerror}). {remedy}"
            ) from error
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise InstallationIncomplete(f"{why} did not end within {seconds:.0f} s. {remedy}") from None
        finally:
            _end(process)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if process.returncode != 0:
        said = " ".join(text.split())[-LAST_CHARACTERS:] or f"exit code {process.returncode}"
        raise InstallationIncomplete(f"{why} failed: {said.rstrip('.')}. {remedy}")
    return text


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever ended the wait: first with TERM, since a package manager that is killed leaves things half done."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with suppress(OSError):  # sudo's child is root's
                process.send_signal(sign)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
