"""Real installations that tests upgrade: environments with a wheel of this program, and checkouts; their dependencies are those of the tests."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.support.world import REPOSITORY, World

PACKAGES = ("dispatcher", "nightly", "shared")
OLD, NEW = "0.1.0", "0.2.0"
#: What a version 0.2.0 changes, by the file that it replaces or adds.
BROKEN = {"dispatcher/cli/main.py": 'raise RuntimeError("this version does not start")\n'}
_TABLES = (REPOSITORY / "dispatcher/memory/store/tables.py").read_text(encoding="utf-8")
RAISED = {
    "dispatcher/memory/store/tables.py": _TABLES.replace(
        'REVISIONS = ("0001", "0002", "0003", "0004")', 'REVISIONS = ("0001", "0002", "0003", "0004", "0005")'
    ),
    "dispatcher/memory/store/migrations/versions/r0005_fifth.py": (
        'import sqlalchemy as sa\nfrom alembic import op\n\nrevision, down_revision = "0005", "0004"\n\n\n'
        'def upgrade() -> None:\n    op.add_column("chats", sa.Column("colour", sa.Text))\n'
    ),
}
_SCRIPT = "#!{python}\nimport sys\nfrom {module} import main\nsys.exit(main())\n"


def make_wheel(folder: Path, version: str, changes: Mapping[str, str] = {}) -> Path:
    """A wheel of the program as it is in this repository, under another version and with these files changed. Without the embedding model."""
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    names = {
        name for name in listed.stdout.split() if not name.startswith("shared/models/") and (REPOSITORY / name).exists()
    }
    content = {name: (REPOSITORY / name).read_bytes() for name in names} | {
        name: text.encode() for name, text in changes.items()
    }
    installed = sysconfig.get_path("purelib")  # no hcli_memory.egg-info, which a build leaves in the checkout
    info, (ours,) = f"hcli_memory-{version}.dist-info", distributions(name="hcli-memory", path=[installed])
    metadata = re.sub(r"(?m)^Version: .*$", f"Version: {version}", str(ours.read_text("METADATA")), count=1)
    content |= {
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": str(ours.read_text("entry_points.txt")).encode(),
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"hcli_memory-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in content.items():
            packed.writestr(name, data)
        record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in content.items())
        packed.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@dataclass
class Installed:
    """An installation with its own `hmem`, in the world whose settings it has."""

    world: World
    prefix: Path

    @property
    def hmem(self) -> Path:
        return self.prefix / "bin" / "hmem"

    def command(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run its hmem to the end."""
        return subprocess.run(
            [str(self.hmem), *arguments], env=self.world.variables(PIP_NO_INDEX="1", **more), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=300, check=False, cwd=self.world.root,
        )  # fmt: skip

    @property
    def version(self) -> str:
        code = "from importlib.metadata import version; print(version('hcli-memory'))"
        return subprocess.run(
            [str(self.prefix / "bin/python"), "-I", "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()

    def memories(self) -> str:
        done = self.command("memory", "list", "9912")
        assert done.returncode == 0, done.stderr
        return done.stdout


def environment(prefix: Path) -> Path:
    """An empty environment that finds the packages of the tests, pip among them; where its own packages lie."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    packages = prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return packages


def in_an_environment(world: World, wheel: Path) -> Installed:
    """Installed by pip in an environment of its own."""
    environment(world.root / "venv")
    made = Installed(world, world.root / "venv")
    command = [
        str(made.prefix / "bin/python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
        str(wheel),
    ]
    subprocess.run(command, check=True, env={"PATH": os.environ["PATH"]}, capture_output=True)
    return made


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def in_a_checkout(world: World) -> tuple[Installed, Path]:
    """A checkout of a repository with the program and a scripts/setup that notes its runs; also the repository."""
    origin, checkout = world.root / "origin", world.root / "checkout"
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if not name.startswith("shared/models/") and (REPOSITORY / name).exists():
            (origin / name).parent.mkdir(parents=True, exist_ok=True)
            (origin / name).write_bytes((REPOSITORY / name).read_bytes())
    (origin / "scripts").mkdir()
    (origin / "scripts/setup").write_text('#!/bin/sh\ncd "$(dirname "$0")/.." && git rev-parse HEAD >> .venv/setups\n')
    (origin / "scripts/setup").chmod(0o755)
    (origin / ".gitignore").write_text(".venv\n__pycache__\n")
    git(origin, "init", "--quiet", "--initial-branch=main")
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "--message=first")
    git(world.root, "clone", "--quiet", str(origin), str(checkout))
    packages = environment(checkout / ".venv")
    (packages / "checkout.pth").write_text(f"{checkout}\n")
    script = checkout / ".venv/bin/hmem"
    script.write_text(_SCRIPT.format(python=checkout / ".venv/bin/python", module="dispatcher.cli.main"))
    script.chmod(0o755)
    return Installed(world, checkout / ".venv"), origin


def change(origin: Path, changes: Mapping[str, str]) -> str:
    """A new commit with these files; its hash."""
    for name, text in changes.items():
        (origin / name).write_text(text)
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "--message=second")
    return git(origin, "rev-parse", "HEAD")


def upgrades(world: World) -> list[Path]:
    return sorted(path for path in (world.root / "state/upgrades").iterdir() if path.is_dir())


def points(quick: str, *others: str) -> list[object]:
    """Crash points; those that take the same way as the first are slow tests."""
    return [quick, *(pytest.param(one, marks=pytest.mark.slow) for one in others)]
