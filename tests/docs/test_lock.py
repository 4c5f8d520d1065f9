"""requirements.lock: every package with its hashes, and for each extra the part that it needs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.world import REPOSITORY

LOCK = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


def locked(*extras: str) -> str:
    command = [str(REPOSITORY / "scripts" / "locked"), *extras]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def pins(text: str) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}


def test_every_package_of_the_lock_has_hashes_and_no_address() -> None:
    blocks = re.split(r"^# for: .*\n", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(pins(LOCK)) > 150
    for block in blocks:
        assert re.fullmatch(r"[\w.-]+==[^\\\n]+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", block), block[:100]
    assert "http" not in re.sub("httpx|httpcore|httptools|aiohttp", "", LOCK)


def wanted(need: Requirement, extras: set[str]) -> bool:
    return need.marker is None or any(need.marker.evaluate({"extra": one}) for one in ("", *extras))


@pytest.mark.parametrize("extra", ["day", "night", "dev", *sorted(PROJECT["project"]["optional-dependencies"])])
def test_a_part_of_the_lock_holds_all_that_its_extra_needs(extra: str) -> None:
    """As far as it is installed here: what each package asks for, and theirs."""
    part, open_ones, seen = pins(locked(extra)), [*PROJECT["project"]["dependencies"]], set[str]()
    open_ones += PROJECT["project"]["optional-dependencies"][extra]
    while open_ones:
        asked = Requirement(open_ones.pop())
        name = canonicalize_name(asked.name)
        if str(asked) in seen or not wanted(asked, asked.extras):
            continue
        seen.add(str(asked))
        if name == "hcli-memory":
            open_ones += [need for one in asked.extras for need in PROJECT["project"]["optional-dependencies"][one]]
            continue
        assert name in part, f"{extra} needs {asked}"
        assert asked.specifier.contains(part[name], prereleases=True), asked
        with suppress(PackageNotFoundError):
            open_ones += [need for need in requires(asked.name) or () if wanted(Requirement(need), asked.extras)]
    assert "setuptools" in part, "the project is built without fetching anything"


def test_a_part_of_the_lock_leaves_out_what_it_does_not_need() -> None:
    assert not {"pytest", "lancedb", "mypy"} & set(pins(locked("day", "night")))
    assert "aiogram" not in pins(locked("night"))
    assert "chromadb" in pins(locked("night"))
    assert "lancedb" in pins(locked("night,lancedb"))
    assert pins(locked("night,lancedb")) == pins(locked("night", "lancedb"))
    done = subprocess.run([REPOSITORY / "scripts" / "locked", "nite"], capture_output=True, text=True, check=False)
    assert (done.returncode, "has no extra nite" in done.stderr) == (2, True)
