"""Version and commit of an installation, and what adds a part to it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from shared.config.installation import IMAGE_MARKER, commit, version
from shared.config.packages import TESTED_CLAUDE, how_to_add, how_to_get_claude
from tests.support.world import REPOSITORY, World


def test_both_programs_say_their_version(world: World) -> None:
    for name in ("hmem", "hmem-night"):
        done = subprocess.run(
            [Path(sys.executable).parent / name, "--version"], capture_output=True, text=True, check=True,
            cwd="/", env=world.variables(PYTHONPATH=str(REPOSITORY), REDIS_URL="redis://127.0.0.1:1/0"),
        )  # fmt: skip
        assert done.stdout.startswith("hcli-memory "), done
        assert re.search(r"^hcli-memory \d\S* \(.+\), Python 3\.\d+\.\d+ in /", done.stdout)


def test_a_checkout_says_its_own_version_and_commit(tmp_path: Path) -> None:
    written = re.search(r'^version = "(.+)"$', (REPOSITORY / "pyproject.toml").read_text(), re.M)
    assert written
    assert version() == written[1]
    place = _checkout(tmp_path / "one", "$Format:%H$")
    assert commit(place) is None, "no repository"
    git = ["git", "-C", str(place), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"], ["tag", "v9"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout[:12]
    assert commit(place) == f"commit {head}"
    (place / "pyproject.toml").write_text('[project]\nversion = "7.8.9"\n')
    assert (version(place), commit(place)) == ("7.8.9", f"commit {head} and local changes")


def _checkout(place: Path, written: str) -> Path:
    (place / "scripts").mkdir(parents=True)
    (place / "shared" / "config").mkdir(parents=True)
    (place / "scripts" / "setup").touch()
    (place / "pyproject.toml").write_text('[project]\nversion = "1.0.0"\n')
    (place / "shared" / "config" / "commit.txt").write_text(written)
    return place


def test_what_a_wheel_lacks_is_named(tmp_path: Path) -> None:
    assert "with lancedb as one more extra" in how_to_add("lancedb", tmp_path, tmp_path)
    (tmp_path / IMAGE_MARKER).touch()
    assert "HMEM_PARTS in deploy/.env" in how_to_add("chroma", tmp_path, tmp_path)
    assert how_to_get_claude(tmp_path) == f"npm install -g @anthropic-ai/claude-code@{TESTED_CLAUDE}"
    assert f"claude_version={TESTED_CLAUDE}\n" in (REPOSITORY / "scripts" / "setup").read_text()
    for image in ("day", "night"):
        text = (REPOSITORY / f"deploy/Dockerfile.{image}").read_text()
        assert f"scripts/locked {image} ${{HMEM_PARTS}}" in text
        assert f"touch /opt/venv/{IMAGE_MARKER}" in text
