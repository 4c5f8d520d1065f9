"""`scripts/setup` and what messages say about it: parts that are added stay, and .venv runs the code of this checkout, or is mended."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from shared.config.kinds import embedders, indexes
from shared.config.packages import PACKAGES, part_of
from tests.support.processes.hidden_packages import hide
from tests.support.world import REPOSITORY, World

EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
PARTS = set(EXTRAS) - {"day", "night", "dev"}


def set_up(*arguments: str, place: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [place / "scripts" / "setup", *arguments],
        env=variables, cwd="/", capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


# ── the names of parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong", [("--with", "chroma,nonsense"), ("--with",), ("--with", "*"), ("--with", "dev"), ("x",)]
)
def test_an_unknown_part_is_refused_with_the_list(wrong: tuple[str, ...]) -> None:
    done = set_up(*wrong)
    assert done.returncode == 2
    if wrong != ("x",):
        assert "Choose from: postgresql, lancedb, qdrant, fastembed, documents, transcribe, chroma" in done.stderr


def test_the_table_of_packages_is_that_of_the_project() -> None:
    assert set(PACKAGES) == PARTS
    assert {one.part for one in indexes().values()} - {None} | {one.part for one in embedders().values()} <= PARTS
    for part, packages in PACKAGES.items():
        assert len(EXTRAS[part]) == len(packages), part
    assert part_of("aiogram.types") == "telegram"
    assert part_of("dispatcher.nothing") is None
    assert {"chroma", "local"} <= set(re.findall(r"[\w-]+", EXTRAS["day"][0])) & set(
        re.findall(r"[\w-]+", EXTRAS["night"][0])
    )


def test_nothing_tells_anybody_to_install_a_name_that_is_not_ours() -> None:
    """`pip install hcli-memory` takes whatever stands under that name in the registry."""
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\n"):
        path = REPOSITORY / name
        if path.is_file() and path.suffix not in (".onnx", ".png") and name != "tests/shared/config/test_setup.py":
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not re.search(r"pip3? install[^\n]*hcli-memory|-c requirements\.lock", text), name


# ── .venv ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def a_checkout(place: Path) -> Path:
    """The program with a lock of three small packages: what builds it, one of the day and one of the part `fastembed`."""
    for name in ("dispatcher", "nightly", "shared", "scripts"):
        shutil.copytree(REPOSITORY / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "models"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, place)
    blocks = re.split(r"^# for: .*\n", (REPOSITORY / "requirements.lock").read_text(encoding="utf-8"), flags=re.M)
    wanted = {"setuptools": "build", "mdurl": "day night", "loguru": "fastembed"}
    lock = [
        f"# for: {why}\n{block}" for block in blocks for name, why in wanted.items() if block.startswith(f"{name}==")
    ]
    assert len(lock) == 3
    (place / "requirements.lock").write_text("".join(lock), encoding="utf-8")
    (place / "shared" / "embedding" / "local" / "multilingual.py").write_text(
        "", encoding="utf-8"
    )  # it needs what is not in this lock
    return place


def runs(place: Path, code: str) -> str:
    done = subprocess.run(
        [place / ".venv/bin/python", "-I", "-c", code], cwd="/", capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


WHERE = "import dispatcher, shared; print(dispatcher.__file__)"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_parts_stay_and_a_copy_in_the_place_of_the_checkout_is_noticed(tmp_path: Path) -> None:
    place = a_checkout(tmp_path / "checkout")
    ours = str(place / "dispatcher" / "__init__.py")

    first = set_up(place=place)
    assert (first.returncode, runs(place, WHERE)) == (0, ours), first.stderr
    assert "ModuleNotFoundError" in runs(place, "import loguru")
    assert "installing" not in set_up(place=place).stderr

    assert set_up("--with", "fastembed", place=place).returncode == 0
    (place / "pyproject.toml").write_text((place / "pyproject.toml").read_text() + "\n# changed\n")
    (place / ".venv" / ".locked").unlink()
    again = set_up(place=place)  # without --with
    assert "(day, fastembed, night)" in again.stderr
    assert runs(place, "import loguru; print('there')") == "there"

    pip = [str(place / ".venv/bin/python"), "-m", "pip", "--quiet"]
    by_hand = [*pip, "install", "--no-deps", "--no-build-isolation", "."]
    subprocess.run(by_hand, cwd=place, capture_output=True, check=True)
    assert "site-packages" in runs(place, WHERE), "a copy, which stays as it is for ever"
    mended = set_up(place=place)
    assert "it does not use this checkout's dispatcher (" in mended.stderr
    assert (mended.returncode, runs(place, WHERE)) == (0, ours)

    subprocess.run([*pip, "uninstall", "--yes", "mdurl"], cwd=place, capture_output=True, check=True)
    assert "mdurl is missing" in set_up(place=place).stderr
    assert runs(place, "import loguru; print('there')") == "there"


# ── a night without a library ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_night_asks_for_all_it_needs_before_it_begins(world: World) -> None:
    key = world.say("t1", "The boiler code is 4711.")
    hide(world, "chromadb", "lancedb", "onnxruntime")
    done = world.command("hmem-night", "run", check=False, NIGHT_INDEXES="sqlite,chroma,lancedb")
    assert done.returncode == 10
    for part, why in (
        ("local", "EMBEDDER=local"),
        ("chroma", "NIGHT_INDEXES=chroma"),
        ("lancedb", "NIGHT_INDEXES=lancedb"),
    ):
        assert f"{why} needs the Python package" in done.stderr
        assert f"run scripts/setup --with {part} in {REPOSITORY}" in done.stderr
    assert not (world.night_dir / "archive").exists()
    assert not list((world.night_dir / "nights").glob("[0-9]*"))
    assert world.redis.exists(key)
    assert "NIGHT_INDEXES=lancedb needs" in world.command("hmem", "status", check=False).stdout, "the day knows it, too"

    done = world.command(
        "hmem-night",
        "run",
        "--pull",
        check=False,
        NIGHT_INDEXES="chroma",
        EMBEDDER="ollama",
        OLLAMA_URL="http://127.0.0.1:1",
    )
    assert (done.returncode, "NIGHT_INDEXES=chroma needs" in done.stderr) == (10, True), "before anything is fetched"
    hide(world, "chromadb", "lancedb")
    assert "released" in world.command("hmem-night", "run").stdout, "sqlite needs nothing of it"
    assert "last failure" not in world.status().stdout
