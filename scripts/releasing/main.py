"""Builds and checks a release of the commit that is checked out, into dist/: wheel, source distribution, locks, bill of materials, checksums.

    scripts/release [--allow-unreleased] [--no-trial] [--into DIRECTORY]

The wheel and the source distribution are built twice and must be the same bytes; then the wheel is installed into a new environment with
the locked packages, where a day and a night must work.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.releasing.build import build_twice, checksums
from scripts.releasing.sbom import bill_of_materials
from scripts.releasing.source import ReleaseRefused, Source, released_source
from scripts.releasing.trial import try_release

ROOT = Path(__file__).resolve().parents[2]
#: The locks beside the wheel: the extras of each.
LOCKS = {"day+night.lock": ["day", "night"], "day.lock": ["day"], "night.lock": ["night"]}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "scripts/release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--allow-unreleased", action="store_true", help="build although CHANGELOG.md does not name the version"
    )
    parser.add_argument(
        "--no-trial", action="store_true", help="do not install the wheel (which needs the package index)"
    )
    parser.add_argument(
        "--into", type=Path, default=ROOT / "dist", help="instead of dist/; an earlier release in it is replaced"
    )
    parser.add_argument("--keep", action="store_true", help="keep the working directory, and print its name")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    os.environ.pop("PYTHONPATH", None)  # the trial must not find the checkout
    work = Path(tempfile.mkdtemp(prefix="hmem-release-"))
    try:
        source = released_source(ROOT, allow_unreleased=options.allow_unreleased)
        made = make(source, work, trial=not options.no_trial)
        put(made, options.into)
    except ReleaseRefused as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    finally:
        if options.keep:
            print(f"release: kept {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)
    return 0


def make(source: Source, work: Path, *, trial: bool) -> Path:
    """All files of the release, in a directory of their own."""
    say(f"{source.version} of commit {source.commit[:12]}")
    wheel, sdist = build_twice(source, work)
    say("wheel and source distribution: twice the same")
    made = work / "dist"
    made.mkdir()
    tree = work / "first" / "tree"
    for path in (wheel, sdist):
        shutil.copy(path, made)
    for name, extras in LOCKS.items():
        (made / name).write_bytes(subprocess.run([tree / "scripts" / "locked", *extras], stdout=-1, check=True).stdout)
    bill = bill_of_materials(source, tree, made / "day+night.lock")
    (made / f"hcli-memory-{source.version}.cdx.json").write_text(bill, encoding="utf-8")
    if trial:
        for line in try_release(source, made / wheel.name, made / "day+night.lock", work):
            say(line)
    (made / "SHA256SUMS").write_text(checksums(made), encoding="utf-8")
    return made


def put(made: Path, into: Path) -> None:
    """Files of an earlier release go, so that the directory holds one."""
    into.mkdir(parents=True, exist_ok=True)
    for old in into.iterdir():
        if old.name in (*LOCKS, "SHA256SUMS") or re.fullmatch(r"hcli[_-]memory-.+\.(whl|tar\.gz|cdx\.json)", old.name):
            old.unlink()
    for path in sorted(made.iterdir()):
        shutil.copyfile(path, into / path.name)
        say(f"{into / path.name} ({path.stat().st_size / 1024:.0f} KiB)")


def say(line: str) -> None:
    print(f"release: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
