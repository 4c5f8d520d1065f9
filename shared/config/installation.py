"""How this program was installed (checkout, image, wheel), in which version, and from which Git commit.

Commit: a checkout is asked itself; `git archive` writes it into `commit.txt`, from which scripts/release builds; pip, pipx and uv
record it when they install from Git (PEP 610, direct_url.json).
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

#: The name of the distribution. It is not ours in any package registry, so nothing is ever installed by it alone.
NAME = "hcli-memory"
#: Where the packages lie: the checkout, or site-packages.
ROOT = Path(__file__).resolve().parents[2]
#: A file that deploy/Dockerfile.* put into sys.prefix.
IMAGE_MARKER = "hmem-image"
#: How long Git may take. Seconds.
GIT_SECONDS = 5.0
SHOWN_DIGITS = 12


def checkout(root: Path = ROOT) -> Path | None:
    """The checkout that runs, or None if a wheel was installed."""
    return root if (root / "scripts" / "setup").is_file() else None


def version_line() -> str:
    """One line: `hcli-memory 0.1.0 (commit 0123456789ab), Python 3.11.7 in /opt/hmem`."""
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{NAME} {version()} ({commit() or 'commit unknown'}), Python {python} in {sys.prefix}"


def version(root: Path = ROOT) -> str:
    """The version of the code that runs: an editable installation's metadata may be older than its checkout."""
    if place := checkout(root):
        import tomllib

        with (place / "pyproject.toml").open("rb") as file:
            return str(tomllib.load(file)["project"]["version"])
    found = _distribution()
    return found.version if found else "of unknown version"


def commit(root: Path = ROOT) -> str | None:
    """`commit 0123456789ab`, with ` and local changes` in a checkout that has some; None if it is not known."""
    written = (root / "shared" / "config" / "commit.txt").read_text(encoding="ascii").strip()
    if place := checkout(root):
        return _commit_of(place)
    found = next((one for one in (written, _recorded_commit()) if re.fullmatch(r"[0-9a-f]{40,64}", one)), None)
    return f"commit {found[:SHOWN_DIGITS]}" if found else None


def _commit_of(place: Path) -> str | None:
    import subprocess

    asked = ["git", "-C", str(place), "describe", "--always", "--exclude=*", f"--abbrev={SHOWN_DIGITS}"]
    try:
        done = subprocess.run(
            [*asked, "--dirty= and local changes"], capture_output=True, text=True, timeout=GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):  # no Git, no repository, or one that belongs to somebody else
        return None
    return f"commit {done.stdout.strip()}"


def _recorded_commit() -> str:
    """Of an installation from Git."""
    found = _distribution()
    recorded = json.loads((found and found.read_text("direct_url.json")) or "{}")
    return str(recorded.get("vcs_info", {}).get("commit_id", ""))


def _distribution() -> Distribution | None:
    try:
        return distribution(NAME)
    except PackageNotFoundError:
        return None
