"""A journal on another host that this host did not send last: after a disk was put back, and where two hosts have the same JOURNAL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.look import task_entry
from dispatcher.second_copy.place import prepare
from dispatcher.second_copy.service import SecondCopy
from shared.config.settings import Settings
from shared.delivery.journal.files import last_number
from shared.delivery.journal.state import QUEUED, read_journal
from tests.dispatcher.second_copy.conftest import LossyHost
from tests.support.machine import wait_for


@dataclass
class OtherHost:
    """`folder` is over there; it cannot be reached while `away` exists. Instead of ssh a script carries rsync there."""

    folder: Path
    away: Path

    def turns(self) -> set[str]:
        return set(read_journal(self.folder).turns)

    def has(self, host: LossyHost, task: str) -> None:
        """Wait until it has the answer of a task, and all else."""
        wait_for(lambda: host.redis.exists(f"hcli:mem:done:{task}"), "the answer")
        wait_for(lambda: f"hcli:memory:{task}:asst" in self.turns(), "the transfer")
        wait_for(lambda: host.reported()["entries"] == 0, "nothing to be left")


@pytest.fixture
def other(host: LossyHost, tmp_path: Path) -> OtherHost:
    made = OtherHost(tmp_path / "over-there", tmp_path / "away")
    made.folder.mkdir()
    carry = tmp_path / "carry"
    carry.write_text(f'#!/bin/sh\n[ -e {made.away} ] && exit 255\nshift\nexec "$@"\n')
    carry.chmod(0o755)
    host.world.environment |= {"JOURNAL": f"there:{made.folder}", "JOURNAL_SSH": str(carry)}
    return made


# Without a dispatcher.


def grown(settings: Settings, *tasks: str) -> Path:
    """The spool with a waiting task more for each name."""
    journal = prepare(settings)
    for task in tasks:
        journal.append([task_entry(task, "9912", QUEUED, raw="{}")])
    return journal.folder


def test_a_transfer_leaves_alone_the_state_that_a_look_goes_through(host: LossyHost, other: OtherHost) -> None:
    settings = host.world.settings()
    folder = grown(settings, "a", "b")
    copy = SecondCopy(settings, "w", list, lambda _: None, lambda: None)
    copy._journal = prepare(settings)
    seen = iter(copy._journal.refresh().tasks.items())
    next(seen)
    DayJournal(folder).append([task_entry("c", "9912", QUEUED, raw="{}")])
    copy._transfer()
    assert [name for name, _ in seen] == ["b"]
    assert set(read_journal(other.folder).tasks) == {"a", "b", "c"}


def test_the_last_number_is_found_behind_a_long_line_and_a_torn_one(tmp_path: Path) -> None:
    journal = DayJournal(tmp_path)
    journal.create()
    assert last_number(tmp_path) == 0
    journal.append([task_entry("a", None, QUEUED, raw="{}"), task_entry("b", None, QUEUED, raw="x" * 200_000)])
    assert last_number(tmp_path) == 2
    with next(tmp_path.glob("day-*")).open("ab") as handle:
        handle.write(b"0123abcd {torn")
    assert last_number(tmp_path) == 2
    for path in tmp_path.glob("day-*"):
        path.unlink()
    (tmp_path / "day-000000000009.jsonl").touch()
    assert last_number(tmp_path) == 8
