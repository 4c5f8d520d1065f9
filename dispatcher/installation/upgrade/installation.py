"""How this program was installed, and the commands that install another version of it in the same place."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dispatcher.installation.run import LAST_CHARACTERS
from dispatcher.installation.upgrade.package import NAME, installed_version, parts_there
from dispatcher.installation.upgrade.versions import precedence, wheel_version
from shared.config.installation import IMAGE_MARKER
from shared.errors import UpgradeFailed
from shared.system.faults import crash_point
from shared.system.processes import run_bounded

Kind = Literal["checkout", "pipx", "uv tool", "venv"]
#: Seconds for one command; large packages over a slow network take long.
COMMAND_SECONDS = 3_600.0
_HOW: dict[Kind, str] = {"checkout": "as a checkout", "pipx": "by pipx", "uv tool": "as a uv tool", "venv": "by pip"}
#: Of what is installed: the program holds no secrets, and dispatcher, bot and night may be users of their own. (Ours is 077.)
UMASK = 0o022
#: Beginning of the branches with commits of a checkout that an upgrade did not bring.
ASIDE = "hmem-before-back-"
#: Beginnings of a git address.
_GIT = ("git+", "https://", "http://", "ssh://", "git@", "file://")


@dataclass(frozen=True)
class Installation:
    """`root`: the checkout, or the environment; `prefix`: the environment whose `bin` has the commands; `commit`: of a checkout; `installer`: what
    installs in an environment."""

    kind: Kind
    root: Path
    prefix: Path
    version: str
    commit: str | None = None
    installer: Literal["pip", "uv"] = "pip"

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    @property
    def hmem(self) -> Path:
        return self.prefix / "bin" / "hmem"

    @property
    def sentence(self) -> str:
        at = f", commit {self.commit[:12]}" if self.commit else ""
        return f"{NAME} {self.version}{at}, installed {_HOW[self.kind]} in {self.root}"

    def forward(self, target: str | None) -> list[list[str]]:
        """The commands that install `target`: a wheel, a git address, or for a checkout None (the branch that it follows)."""
        if self.kind == "checkout":
            get = [self._fetch(target), [*self._git, "merge", "--ff-only", "FETCH_HEAD"]]
            return [*(get if target else [[*self._git, "pull", "--ff-only"]]), self._setup]
        parts = f"[{','.join(parts)}]" if (parts := parts_there()) else ""
        return [[*self._pip_install, "--upgrade", f"{NAME}{parts} @ {_address(target or '')}"]]

    def back(self, commit: str | None, wheel: Path | None) -> list[list[str]]:
        """The commands that install what was there before."""
        if self.kind == "checkout":
            return [[*self._git, "reset", "--keep", str(commit)], self._setup]
        again = "--reinstall" if self.installer == "uv" else "--force-reinstall"
        return [[*self._pip_install, "--no-deps", again, str(wheel)]]

    def fetched(self) -> str | None:
        """Of a checkout: the commit that the last fetch was for."""
        return commit_of(self.root, "FETCH_HEAD") if self.kind == "checkout" else None

    def set_aside(self, known: tuple[str | None, ...]) -> str | None:
        """Of a checkout that is at none of these commits: a new branch that keeps what `back` would drop."""
        if self.kind != "checkout" or commit_of(self.root) in known:
            return None
        branch = time.strftime(f"{ASIDE}%Y%m%dT%H%M%S", time.gmtime())
        _carried_out([*self._git, "branch", branch])
        return branch

    def version_of(self, target: str | None) -> str | None:
        """The version that `target` is, as far as that is known before it is installed: by a wheel's name, or by what a checkout fetches for it."""
        if self.kind == "checkout":
            _carried_out(self._fetch(target))
            fetched = "FETCH_HEAD" if target else "@{upstream}"
            described = _carried_out([*self._git, "show", f"{fetched}:pyproject.toml"])
            return str(tomllib.loads(described)["project"]["version"])
        return wheel_version(Path(target)) if target and not target.startswith(_GIT) else None

    def _fetch(self, target: str | None) -> list[str]:
        """Without a target: what the branch follows."""
        address, _, reference = (target or "").partition("#")
        return [
            *self._git,
            "fetch",
            *([address.removeprefix("git+")] if address else []),
            *([reference] if reference else []),
        ]

    @property
    def _git(self) -> list[str]:
        """Without the clean-up that git leaves running in the background: it would keep our locks."""
        return ["git", "-c", "maintenance.auto=false", "-C", str(self.root)]

    @property
    def _setup(self) -> list[str]:
        return [str(self.root / "scripts" / "setup")]

    @property
    def _pip_install(self) -> list[str]:
        """In place, so that the environment is never gone: uv and pipx themselves would remove it first."""
        if self.installer == "uv":
            return ["uv", "pip", "install", "--python", str(self.python)]
        return [str(self.python), "-m", "pip", "--disable-pip-version-check", "install"]

    def refuse_target(self, target: str | None) -> None:
        """UpgradeFailed for a target that this kind of installation cannot take, or that is not newer."""
        if self.kind == "checkout":
            if target and not target.startswith(_GIT):
                raise UpgradeFailed(
                    f"This is a checkout in {self.root}, which takes a git address and no file. Run hmem upgrade without an argument."
                )
            return
        if self.installer == "uv" and not shutil.which("uv"):
            raise UpgradeFailed(
                f"The environment {self.prefix} has no pip, and uv is not on PATH, so nothing can be installed there. Add one of them "
                f"({self.python} -m ensurepip), then run hmem upgrade again."
            )
        if not target:
            raise UpgradeFailed(
                f"It is installed {_HOW[self.kind]}, so name what to install: hmem upgrade FILE.whl, or the git address."
            )
        if target.startswith(_GIT):
            return
        path = Path(target)
        if path.suffix != ".whl" or not path.is_file():
            raise UpgradeFailed(
                f"{target} is no wheel (a file that ends in .whl) and no git address. Name one of them."
            )
        found = wheel_version(path)
        if found is None or not path.name.startswith(NAME.replace("-", "_")):
            raise UpgradeFailed(f"{path.name} is not a wheel of {NAME}. Name one that is.")
        wanted, present = precedence(found), precedence(self.version)
        if wanted <= present:
            what = "is installed already" if wanted == present else f"is older than {self.version}, which is installed"
            raise UpgradeFailed(f"{NAME} {found} {what}. To go back to the version before, run hmem upgrade --back.")


