"""What `hmem doctor` finds of directories and disks.

How full a disk is, is a parameter (a really full one: test_broken_on_purpose.py). Root gives up its right to override
permissions where these are tested.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.health.findings import Fault, Finding
from tests.support.day.health import expect, looks
from tests.support.world import BINARIES, World, sign_of_life

NOBODY = 65534
AS_ROOT = os.geteuid() == 0


def denied(host: World, name: str, **more: str) -> tuple[int, Finding]:
    """What `hmem doctor` finds where permissions count: as root they do not, unless root gives up the right to override them."""
    override = "-dac_override,-dac_read_search"
    prefix = ["setpriv", f"--bounding-set={override}", f"--inh-caps={override}"] if AS_ROOT else []
    command = [*prefix, str(BINARIES / "hmem"), "doctor", "--json"]
    with sign_of_life(host.redis):
        done = subprocess.run(
            command, env=host.variables(**more), capture_output=True, text=True, timeout=600, check=False
        )
    assert done.stdout, done.stderr
    found = next(f for f in json.loads(done.stdout)["findings"] if f["name"] == name)
    return done.returncode, Finding(**found)


@contextmanager
def mode(path: Path, bits: int) -> Iterator[Path]:
    before = path.stat().st_mode & 0o777
    path.chmod(bits)
    yield path
    path.chmod(before)


@pytest.mark.slow
def test_a_directory_that_leads_elsewhere_or_that_others_may_write_to(host: World) -> None:
    assert looks(host, "directories").state == "ok"
    link = host.night_dir / "imports"
    link.symlink_to(host.root)
    expect(host, "directories", 15, f"{link} is a link to {host.root}", f"rm {link}")
    link.unlink()
    with mode(host.memory_dir, 0o770):
        why = f"{host.memory_dir} is writable by users other than its owner"
        expect(host, "directories", 15, why, f"chmod go-w {host.memory_dir}")


@pytest.mark.slow
def test_a_state_directory_that_may_not_be_written(host: World) -> None:
    state = host.root / "state"
    (state / "views").mkdir()
    with mode(state, 0o500):
        code, found = denied(host, "state")
        assert (code, found.code) == (Fault.STATE_DIRECTORY, Fault.STATE_DIRECTORY)
        assert re.search(f"{state} cannot be written by .*Permission denied.*so answers fail", found.sentence)
        assert "install -d" in found.fix
        below = denied(host, "state", HMEM_STATE_DIR=str(state / "below"))[1]
        assert "does not exist, and this user cannot create it" in below.sentence
    with mode(state / "views", 0o500):
        assert f"{state / 'views'} cannot be written" in denied(host, "state")[1].sentence


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a directory to somebody else")
def test_root_is_told_to_ask_as_the_owner(host: World) -> None:
    os.chown(host.root / "state", NOBODY, NOBODY)
    found = looks(host, "state")
    assert found.state == "warning"
    assert found.fix.startswith("Run it as that user: sudo -u ")


def test_how_full_a_disk_may_be(host: World) -> None:
    cases = [
        (1 << 29, 100 << 30, "problem", Fault.DISK_NEARLY_FULL),
        (4 << 30, 100 << 30, "warning", 0),  # under 5 %, but room for days
        (1 << 29, 2 << 30, "ok", 0),  # small, and a quarter of it is free
        (12 << 30, 100 << 30, "warning", 0),
        (20 << 30, 100 << 30, "ok", 0),
    ]
    for free, total, state, code in cases:
        fullest = SimpleNamespace(free=free, total=total)

        def usage(path: Path, fullest: Any = fullest) -> Any:
            return fullest if path == host.night_dir else SimpleNamespace(free=90, total=100)

        found = looks(host, "disk", disk_usage=usage)
        assert (found.state, found.code) == (state, code)
        if state != "ok":
            assert str(host.night_dir) in found.sentence, "the fullest is named"
            assert "Free some space" in found.fix
