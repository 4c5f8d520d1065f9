"""`scripts/release`: what may be released, and that a release is complete and the same wherever it is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.releasing.build import FIRST, built
from scripts.releasing.source import ReleaseRefused, released_source
from tests.support.world import REPOSITORY

GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")


def git(place: Path, *arguments: str) -> str:
    done = subprocess.run([*GIT, "-C", str(place), *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def tracked() -> list[str]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    return [name for name in names.split("\0") if name and (REPOSITORY / name).is_file()]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This working tree as it is now, as the only commit of another repository."""
    place = tmp_path_factory.mktemp("repository") / "here"
    for name in tracked():
        if name.split("/")[0] not in ("tests", "docs"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, place / name)
    git(place, "init", "-q")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "everything")
    return place


# ── what may be released ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\nabout 1.2.3\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_a_version_without_its_section_in_the_changelog_is_refused(small: Path) -> None:
    with pytest.raises(ReleaseRefused, match=r"no section '## \[1\.2\.3\]'"):
        released_source(small, allow_unreleased=False)
    source = released_source(small, allow_unreleased=True)
    assert (source.version, source.commit) == ("1.2.3", git(small, "rev-parse", "HEAD").strip())
    (small / "CHANGELOG.md").write_text("# Changelog\n\n## [1.2.3] - 2026-01-01\n")
    git(small, "commit", "-qam", "two")
    assert released_source(small, allow_unreleased=False).commit != source.commit


@pytest.mark.parametrize("change", ["changed", "new"])
def test_what_is_in_no_commit_is_refused(small: Path, change: str) -> None:
    (small / ("CHANGELOG.md" if change == "changed" else "new.py")).write_text("x")
    with pytest.raises(ReleaseRefused, match="in no commit"):
        released_source(small, allow_unreleased=True)


# ── what is in it ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_wheel_has_every_file_of_the_packages(repository: Path, tmp_path: Path) -> None:
    """Models, templates, scripts of Redis and of the page, licences: all that Git has, and nothing else."""
    source = released_source(repository, allow_unreleased=True)
    wheel = built("wheel", source.export(tmp_path / "tree"), tmp_path / "made", source, FIRST)
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
        assert file.read("shared/config/commit.txt").decode().strip() == source.commit
        metadata = next(name for name in file.namelist() if name.endswith("/METADATA"))
        assert "Provides-Extra: day\n" in file.read(metadata).decode()
        assert any(name.endswith("licenses/LICENSE") for name in file.namelist())
    shipped = {name for name in tracked() if name.split("/")[0] in ("dispatcher", "nightly", "shared")}
    assert names == {name for name in shipped if "/tests/" not in name}


# ── the same wherever it is built ────────────────────────────────────────────────────────────────────────────────────


def release(place: Path, into: Path, umask: int, more: Sequence[tuple[str, str]]) -> dict[str, bytes]:
    into.mkdir()
    (into / "hcli_memory-0.0.1-py3-none-any.whl").touch()  # of an earlier release
    (into / "notes.json").write_text("{}")
    variables = os.environ | {"PYTHONPATH": str(place)} | dict(more)
    command = [sys.executable, "-m", "scripts.releasing.main", "--allow-unreleased", "--no-trial", "--into", str(into)]
    done = subprocess.run(command, cwd=place, env=variables, umask=umask, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (into / "notes.json").unlink()
    return {path.name: path.read_bytes() for path in into.iterdir()}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_release_is_complete_and_its_wheel_the_same_wherever_it_is_built(repository: Path, tmp_path: Path) -> None:
    """It builds everything twice itself, in another place, time zone and locale, and compares."""
    other = tmp_path / "another place" / "with a longer name"
    subprocess.run([*GIT, "clone", "-q", str(repository), str(other)], check=True)
    first = release(other, tmp_path / "one", 0o077, [("TZ", "America/St_Johns"), ("LC_ALL", "POSIX")])
    source = released_source(repository, allow_unreleased=True)
    wheel = built("wheel", source.export(tmp_path / "tree"), tmp_path / "made", source, FIRST)
    assert first[wheel.name] == wheel.read_bytes()
    version = next(name for name in first if name.endswith(".whl")).split("-")[1]
    assert set(first) == {
        f"hcli_memory-{version}-py3-none-any.whl", f"hcli_memory-{version}.tar.gz", f"hcli-memory-{version}.cdx.json",
        "day.lock", "night.lock", "day+night.lock", "SHA256SUMS",
    }  # fmt: skip
    assert len(first["SHA256SUMS"].splitlines()) == len(first) - 1
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / "one", check=True)
    with tarfile.open(tmp_path / "one" / f"hcli_memory-{version}.tar.gz") as file:
        assert {(one.uid, one.gid, one.uname, one.gname) for one in file.getmembers()} == {(0, 0, "", "")}
        assert not [one.name for one in file.getmembers() if one.name.split("/")[1:2] in (["tests"], ["deploy"])]
