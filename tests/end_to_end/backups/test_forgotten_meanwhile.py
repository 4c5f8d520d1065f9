"""What is forgotten while a backup is made: its words are in that backup, and are not taken for gone."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.end_to_end.backups.hosts import BackedUp, backed_up, lived_in
from tests.end_to_end.backups.test_forgotten import WORDS, holding
from tests.support.machine import wait_for
from tests.support.world import BINARIES, World


@pytest.fixture
def kept(light: World, tmp_path: Path) -> BackedUp:
    light.say("c1", WORDS, chat_id="77", timestamp=1_707_400_000.0)
    lived_in(light)
    return backed_up(light, tmp_path)


@contextmanager
def waiting_at_restic(kept: BackedUp, folder: Path, command: str) -> Iterator[None]:
    """A backup that has brought everything together: its restic waits to read it until the end of this block."""
    go, there = folder / "go", folder / "there"
    folder.mkdir()
    program = folder / "restic"
    program.write_text(
        f'#!/bin/bash\nPATH=${{PATH#*:}}\nif [[ " $* " == *" backup "* ]]; then touch {there}; until [ -e {go} ]; do sleep 0.05; done; fi\n'
        'exec restic "$@"\n'
    )
    program.chmod(0o755)
    environment = kept.world.variables(**kept.variables())
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    environment["TZ"] = "America/New_York"  # restic reads a time as a local one
    with subprocess.Popen([str(BINARIES / command), "backup", str(kept.to), "--init"], env=environment) as process:
        wait_for(there.exists, "restic to be started")
        yield
        go.touch()
        assert process.wait() == 0


def forgotten(kept: BackedUp) -> list[str]:
    """Forget the chat; what its receipt says is pending."""
    done = kept.world.command("hmem", "forget", "--chat=77", "--yes", "--json", check=False)
    (receipt,) = json.loads(done.stdout)
    pending: list[str] = receipt["pending"]
    return pending


@pytest.mark.parametrize("first", [True, False])
def test_a_backup_that_is_made_meanwhile_is_pending_until_it_is_removed(
    kept: BackedUp, tmp_path: Path, first: bool
) -> None:
    if not first:
        kept.backup("--init")
    with waiting_at_restic(kept, tmp_path / "slow", "hmem"):
        pending = forgotten(kept)
        assert [str(kept.to) in sentence for sentence in pending] == [True]
    assert len(holding(kept, tmp_path / "before")) == (1 if first else 2)
    kept.backup("--forget-older")
    assert holding(kept, tmp_path / "after") == []
    assert kept.world.command("hmem", "forget", "--resume", "--yes", check=False).returncode == 0


def test_a_backup_of_the_archive_has_the_time_of_its_beginning(kept: BackedUp, tmp_path: Path) -> None:
    before = time.time()
    with waiting_at_restic(kept, tmp_path / "slow", "hmem-night"):
        staged = time.time()
    (one,) = json.loads(kept.restic("snapshots", "--json"))
    assert before <= datetime.fromisoformat(one["time"]).timestamp() <= staged
