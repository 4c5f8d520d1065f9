"""Who may read a release that was received: the group of the memory directory, or its owner alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shared.delivery.receiver import Receiver
from shared.delivery.takeover import take_over
from shared.release.manifest import Manifest, read_manifest, verify
from shared.system.files import PRIVATE
from tests.support.night.receiving import hash_of_manifest, receive
from tests.support.world import World


class AsUser:
    """Calls functions in processes of other users, whose imports are those of this one."""

    def __init__(self, uid: int, gid: int, *groups: int) -> None:
        self.uid, self.gid, self.groups = uid, gid, list(groups)

    def __call__(self, function: Callable[[], object]) -> str:
        """What it raised, or "done"."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups(self.groups)
                os.setgid(self.gid)
                os.setuid(self.uid)
                os.umask(0o022)
                function()
                os.write(writing, b"done")
            except BaseException as error:  # noqa: BLE001 - told to the parent
                os.write(writing, f"{type(error).__name__}: {error}".encode()[:4000])
            finally:
                os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as answer:
            return answer.read().decode()


NIGHT, DAY, STRANGER, GROUP = 54_001, 54_002, 54_003, 54_010


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that other users can reach: pytest's own cannot be."""
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming other users needs root")
@pytest.mark.parametrize(
    ("mode", "member", "readable"), [(0o2750, False, True), (0o750, False, False)]
)  # fmt: skip
def test_the_group_of_the_memory_directory_reads_releases_and_nobody_else(
    light: World, brought: Path, open_folder: Path, *, mode: int, member: bool, readable: bool
) -> None:
    """`member`: the night's user is in that group, so that it may give files to it where the directory does not do so by itself."""
    from shared.release.retention import read_pin, reading, write_pin
    from shared.system.files import modes_of

    memory, source = open_folder / "memory", open_folder / "brought"
    shutil.copytree(brought, source)
    memory.mkdir()
    os.chown(memory, NIGHT, GROUP)
    memory.chmod(mode)
    subprocess.run(["chown", "-R", f"{NIGHT}:{NIGHT}", str(source)], check=True)
    night, settings = AsUser(NIGHT, NIGHT, *([GROUP] if member else [])), light.settings()
    release = memory / "releases" / "1"

    def receive_it() -> None:
        Receiver(settings, memory).begin(1)
        (memory / "verifying").mkdir(mode=0o700, exist_ok=True)
        taken = memory / "verifying" / "1"
        taken.mkdir()
        take_over(source, taken, memory, hash_of_manifest(source), lambda _: None, modes_of(memory))
        taken.rename(release)
        write_pin(memory, 1)

    assert night(receive_it) == "done"
    kinds = {(path.is_dir(), path.stat().st_mode & 0o7777) for path in [release.parent, release, *release.rglob("*")]}
    assert kinds == ({(True, 0o750), (False, 0o640)} if readable else {(True, 0o700), (False, 0o600)})
    assert (memory / "incoming").stat().st_mode & 0o777 == 0o700

    def serve_it() -> None:
        with reading(release):
            assert verify(release).run == 1
            assert read_pin(memory) is not None

    day, stranger = AsUser(DAY, DAY, GROUP), AsUser(STRANGER, STRANGER)
    assert (day(serve_it) == "done") is readable
    for path in (release / "more", release.parent / "2", memory / "current"):
        assert day(path.touch).startswith("PermissionError")
    assert day(lambda: list((memory / "incoming").iterdir())).startswith("PermissionError")
    assert stranger(serve_it) != "done"


def test_a_private_memory_directory_has_private_releases(light: World, brought: Path, sound: Path) -> None:
    """Whatever modes were brought."""
    for path in [brought, *brought.rglob("*")]:
        path.chmod(0o777)
    brought.parent.parent.chmod(0o700)
    release = receive(light, brought)
    assert {path.stat().st_mode & 0o777 for path in [release, *release.rglob("*")]} == {0o700, 0o600}
    copied: Manifest = read_manifest(release)
    assert replace(copied, files={}) == replace(read_manifest(sound), files={})
    assert PRIVATE.file == 0o600
