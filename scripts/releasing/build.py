"""Wheel and source distribution, each the same bytes wherever and whenever they are built from a commit."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from scripts.releasing.source import ReleaseRefused, Source, fixed_modes

#: Environments of the two builds that are compared. Nothing of them may show in the files.
FIRST = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
SECOND = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "4711"}


def build_twice(source: Source, work: Path) -> tuple[Path, Path]:
    """(wheel, sdist). ReleaseRefused if a second build differs: in another directory and environment, and the wheel from the sdist."""
    first, second = work / "first", work / "a second place" / "of another length"
    wheel = built("wheel", source.export(first / "tree"), first / "made", source, FIRST)
    sdist = built("sdist", first / "tree", first / "made", source, FIRST)
    again = built("sdist", source.export(second / "tree"), second / "made", source, SECOND)
    _compare("source distribution", sdist, again)
    with tarfile.open(again) as files:
        files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 of Debian 12 has none
        files.extractall(second / "unpacked")
    (tree,) = (second / "unpacked").iterdir()
    fixed_modes(tree)
    _compare("wheel that the source distribution builds", wheel, built("wheel", tree, second / "made", source, SECOND))
    return wheel, sdist


def built(kind: str, tree: Path, into: Path, source: Source, environment: dict[str, str]) -> Path:
    """A `wheel` or `sdist`, made by pypa's build with the locked setuptools of this environment."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(into), str(tree)]
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_", "LANG"))}
    variables |= environment | {"SOURCE_DATE_EPOCH": str(source.seconds)}
    done = subprocess.run(
        command, cwd=tree, env=variables, umask=0o022, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        raise ReleaseRefused(f"The {kind} cannot be built:\n{done.stdout.decode('utf-8', 'replace')[-2000:]}")
    (made,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    if kind == "sdist":
        _pack_again(made, source.seconds)
    return made


def _pack_again(sdist: Path, seconds: int) -> None:
    """setuptools stores the times, owners and order of files as it finds them: all fixed here."""
    packed = io.BytesIO()
    with (
        tarfile.open(sdist) as old,
        gzip.GzipFile("", "wb", 9, packed, mtime=seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    sdist.write_bytes(packed.getvalue())


def _compare(what: str, one: Path, other: Path) -> None:
    if one.name != other.name or one.read_bytes() != other.read_bytes():
        raise ReleaseRefused(
            f"The {what} is not the same when it is built twice ({one} and {other}; keep them with --keep). "
            "Compare the two, for example with diffoscope, and remove what differs."
        )


def checksums(directory: Path) -> str:
    """What `sha256sum --check` reads, of every file in the directory."""
    files = sorted(path for path in directory.iterdir() if path.is_file())
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
