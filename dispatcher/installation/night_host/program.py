"""The program on the night host: the files of this checkout, or the wheel of this installation; with the packages that are here, in an environment of
its own."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from dispatcher.installation.night_host.remote import RemoteHost
from dispatcher.installation.night_host.there.bootstrap import digest_of
from dispatcher.installation.run import DOWNLOAD_SECONDS, run
from dispatcher.installation.upgrade.package import keep_wheel, parts_there
from shared.config.installation import NAME, checkout
from shared.config.packages import HALVES

#: Bytes that the program takes, with its packages and what pip needs meanwhile.
PROGRAM_BYTES = 2 << 30
#: Both halves: the night needs supervisor where there is no systemd, and `hmem` examines a host.
_HALVES = ("day", "night")
_LOCK = "night-host.lock"


def provide_program(remote: RemoteHost, survey: dict[str, Any]) -> tuple[str, bool]:
    """Copy it and install its packages, only what differs; what was done, and whether anything was."""
    with tempfile.TemporaryDirectory(prefix="hmem-program-") as folder:
        staged = Path(folder) / "program"
        staged.mkdir()
        stage(staged)
        stamp, packages = digest_of(staged), packages_stamp(staged)
        place = survey["program"]
        remote.python = f"{place}/.venv/bin/python"
        if (survey["stamp"], survey["packages"]) == (stamp, packages):
            return f"there already in {place}", False
        again = f"Then run {remote.command} again."
        given = {"program": place, "stamp": stamp, "packages": packages, "pip": _pip(staged)}
        remote.script("make-room", given, f"Making room in {place}", again)
        kept = (
            "--exclude=/.venv",
            "--exclude=/.installed-by-hmem-init",
            "--exclude=__pycache__",
            "--exclude=*.egg-info",
        )
        modes = "--chmod=Du=rwx,Dgo=rx,Fgo=r,Fu=rw,F+X"
        remote.copy(str(staged), place, f"Copying the program to {remote.name}", modes, *kept)
        remote.script(
            "install", given, f"Installing the packages on {remote.name}", f"Check its network and disk. {again}", DOWNLOAD_SECONDS * 2
        )  # fmt: skip
    return f"installed in {place}", True


def stage(folder: Path) -> None:
    """The files to send."""
    root = checkout()
    if root is None:
        keep_wheel(folder)
        (folder / _LOCK).write_text("".join(f"{line}\n" for line in sorted(_versions())), encoding="ascii")
        return
    for name in _tracked(root):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    lock = run([str(root / "scripts" / "locked"), *_HALVES, *_more_parts()], "Reading the lock", "Run scripts/setup.")
    (folder / _LOCK).write_text(lock, encoding="utf-8")


def packages_stamp(staged: Path) -> str:
    """Changes when packages must be installed: with the lock, and with a wheel, which is one of them."""
    wheels = b"".join(path.read_bytes() for path in sorted(staged.glob("*.whl")))
    return hashlib.sha256((staged / _LOCK).read_bytes() + wheels).hexdigest()


def _pip(staged: Path) -> list[list[str]]:
    """The words after `pip install`, one list for each call; paths are relative to the program's directory."""
    wheel = next((path.name for path in staged.glob("*.whl")), None)
    if wheel is None:
        return [
            ["--require-hashes", "--only-binary", ":all:", "-r", _LOCK],
            ["--no-deps", "--no-build-isolation", "--force-reinstall", "--editable", "."],
        ]
    extras = ",".join((*_HALVES, *_more_parts()))
    return [["--constraint", _LOCK, f"./{wheel}[{extras}]"], ["--no-deps", "--force-reinstall", f"./{wheel}"]]


def _more_parts() -> list[str]:
    """Optional parts that are installed here, such as an index: the night must have the same."""
    known = {part for half in HALVES.values() for part in half}
    return [part for part in parts_there() if part not in known]


def _tracked(root: Path) -> Iterable[str]:
    """What Git knows; without it, all that is no product of an installation."""
    git = ["git", "-c", f"safe.directory={root}", "-C", str(root), "ls-files", "-z"]
    try:
        done = subprocess.run(git, capture_output=True, check=True)
        return [name.decode() for name in done.stdout.split(b"\0") if name]
    except (OSError, subprocess.CalledProcessError):
        left_out = {".venv", ".git", "__pycache__"}
        found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
        return [str(path) for path in found if not left_out & set(path.parts)]


def _versions() -> Iterable[str]:
    """What is installed here, as constraints."""
    return {f"{one.metadata['Name']}=={one.version}" for one in distributions() if one.metadata["Name"] != NAME}
