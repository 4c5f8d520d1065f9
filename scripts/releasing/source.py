"""What is released: the commit that is checked out, and whether it may be."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

#: Version numbers of releases.
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


class ReleaseRefused(Exception):
    """Why there is no release, and what to do, in a sentence."""


@dataclass(frozen=True)
class Source:
    """A commit of the repository `root`; `seconds` is when it was made (Unix time)."""

    root: Path
    commit: str
    seconds: int
    version: str

    def export(self, directory: Path) -> Path:
        """The commit's files in a new directory, with modes that no umask changes and commit.txt filled in."""
        archive = _git(self.root, "archive", "--format=tar", self.commit)
        directory.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 of Debian 12 has none
            files.extractall(directory)
        fixed_modes(directory)
        return directory


def fixed_modes(directory: Path) -> None:
    """0755 for directories and programs, 0644 for the rest, whatever the umask was."""
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def released_source(root: Path, *, allow_unreleased: bool) -> Source:
    """The commit that is checked out; ReleaseRefused if files differ from it, or the CHANGELOG does not name its version."""
    if changed := _git(root, "status", "--porcelain").decode().strip():
        raise ReleaseRefused(
            f"The checkout has changes that are in no commit, so nobody could build this release again:\n{changed}\nCommit or stash them first."
        )
    commit = _git(root, "rev-parse", "HEAD").decode().strip()
    seconds = int(_git(root, "log", "-1", "--format=%ct", commit))
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if not _VERSION.fullmatch(version):
        raise ReleaseRefused(f"The version {version!r} in pyproject.toml is not like 1.2.3 or 1.2.3rc1. Correct it.")
    section = rf"^## \[{re.escape(version)}\]"
    if not allow_unreleased and not re.search(section, (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.M):
        raise ReleaseRefused(
            f"CHANGELOG.md has no section '## [{version}]', so nobody could read what is new. Give [Unreleased] this name and a date, "
            "or try the build with --allow-unreleased."
        )
    return Source(root, commit, seconds, version)


def _git(root: Path, *arguments: str) -> bytes:
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], env=environment, capture_output=True, check=False
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ReleaseRefused(
            f"git {arguments[0]} failed: {said}. A release is built from a Git checkout; run it in one."
        )
    return done.stdout
