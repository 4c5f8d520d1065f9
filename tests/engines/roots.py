"""Debian roots for the engines, made with this host's own apt mirror, certificates and installers' settings, and kept between runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.world import REPOSITORY

SUITE = "bookworm"
#: What `apt-get indextargets` says of each list of packages.
TARGET = "$(ORIGIN) $(COMPONENT) $(REPO_URI)"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
#: Settings of this host's installers, for root and for everybody.
SETTINGS = ("etc/pip.conf", "root/.config/pip/pip.conf", "etc/npmrc", "root/.npmrc")


def cache() -> Path:
    """Where roots and downloads are kept."""
    made = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hmem-engines"
    made.mkdir(parents=True, exist_ok=True)
    return made


def fault_of_host(*programs: str) -> str:
    """Why no engine can run here, in a sentence; "" if one can."""
    if os.geteuid() != 0:
        return "Engines are run by root: sudo scripts/test --engines."
    if missing := [name for name in programs if shutil.which(name) is None]:
        return f"{', '.join(missing)} cannot be found here: scripts/test --engines installs what apt has."
    if not any(Path("/sys/fs/cgroup", name).exists() for name in ("systemd", "cgroup.controllers")):
        return "This host has no cgroups that systemd could use."
    if subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False).returncode != 0:
        return "Here root may not make namespaces for mounts and a network."
    if not (mirror := _mirror()):
        return "apt names no mirror of Debian here."
    release = f"{mirror.rstrip('/')}/dists/{SUITE}/InRelease"
    asked = ["/usr/lib/apt/apt-helper", "download-file", release, str(cache() / "InRelease")]
    if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
        return "apt's mirror of Debian does not answer."
    return ""


def _mirror() -> str:
    """Where this host gets Debian itself; "" where it does not."""
    asked = ["apt-get", "indextargets", "--format", TARGET, "Created-By: Packages"]
    lines = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    found = [line.split() for line in lines if line.startswith("Debian main ")]
    return next((url for _, _, url in found if "-security" not in url), "")


@contextmanager
def alone() -> Iterator[None]:
    """While no other run of these tests is on this host: they share the cache, and the cgroups."""
    with Path("/run/hmem-engines.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kept(name: str, made_of: Sequence[str], make: Callable[[Path], None]) -> Path:
    """The directory that `make` fills: that of an earlier run if it was made of the same, and of the same Debian."""
    digest = hashlib.sha256("\0".join([SUITE, *made_of]).encode()).hexdigest()[:16]
    place = cache() / f"{name}-{digest}"
    if not place.exists():
        for old in cache().glob(f"{name}-*"):
            shutil.rmtree(old)
        unfinished = place.with_name(f"{name}-unfinished")
        make(unfinished)
        unfinished.rename(place)
    return place


def debian(root: Path, packages: Sequence[str]) -> None:
    """A new Debian that downloads as this host does."""
    debs = cache() / "debs"
    debs.mkdir(exist_ok=True)
    options = ["--variant=minbase", f"--cache-dir={debs}", f"--include={','.join(['ca-certificates', *packages])}"]
    # Its mounts go with it, also if it is killed.
    checked(["unshare", "--mount", "debootstrap", *options, SUITE, str(root), _mirror()])
    own = Path("/usr/local/share/ca-certificates")
    shutil.copytree(own, root / own.relative_to("/"), dirs_exist_ok=True)
    checked(["chroot", str(root), "update-ca-certificates"])
    for name in SETTINGS:
        if Path("/", name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path("/", name), root / name)
    how_to_get = checked(["apt-config", "dump", "Acquire"])
    (root / "etc/apt/apt.conf.d/00host").write_text(how_to_get)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")


def check_out(root: Path) -> None:
    """The newest commit of this checkout, in a checkout below the root that may have another."""
    target = root / "opt/hcli-memory"
    target.mkdir(parents=True, exist_ok=True)
    git = ["git", "-C", str(target)]
    checked([*git, "init", "-q"])
    checked([*git, "fetch", "-q", "--depth=1", f"file://{REPOSITORY}", "HEAD"])
    checked([*git, "reset", "-q", "--hard", "FETCH_HEAD"])


def checked(command: Sequence[str], timeout: float = 1200.0) -> str:
    """What the command says; AssertionError with the end of it if it fails."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout
