"""Root's commands in directories of the services: what a link there leads to they neither empty, make, read nor give away."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.system.owner_key import TRUSTED, _publish_to_the_night
from tests.support.machine import wait_for
from tests.support.processes.as_user import command
from tests.support.users import DAY, NIGHT, Installation
from tests.support.world import BINARIES, REPOSITORY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="starting processes as other users needs root")
FORGET = ("forget", "--matching", "quagga-lantern", "--yes", "--later")
PUBLIC = "ab" * 32


@pytest.fixture
def spoken(here: Installation) -> Installation:
    here.say("t1", "The word for the boiler is quagga-lantern.")
    here.as_root(str(BINARIES / "hmem"), "owner-key")
    return here


def as_service(uid: int, script: str) -> None:
    subprocess.run(command(uid, (uid,), "/bin/sh", "-c", script), cwd=REPOSITORY, check=True)


def roots_file(world: Installation) -> Path:
    """In a directory that only root enters."""
    path = world.root / "roots-home" / "precious"
    path.write_text("precious")
    path.chmod(0o600)
    return path


def test_forgetting_as_root_follows_no_link_of_the_dispatcher(spoken: Installation) -> None:
    """Nor, of the files that are opened as it locks one, does it make what a link leads to: test_our_own_files_are_plain_ones."""
    target = roots_file(spoken)
    for name in ("forgotten.jsonl", "day-store.sqlite"):
        place = spoken.root / "state" / name
        as_service(DAY, f"mkdir -p -m 700 {place.parent} && rm -f {place} && ln -s {target} {place}")
        done = spoken.as_root(str(BINARIES / "hmem"), *FORGET, check=False)
        assert done.returncode in (15, 27), done.stdout + done.stderr
        assert f"{place} is a link" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert (target.read_text(), target.stat().st_uid) == ("precious", 0)
        place.unlink()
    done = spoken.as_root(str(BINARIES / "hmem"), *FORGET, check=False)
    assert (done.returncode, "complete." in done.stdout) == (0, True), done.stderr


def test_forgetting_as_root_has_no_right_over_files_that_the_dispatcher_has_not(here: Installation) -> None:
    """Whatever it opens: between changes of user it can start others as themselves, and nothing else."""
    script = (
        "import sys; from pathlib import Path; from shared.system import privileges as p\n"
        "state, night, secret = map(Path, sys.argv[1:])\n"
        "p.act_as_owner_of(state, spanning=(night,))\n"
        "def tried(path):\n"
        "    try: return path.read_text()\n"
        "    except OSError as error: return type(error).__name__\n"
        "print(tried(secret), tried(night / 'file'))\n"
        "with p.as_owner_of(night): print(tried(secret), tried(night / 'file'))\n"
        "print(tried(secret), tried(night / 'file'))\n"
        "print(next(line for line in open('/proc/self/status') if line.startswith('CapEff')).split()[1])\n"
    )
    (here.root / "night" / "file").write_text("the night's")
    os.chown(here.root / "night" / "file", NIGHT, NIGHT)
    (here.root / "night" / "file").chmod(0o600)
    words = [str(here.root / "state"), str(here.root / "night"), str(roots_file(here))]
    done = here.as_root(sys.executable, "-c", script, *words)
    closed = "PermissionError PermissionError"
    assert done.stdout.splitlines() == [closed, "PermissionError the night's", closed, f"{1 << 6 | 1 << 7:016x}"]


@contextmanager
def swapping(place: Path, target: Path) -> Iterator[None]:
    """The night's user, who puts a link in the place of a file as soon as it is there."""
    script = (
        "import os, sys\nplace, target = sys.argv[1:]\nprint('', flush=True)\n"
        "while True:\n"
        "    try:\n"
        "        if not os.path.islink(place): os.symlink(target, place + '~'); os.replace(place + '~', place)\n"
        "    except OSError: pass\n"
    )
    words = command(NIGHT, (NIGHT,), sys.executable, "-c", script, str(place), str(target))
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def test_the_owners_key_gives_no_file_of_roots_to_the_night(here: Installation) -> None:
    target, night = roots_file(here), here.root / "night"
    (here.root / "roots-home").chmod(0o711)
    with swapping(night / TRUSTED, target):
        for _ in range(100):
            _publish_to_the_night(night, PUBLIC)
        wait_for((night / TRUSTED).is_symlink, "the link")
    found = target.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode), target.read_text()) == (0, 0o600, "precious")


@pytest.mark.slow
def test_owner_key_leaves_a_file_of_the_nights_and_reads_no_link(here: Installation) -> None:
    night, hmem = here.root / "night", str(BINARIES / "hmem")
    target = roots_file(here)
    target.write_text(PUBLIC)
    (night / TRUSTED).symlink_to(target)
    done = here.as_root(hmem, "owner-key", check=False)
    assert (done.returncode, f"{night / TRUSTED} is not a public key" in done.stderr) == (10, True)
    (night / TRUSTED).unlink()
    here.as_root(hmem, "owner-key")
    found = (night / TRUSTED).stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (NIGHT, NIGHT, 0o644)
    assert here.foreign_files() == []


@pytest.mark.slow
def test_a_night_behind_a_closed_directory_and_a_pin_are_reached_as_the_night(here: Installation) -> None:
    """What is found there was noted while the command was root's."""
    shutil.rmtree(here.root / "night")
    closed = here.root / "of-the-night"
    (closed / "night").mkdir(parents=True)
    for path in (closed, closed / "night"):
        os.chown(path, NIGHT, NIGHT)
        path.chmod(0o700)
    here.environment = {"HMEM_NIGHT_DIR": str(closed / "night")}
    hmem = str(BINARIES / "hmem")
    here.as_root(hmem, "owner-key")
    for number in (1, 2):
        here.say(f"t{number}", f"The word for the boiler is quagga-lantern {number}.")
        here.night_by_root()
    here.as_root(hmem, "release", "rollback", "--yes")
    assert "complete" in here.as_root(hmem, *FORGET[:-1]).stdout
    assert not [path for path in here.root.rglob("*") if path.is_file() and b"quagga-lantern" in path.read_bytes()]
    assert {path.stat().st_uid for path in closed.rglob("*")} == {NIGHT}
