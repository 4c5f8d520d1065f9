"""Everything of tests/support/broken/faults.py, really broken: doctor, status and chat name the fault and what to do; and what is sound is green."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dispatcher.health.doctor import every_check
from tests.support.broken.breaking import Unmakeable
from tests.support.broken.faults import FAULTS, Answer, Fault
from tests.support.broken.installation import (
    ANSWER,
    PATIENCE,
    Installation,
    Said,
    after_nights,
    empty_installation,
    installation,
)  # fmt: skip
from tests.support.machine import script, wait_for

WORDS = re.IGNORECASE | re.DOTALL
#: Not in the system's temporary directory: our directories in there are a finding of their own.
PLACE = "/var/tmp"


@dataclass(frozen=True)
class Outcome:
    """What was said. `findings`: what `hmem doctor --json` tells."""

    doctor: int
    findings: list[dict[str, Any]]
    status: Said
    chat: Said
    command: Said | None = None

    @property
    def problems(self) -> list[dict[str, Any]]:
        return [one for one in self.findings if one["state"] == "problem"]


def outcome(fault: Fault, host: Installation) -> Outcome:
    """Break it and ask everybody; Unmakeable where that cannot be done here."""
    if fault.start == "before" and not host.start():
        raise RuntimeError((host.root / "dispatcher.log").read_text())
    with fault.breaks(host) or nullcontext():
        if fault.start == "after":
            host.start()
        return asked(host, fault.patience, fault.command)


def asked(host: Installation, patience: float = PATIENCE, command: tuple[str, ...] = ()) -> Outcome:
    """What everybody says of it as it is."""
    doctor = host.says("hmem", "doctor", "--json")
    status = host.says("hmem", "status")
    findings = json.loads(doctor.text)["findings"]
    chat = host.ask(patience)
    return Outcome(doctor.code, findings, status, chat, host.says(*command) if command else None)


@pytest.fixture(scope="module")
def nights() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hmem-nights-", dir=PLACE) as folder:
        yield after_nights(Path(folder))


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="hmem-broken-", dir=PLACE))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def host(folder: Path, nights: Path) -> Iterator[Installation]:
    with installation(folder, nights) as made:
        yield made


def holds(said: Said, expected: Answer) -> None:
    assert "Traceback" not in said.text, said.text
    assert said.code == expected.code, said.text
    assert re.search(expected.pattern, said.text, WORDS), said.text


#: One fault of each kind; the others are broken in a long run (`--all`): each takes some seconds.
QUICK = {
    "no dispatcher runs, and ten messages wait", "the archive cannot be written", "the release is damaged",
    "Claude is gone", "the chat's directory is closed", "the day store is damaged",
}  # fmt: skip


@pytest.mark.parametrize("fault", [
    pytest.param(fault, marks=() if fault.name in QUICK else pytest.mark.slow, id=fault.name.replace(" ", "-")) for fault in FAULTS
    if fault.doctor.check in {check.name for check in every_check()}  # a feature may be taken out
])  # fmt: skip
def test_what_is_broken_is_named_with_what_to_do(fault: Fault, host: Installation) -> None:
    try:
        found = outcome(fault, host)
    except Unmakeable as why:
        pytest.skip(str(why))
    (finding,) = [one for one in found.findings if one["name"] == fault.doctor.check]
    assert (found.doctor, finding["code"]) == (fault.doctor.code, fault.doctor.code), found.problems
    assert finding["state"] == ("problem" if fault.doctor.code else "ok"), finding
    assert re.search(fault.doctor.sentence, finding["sentence"], WORDS), finding
    assert re.search(fault.doctor.fix, finding["fix"], WORDS), finding
    holds(found.status, fault.status)
    holds(found.chat, fault.chat)
    if found.command:
        holds(found.command, fault.said)


def test_the_quick_ones_are_there() -> None:
    assert {fault.name for fault in FAULTS} >= QUICK


def green(found: Outcome, *, but: tuple[str, ...] = ()) -> None:
    """No problem; nothing but what one user for all works, and `but`, is warned of."""
    assert (found.doctor, found.problems) == (0, [])
    warned = {one["name"] for one in found.findings if one["state"] not in ("ok", "skipped")}
    assert warned <= {"isolation", *but}, [one for one in found.findings if one["name"] in warned]
    assert (found.status.code, found.chat.code, found.chat.text.strip()) == (0, 0, ANSWER), found


@pytest.mark.slow
def test_a_sound_installation_is_green_with_whichever_bot(host: Installation) -> None:
    """h-cli's bot sets no key of its own; ours holds a lease."""
    assert host.start()
    green(asked(host))
    host.redis.set("hcli:mem:bot:owner:main", "a bot of ours")
    host.environment |= {"TELEGRAM_BOT_TOKEN": "1:secret", "ALLOWED_CHATS": "9912"}
    green(asked(host))


@pytest.mark.slow
def test_what_is_freshly_set_up_is_green_before_its_first_night(folder: Path) -> None:
    with empty_installation(folder) as host:
        assert host.start()
        green(asked(host), but=("release", "night"))


@pytest.mark.slow
def test_the_day_host_of_two_is_green(host: Installation) -> None:
    """Night directory and archive are on the other one, and so is the mirror."""
    shutil.rmtree(host.night_dir)
    host.environment["ARCHIVE_MIRROR"] = "/another/disk"
    assert host.start()
    green(asked(host))


def test_a_dispatcher_at_work_is_no_queue_that_stands_still(host: Installation) -> None:
    """Messages wait behind an answer that takes its time."""
    slow = script(host.root / "slow-claude", '#!/bin/sh\ncase "$1" in --help) exit 0 ;; esac\nsleep 600\n')
    host.environment |= {"CLAUDE_BIN": str(slow), "MAX_CONCURRENT_TASKS": "1"}
    assert host.start()
    for number in range(3):
        host.enqueue(f"q{number}", "is anybody there?")
    wait_for(lambda: host.redis.llen("hcli:tasks") == 2, "the first message to be taken")
    status = host.says("hmem", "status")
    assert (status.code, "2 waiting, 1 in flight" in status.text) == (0, True), status.text


@pytest.mark.slow
def test_a_release_of_before_a_forgetting_leaves_the_archive_sound(host: Installation) -> None:
    """A segment that was rewritten is no damage."""
    assert host.says("hmem", "forget", "--matching", "4711", "--yes").code == 0
    assert host.start()
    green(asked(host))
