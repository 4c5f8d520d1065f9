"""The host itself: packages of the system, accounts, directories."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from dispatcher.installation import environment
from dispatcher.installation.init.in_progress import InstallationInProgress
from dispatcher.installation.layout import BINARIES, account, systemd_runs
from dispatcher.installation.run import DOWNLOAD_SECONDS, as_account, run
from shared.config.ownership import user_name
from shared.errors import InstallationIncomplete

#: Programs, and packages of Debian and Ubuntu of the same names that bring them.
REDIS, RSYNC = "redis-server", "rsync"
_REDIS_SERVICE = "redis-server.service"


def missing_packages(installation: InstallationInProgress) -> list[str]:
    wanted = (REDIS, RSYNC) if installation.own_redis else (RSYNC,)
    return [name for name in wanted if shutil.which(name) is None]


def install_packages(installation: InstallationInProgress) -> str:
    """apt, as root or by sudo. InstallationIncomplete with the command where neither can be used."""
    missing = missing_packages(installation)
    if not missing:
        return "there already"
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    by_hand = f"Install them by hand (sudo {' '.join(command)}), then run hmem init again."
    if shutil.which("apt-get") is None:
        raise InstallationIncomplete(
            f"{' and '.join(missing)} are not installed, and this system has no apt-get. Install them, then run hmem init again."
        )
    root = _as_root(installation)
    if root is None:
        raise InstallationIncomplete(f"{' and '.join(missing)} are not installed, and this needs root. {by_hand}")
    new_redis = REDIS in missing and systemd_runs() and not _redis_service()
    how: dict[str, Any] = {"env": environment.for_installers(DEBIAN_FRONTEND="noninteractive"), "umask": 0o022}
    with installation.terminal.busy(f"Installing {', '.join(missing)}"):
        if not _lists_are_there():
            run([*root, "apt-get", "update"], "Updating the package lists", by_hand, seconds=DOWNLOAD_SECONDS, **how)
        run([*root, *command], f"Installing {', '.join(missing)}", by_hand, seconds=DOWNLOAD_SECONDS, **how)
    if new_redis:  # Debian starts it, and nobody uses that one: ours has a password, and other settings
        subprocess.run([*root, "systemctl", "disable", "--now", _REDIS_SERVICE], capture_output=True, check=False)
    return f"installed {', '.join(missing)}"


def _as_root(installation: InstallationInProgress) -> list[str] | None:
    """What a command of root begins with; None where there is no way. sudo asks for its password here, before anything else is shown."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    if not installation.terminal.unattended:
        subprocess.run(["sudo", "--validate"], check=False)  # if it refuses, the command says so
    return ["sudo", "--non-interactive"]


def _lists_are_there() -> bool:
    return any(Path("/var/lib/apt/lists").glob("*_Packages*"))


def _redis_service() -> bool:
    """Whether there is a service of the name that Debian's Redis gets: then it is somebody's."""
    listed = ["systemctl", "list-unit-files", "--no-legend", _REDIS_SERVICE]
    return bool(subprocess.run(listed, capture_output=True, check=False).stdout.strip())


def create_accounts(installation: InstallationInProgress) -> str:
    layout = installation.layout
    if not layout.accounts:
        return f"everything runs as you, {user_name(os.geteuid())}"
    created = [name for name in layout.accounts if account(name) is None]
    for name in created:
        home = {layout.night_user: layout.night, layout.day_user: layout.home}.get(name, Path("/"))
        options = "--system --user-group --no-create-home --shell /usr/sbin/nologin".split()
        command = ["useradd", *options, "--home-dir", str(home), name]
        run(command, f"Creating the account {name}", "Create it by hand, then run hmem init again.")
    command = ["usermod", "--append", "--groups", str(layout.day_user), str(layout.night_user)]
    run(command, "Letting the night give releases to the dispatcher's group", "Run it by hand: " + " ".join(command))
    _refuse_closed_program(installation)
    return f"created {', '.join(created)}" if created else "there already"


def _refuse_closed_program(installation: InstallationInProgress) -> None:
    """The accounts must be able to run this program: a Python in /root, as pipx and pyenv have it, is closed to them."""
    run(
        [str(BINARIES / "hmem"), "--help"],
        f"Running {BINARIES / 'hmem'} as {installation.layout.day_user}",
        "The accounts cannot enter that directory. Install the program where all users may read it (python3 -m venv /opt/hmem, then "
        "/opt/hmem/bin/pip install the wheel), or run hmem init --user as a user of your own.",
        **as_account(installation.layout.day_user),
    )


def create_directories(installation: InstallationInProgress) -> str:
    layout = installation.layout
    shared = 0o755 if layout.day_user else 0o700
    wanted = [
        (layout.config, shared, None, None),
        (layout.state, 0o700, layout.day_user, None),
        (layout.memory, 0o2750 if layout.kind == "three-users" else 0o700, layout.night_user, layout.day_user),
        (layout.night, 0o700, layout.night_user, None),
    ]
    if layout.kind == "three-users":
        wanted.append((layout.secrets, 0o700, None, None))
    if layout.day_user:
        wanted.append((layout.home, 0o700, layout.day_user, None))
    if installation.own_redis:
        wanted.append((layout.redis, 0o700, layout.redis_user, None))
    if mirror := installation.values.get("ARCHIVE_MIRROR"):
        wanted += [(Path(mirror), 0o700, layout.night_user, None)] if Path(mirror).is_absolute() else []
    created = [
        str(path) for path, mode, owner, group in wanted if installation.make_directory(path, mode, owner, group)
    ]
    return f"created {', '.join(created)}" if created else "there already"
