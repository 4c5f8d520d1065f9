"""Programs that an installation starts: as another account where it has one, with a time limit, and their last words in the error."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dispatcher.installation.layout import account
from shared.errors import InstallationIncomplete

#: Seconds that a package manager may take.
DOWNLOAD_SECONDS = 1800.0
#: Of a program that failed, what its error shows.
LAST_CHARACTERS = 400


#: What programs of an installation get of our environment. Settings are not among it: they would outlive this run, and hide the settings file.
_KEPT = frozenset(
    "PATH LANG LANGUAGE TERM TZ HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR".split()
)
_KEPT_OF_THIS_USER = frozenset(
    "HOME USER LOGNAME SHELL XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME DBUS_SESSION_BUS_ADDRESS".split()
)


def clean_environment(*, own: bool) -> dict[str, str]:
    """Ours without settings and secrets; with `own` also what belongs to this user."""
    names = _KEPT | (_KEPT_OF_THIS_USER if own else frozenset())
    kept = {name: value for name, value in os.environ.items() if name in names or name.startswith("LC_")}
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **kept}


def as_account(name: str | None, home: Path | None = None, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Arguments for subprocess by which a program runs as this account, in a clean environment; None is this user."""
    if name is None:
        return {"env": {**clean_environment(own=True), **(more or {})}, "cwd": "/"}
    user = account(name)
    if user is None:
        raise InstallationIncomplete(f"There is no account {name} on this host. Run hmem init again, which creates it.")
    names = {"HOME": str(home or user.pw_dir), "USER": name, "LOGNAME": name}
    return {
        "env": {**clean_environment(own=False), **names, **(more or {})},
        "user": user.pw_uid,
        "group": user.pw_gid,
        "extra_groups": os.getgrouplist(name, user.pw_gid),
        "cwd": "/",
    }


def run(
    command: Sequence[str],
    why: str,
    remedy: str,
    *,
    seconds: float = 60.0,
    show: Callable[[str], None] | None = None,
    **how: Any,
) -> str:
    """Run a program to its end; what it printed. InstallationIncomplete ("`why` failed: its last words. `remedy`") if it fails.

    `show` gets its last line each second. `how`: further arguments for subprocess (as_account).
    """
    lines: list[str] = []
    try:
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **how
        )  # fmt: skip
    except OSError as error:
        raise InstallationIncomplete(
            f"{why} failed: {command[0]} cannot be started ({error.strerror}). {remedy}"
        ) from error
    reader = threading.Thread(target=lambda: lines.extend(_lines(process)), daemon=True)
    reader.start()
    try:
        _wait(process, seconds, lambda: show and show(lines[-1] if lines else ""))
    except subprocess.TimeoutExpired:
        raise InstallationIncomplete(f"{why} did not end within {seconds:.0f} s. {remedy}") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(5)
        if process.stdout:
            process.stdout.close()
    text = "".join(lines)
    if process.returncode != 0:
        said = " ".join(text.split())[-LAST_CHARACTERS:] or f"exit code {process.returncode}"
        raise InstallationIncomplete(f"{why} failed: {said.rstrip('.')}. {remedy}")
    return text


def _lines(process: subprocess.Popen[str]) -> Any:
    return process.stdout or ()


def _wait(process: subprocess.Popen[str], seconds: float, tick: Callable[[], object]) -> None:
    end = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() > end:
            raise subprocess.TimeoutExpired(process.args, seconds)
        tick()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            continue
