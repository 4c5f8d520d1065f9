"""`scripts/redis8`, without a network: apt-get is a stand-in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.world import REPOSITORY

#: Names a mirror, and fails to reach it.
APT_GET = """#!/bin/sh
case "$*" in
  *indextargets*) echo "$MIRROR" ;;
  *) echo "the mirror is away" >&2; exit 100 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("scripts", "bin"):
        (tmp_path / folder).mkdir()
    shutil.copy(REPOSITORY / "scripts" / "redis8", tmp_path / "scripts")
    (tmp_path / "bin" / "apt-get").write_text(APT_GET)
    (tmp_path / "bin" / "apt-get").chmod(0o755)
    return tmp_path


def run(checkout: Path, mirror: str = "") -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "MIRROR": mirror}
    command = [str(checkout / "scripts" / "redis8")]
    return subprocess.run(command, env=variables, cwd="/", capture_output=True, text=True, timeout=60, check=False)


def test_what_is_there_is_not_fetched_again(checkout: Path) -> None:
    program = checkout / ".venv" / "redis8" / "redis-server"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    done = run(checkout)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{program}\n", "")


@pytest.mark.parametrize(
    ("mirror", "why"),
    [
        ("", "apt names no mirror of Debian. Run a Redis 8 of your own and set HMEM_TEST_REDIS8_URL"),
        ("Debian main mirror://nobody/debian/", "the mirror is away"),
    ],
)
def test_without_a_mirror_it_says_so_and_leaves_nothing(checkout: Path, mirror: str, why: str) -> None:
    done = run(checkout, mirror)
    assert (done.returncode, done.stdout) == (1, "")
    if "away" not in why or Path("/usr/share/keyrings/debian-archive-keyring.gpg").exists():
        assert why in done.stderr
    assert not list(checkout.glob(".venv/*"))
