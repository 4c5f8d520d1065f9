"""What `hmem doctor` finds of directories and disks.

How full a disk is, is a parameter (a really full one: test_broken_on_purpose.py). Root gives up its right to override
permissions where these are tested.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.health.findings import Fault
from tests.support.day.health import looks
from tests.support.world import World

NOBODY = 65534
AS_ROOT = os.geteuid() == 0


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
        fullest = SimpleNamespace(free=free, used=total - free)

        def usage(path: Path, fullest: Any = fullest) -> Any:
            return fullest if path == host.night_dir else SimpleNamespace(free=90, used=10)

        found = looks(host, "disk", disk_usage=usage)
        assert (found.state, found.code) == (state, code)
        if state != "ok":
            assert str(host.night_dir) in found.sentence, "the fullest is named"
            assert "Free some space" in found.fix


def test_redis_is_open_only_if_it_answers_without_a_password(host: World) -> None:
    assert "Redis requires no password" in looks(host, "isolation").sentence
    host.redis.config_set("requirepass", "secret")
    try:
        assert "Redis requires no password" not in looks(host, "isolation").sentence
    finally:
        host.redis.config_set("requirepass", "")