def find_installation(code: Path, prefix: Path | None = None) -> Installation:
    """`code`: the folder that the packages are in; UpgradeFailed if it is none that can be upgraded from inside."""
    prefix = prefix or Path(sys.prefix)
    # An image has an environment, too, but what is installed there is gone with the container.
    if (prefix / IMAGE_MARKER).is_file():
        raise UpgradeFailed(
            f"{NAME} runs in a container here, and an upgrade inside would be lost with it. Build the newer image and start that (deploy/README.md, "
            "under Upgrades)."
        )
    if (code / ".git").exists() and (code / "scripts" / "setup").is_file():
        return Installation("checkout", code, prefix, installed_version(), commit_of(code))
    if not (prefix / "pyvenv.cfg").is_file():
        raise UpgradeFailed(
            f"{NAME} lies in {code}, which is neither a checkout with scripts/setup nor an environment of its own (pipx, uv tool, venv). Install it "
            "anew (docs/install.md)."
        )
    kind: Kind = "venv"
    if (prefix / "pipx_metadata.json").is_file():
        kind = "pipx"
    elif (prefix / "uv-receipt.toml").is_file():
        kind = "uv tool"
    installer: Literal["pip", "uv"] = "pip" if importlib.util.find_spec("pip") else "uv"
    return Installation(kind, prefix, prefix, installed_version(), installer=installer)


def commit_of(root: Path, name: str = "HEAD") -> str:
    """UpgradeFailed if git does not say."""
    return _carried_out(["git", "-C", str(root), "rev-parse", name]).strip()


def carry_out(commands: list[list[str]], fault: str, locks: tuple[int, ...] = ()) -> Iterator[str]:
    """Run them one after the other; yields each as text before it runs. UpgradeFailed with the last words of the first that fails.

    `fault`: a crash point between two of them; `locks`: descriptors of locks that last as long as each of them runs, even if we are killed.
    """
    for number, command in enumerate(commands):
        if number:
            crash_point(fault)
        yield shlex.join(command)
        _carried_out(command, locks)


def _carried_out(command: list[str], locks: tuple[int, ...] = ()) -> str:
    if not shutil.which(command[0]):
        raise UpgradeFailed(
            f"{command[0]} is not installed or not on PATH. Install it, or add it to PATH, then run hmem upgrade again."
        )
    try:
        done = run_bounded(command, COMMAND_SECONDS, descriptors=locks, umask=UMASK)
    except subprocess.TimeoutExpired as error:
        raise UpgradeFailed(
            f"{shlex.join(command)} did not end within {COMMAND_SECONDS / 60:g} minutes. Check the network."
        ) from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout or "").split())[-LAST_CHARACTERS:] or f"exit {done.returncode}"
        raise UpgradeFailed(f"{shlex.join(command)} failed: {said.rstrip('.')}.")
    return done.stdout


def _address(target: str) -> str:
    """As a requirement names it."""
    if target.startswith(_GIT):
        return target if target.startswith(("git+", "file://")) else f"git+{target}"
    return Path(target).resolve().as_uri()
