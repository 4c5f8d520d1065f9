"""What runs on the night host before the program is there: sent over ssh to any Python from 3.11 on, so it imports only the standard library.

`survey` says what that host has; `install` makes the virtual environment; `remove` takes the program out. Each prints one line of JSON at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

#: In the program's directory: what it was made of. Only a directory with it is ever changed or removed.
STAMP = ".installed-by-hmem-init"
#: In the virtual environment: which packages it has.
PACKAGES_STAMP = ".hmem-packages"
#: Program → the package of Debian and Ubuntu that brings it.
NEEDED = {"rsync": "rsync", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}


def survey(given: dict[str, Any]) -> dict[str, Any]:
    own = os.geteuid() != 0 or given["user"]
    program, data = _places(own=own)
    missing = sorted({package for name, package in NEEDED.items() if shutil.which(name) is None})
    missing += [] if _has_venv() else ["python3-venv"]
    return {
        "python": sys.executable,
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "root": os.geteuid() == 0,
        "apt": shutil.which("apt-get") is not None,
        "missing": missing,
        "program": str(program),
        "foreign": program.exists() and any(program.iterdir()) and not (program / STAMP).exists(),
        "stamp": _read(program / STAMP),
        "packages": _read(program / ".venv" / PACKAGES_STAMP),
        "free_for_program": _free(program),
        "free_for_archive": _free(data),
        "seen_from": os.environ.get("SSH_CONNECTION", "").split(" ")[0],
    }


def _places(*, own: bool) -> tuple[Path, Path]:
    """Of the program, and of what is stored (dispatcher/installation/layout.py)."""
    if not own:
        return Path("/opt/hcli-memory"), Path("/var/lib/hmem-night")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "hmem"
    return data / "program", data


def _has_venv() -> bool:
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return False
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _free(path: Path) -> int:
    return shutil.disk_usage(next(one for one in (path, *path.parents) if one.exists())).free


def fetch(given: dict[str, Any]) -> dict[str, Any]:
    """Packages of the system, as root."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *given["packages"]]
    if not any(Path("/var/lib/apt/lists").glob("*_Packages*")):
        _show(["apt-get", "update"], environment)
    _show(install, environment)
    return {}


def make_room(given: dict[str, Any]) -> dict[str, Any]:
    """The program's directory, marked as ours before anything is in it."""
    os.umask(0o022)
    program = Path(given["program"])
    program.mkdir(parents=True, exist_ok=True)
    if not (program / STAMP).exists():
        (program / STAMP).write_text("incomplete\n", encoding="ascii")
    return {}


def install(given: dict[str, Any]) -> dict[str, Any]:
    """Packages first, each by its hash where a lock is given; then the program itself, which needs no network."""
    os.umask(0o022)
    program = Path(given["program"])
    environment, packages = program / ".venv", program / ".venv" / PACKAGES_STAMP
    python = environment / "bin" / "python"
    if _read(packages) != given["packages"]:
        if not python.exists():
            _show([sys.executable, "-m", "venv", str(environment)])
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install"]
        for words in given["pip"]:
            _show([*pip, *words], directory=program)
        packages.write_text(f"{given['packages']}\n", encoding="ascii")
    _show([str(environment / "bin" / "hmem-night"), "--version"])
    (program / STAMP).write_text(f"{given['stamp']}\n", encoding="ascii")
    return {}


def remove(given: dict[str, Any]) -> dict[str, Any]:
    program = Path(given["program"])
    ours = (program / STAMP).exists()
    if ours:
        shutil.rmtree(program)
    return {"removed": ours}


def _show(command: list[str], environment: dict[str, str] | None = None, directory: Path | None = None) -> None:
    """Its lines are our own: the other side shows the last one."""
    done = subprocess.run(
        command, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ended with {done.returncode}")


def digest_of(folder: Path) -> str:
    """Of all files below a directory, with their names."""
    digest = hashlib.sha256()
    for path in sorted(one for one in folder.rglob("*") if one.is_file() and not one.is_symlink()):
        digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def main(verb: str, given: dict[str, Any]) -> None:
    verbs = {"survey": survey, "fetch": fetch, "make-room": make_room, "install": install, "remove": remove}
    found = verbs[verb](given)
    sys.stdout.flush()
    sys.stdout.write(f"{json.dumps(found)}\n")
    sys.stdout.flush()
