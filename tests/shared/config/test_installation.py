"""Version, commit and origin of an installation, and the command that adds an extra to it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shared.config import installation
from shared.config.installation import commit, install_command, version
from shared.config.packages import HALVES, PACKAGES, TESTED_CLAUDE, how_to_add, how_to_get_claude
from tests.shared.config.test_setup import EXTRAS
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


WHEEL = "file:///srv/a%20b/hcli_memory-1.0.0-py3-none-any.whl"
GIT = {"url": "https://example.org/x.git", "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "f"}}


@pytest.mark.parametrize(
    ("marker", "recorded", "command"),
    [
        ("", {"url": WHEEL}, "{}/bin/pip install '/srv/a b/hcli_memory-1.0.0-py3-none-any.whl[dask,day]'"),
        ("", {}, "{}/bin/pip install 'PATH_OF_THE_WHEEL.whl[dask,day]'"),
        ("uv-receipt.toml", {"url": WHEEL}, "uv tool install --force '/srv/a b/hcli_memory-1.0.0-py3-none-any.whl[dask,day]'"),
        ("pipx_metadata.json", GIT, "pipx install --force 'hcli-memory[dask,day] @ git+https://example.org/x.git@v1'"),
    ],
)  # fmt: skip
def test_the_command_that_adds_an_extra_is_that_of_the_installer(
    marker: str, recorded: dict[str, object], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never by a name in a registry, which is not ours."""
    monkeypatch.setattr(installation, "direct_url", lambda: recorded)
    (tmp_path / (marker or "nothing")).touch()
    assert install_command(["dask", "day"], tmp_path) == command.format(tmp_path)


def test_the_halves_are_those_of_the_project() -> None:
    for half, parts in HALVES.items():
        (named,) = EXTRAS[half]
        assert set(parts) == set(re.findall(r"[a-z]+", named.partition("[")[2]))


def test_what_a_wheel_lacks_is_named_as_the_half_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing: set[str] = set()
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else there("json"))
    assert "install the extra lancedb:" in how_to_add("lancedb", tmp_path, tmp_path), "in none of the halves"
    missing |= {"aiogram", "ollama", "chromadb"}
    assert "install the extra day:" in how_to_add("telegram", tmp_path, tmp_path)
    assert "install the extra night:" in how_to_add("ollama", tmp_path, tmp_path)
    assert "install the extra day or night:" in how_to_add("chroma", tmp_path, tmp_path)
    (tmp_path / installation.IMAGE_MARKER).touch()
    assert "HMEM_PARTS in deploy/.env" in how_to_add("chroma", tmp_path, tmp_path)
    assert "web" in PACKAGES
    assert how_to_get_claude(tmp_path) == f"npm install -g @anthropic-ai/claude-code@{TESTED_CLAUDE}"
    assert f"claude_version={TESTED_CLAUDE}\n" in (REPOSITORY / "scripts" / "setup").read_text()
