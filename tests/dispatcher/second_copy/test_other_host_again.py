"""A journal on another host that this host did not send last: after a disk was put back, and where two hosts have the same JOURNAL."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from dispatcher.second_copy import place
from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.look import task_entry
from dispatcher.second_copy.place import There, compare, prepare, send
from dispatcher.second_copy.restore import _take_over
from dispatcher.second_copy.service import SecondCopy
from shared.config.settings import Settings
from shared.delivery.journal.files import journal_id, last_number
from shared.delivery.journal.state import QUEUED, read_journal
from shared.errors import InvalidInput, JournalUnavailable
from shared.system.keys.encryption_key import EncryptionKey
from tests.chaos.harness.report import RedisServer
from tests.dispatcher.second_copy.conftest import LossyHost
from tests.support.machine import wait_for
from tests.support.world import World


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


@pytest.fixture
def second(host: LossyHost, other: OtherHost, tmp_path: Path) -> Iterator[LossyHost]:
    """Another host with the same settings, as one for a drill has them."""
    root = tmp_path / "second"
    server = RedisServer(root / "redis")
    world = World(root, Redis.from_url(server.url), server.url, dict(host.world.environment))
    yield LossyHost(world, server)
    for dispatcher in world.dispatchers:
        dispatcher.stop(signal.SIGKILL)
    server.stop(kill=True)
    world.redis.close()


def put_back(host: LossyHost, other: OtherHost) -> None:
    """The disk with Redis and HMEM_STATE_DIR is copied, then follows a day with three messages, then the copy takes the disk's place."""
    host.world.start_dispatcher()
    host.world.enqueue("t0", "yesterday")
    other.has(host, "t0")
    host.kill_dispatchers()
    host.redis.save()
    older, state = host.copy_of_redis(), host.world.root / "older-state"
    shutil.copytree(host.state_dir, state)
    host.world.start_dispatcher()
    for number in (1, 2, 3):
        host.world.enqueue(f"t{number}", f"today {number}")
    host.world.enqueue("fact", "/memory add the boiler is in the cellar")
    for task in ("t1", "t2", "t3"):
        other.has(host, task)
    host.answered("fact")
    wait_for(lambda: host.reported()["entries"] == 0, "the fact to be there")
    host.kill_dispatchers()
    host.lose_redis(older)
    host.lose_state()
    shutil.copytree(state, host.state_dir)


def answers(*tasks: str) -> set[str]:
    return {f"hcli:memory:{task}:asst" for task in tasks}


def in_redis(host: LossyHost) -> set[str]:
    return {name.decode() for name in host.turns()}


def test_a_disk_that_was_put_back_gets_the_day_from_the_other_host_and_destroys_nothing_there(
    host: LossyHost, other: OtherHost
) -> None:
    put_back(host, other)
    host.world.start_dispatcher()
    host.world.enqueue("t4", "after it")
    other.has(host, "t4")
    assert answers("t0", "t1", "t2", "t3", "t4") <= in_redis(host)
    assert answers("t0", "t1", "t2", "t3", "t4") <= other.turns()
    assert "the boiler is in the cellar" in host.world.command("hmem", "memory", "list", "9912").stdout


def test_a_disk_that_was_put_back_gets_the_day_also_where_the_other_host_is_reached_only_later(
    host: LossyHost, other: OtherHost
) -> None:
    """Until then answers go on, the old spool is kept, and nothing is sent."""
    put_back(host, other)
    other.away.touch()
    host.world.start_dispatcher()
    host.world.enqueue("t4", "while it is away")
    wait_for(lambda: host.redis.exists("hcli:mem:done:t4"), "the answer")
    wait_for(lambda: host.reported().get("error"), "the report")
    other.away.unlink()
    wait_for(lambda: answers("t1", "t2", "t3") <= in_redis(host), "what was lost to come back")
    other.has(host, "t4")
    assert answers("t0", "t1", "t2", "t3", "t4") <= other.turns()
    wait_for(lambda: host.reported()["error"] is None, "the report")


def say(host: LossyHost, other: OtherHost, task: str) -> None:
    host.world.enqueue(task, "of the first one")
    other.has(host, task)


def is_refused(second: LossyHost, why: str) -> None:
    """It answers, and says that it sends nothing."""
    second.world.start_dispatcher()
    second.world.enqueue("d0", "of the drill")
    wait_for(lambda: second.redis.exists("hcli:mem:done:d0"), "the answer")
    wait_for(lambda: why in (second.reported().get("error") or ""), "the refusal")


def test_a_second_host_with_the_same_setting_neither_sends_nor_takes_anything(
    host: LossyHost, other: OtherHost, second: LossyHost
) -> None:
    host.world.start_dispatcher()
    say(host, other, "t0")
    is_refused(second, "Give this host another JOURNAL")
    say(host, other, "t1")
    assert answers("t0", "t1") <= other.turns()
    assert not any("d0" in one for one in other.turns())
    assert not any(":t0:" in one for one in in_redis(second))
    assert host.reported()["error"] is None


def test_a_second_host_with_a_copy_of_the_spool_is_refused_too(
    host: LossyHost, other: OtherHost, second: LossyHost
) -> None:
    host.world.start_dispatcher()
    say(host, other, "t0")
    shutil.copytree(host.state_dir / "journal", second.state_dir / "journal")
    say(host, other, "t1")
    is_refused(second, "is the second copy of")
    assert answers("t0", "t1") <= other.turns()
    assert not any("d0" in one for one in other.turns())


def test_restore_day_takes_over_and_the_first_host_is_refused_from_then_on(
    host: LossyHost, other: OtherHost, second: LossyHost
) -> None:
    host.world.start_dispatcher()
    say(host, other, "t0")
    second.world.command("hmem", "restore", "--day")
    assert answers("t0") <= in_redis(second)
    host.world.enqueue("t1", "too late")
    wait_for(lambda: "is the second copy of" in (host.reported()["error"] or ""), "the refusal")
    second.world.start_dispatcher()
    say(second, other, "d0")
    assert not any(":t1:" in one for one in other.turns())


def test_a_changed_keyring_goes_there_although_nothing_else_is_new(host: LossyHost, other: OtherHost) -> None:
    key = host.world.root / "keys" / "encrypt.key"
    host.world.command("hmem", "key", "new", str(key))
    host.world.environment["ENCRYPT_KEY_FILE"] = str(key)
    host.world.start_dispatcher()
    host.world.enqueue("t0", "the only message")
    host.answered("t0")
    keyring = other.folder / "keyring.json"

    def owner() -> str:
        return str(json.loads(keyring.read_bytes())["owner"])

    wait_for(lambda: keyring.exists() and host.reported()["entries"] == 0, "the transfer")
    assert owner() == EncryptionKey.load(key).fingerprint
    host.world.command("hmem", "key", "rotate")
    wait_for(lambda: owner() == EncryptionKey.load(key).fingerprint, "the keyring under the new key")


# Without a dispatcher.


def grown(settings: Settings, *tasks: str) -> Path:
    """The spool with a waiting task more for each name."""
    journal = prepare(settings)
    for task in tasks:
        journal.append([task_entry(task, "9912", QUEUED, raw="{}")])
    return journal.folder


def test_a_sending_that_was_cut_off_is_recognized_by_who_sent_it_and_by_nobody_else(
    host: LossyHost, other: OtherHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = host.world.settings()
    folder = grown(settings, "a")
    send(settings, folder)
    shutil.copytree(folder, tmp_path / "older")
    grown(settings, "b")
    real = place.rsync

    def cut_off(settings: Settings, *arguments: str) -> str:
        if "--delete-after" not in arguments:
            return real(settings, *arguments)
        real(settings, "--times", "--include=/announced.json", "--exclude=*", *arguments[-2:])
        raise JournalUnavailable("cut off.")

    monkeypatch.setattr(place, "rsync", cut_off)
    for _ in range(2):
        with pytest.raises(JournalUnavailable):
            send(settings, folder)
    assert compare(settings, folder)[0] is There.OURS
    assert compare(settings, tmp_path / "older")[0] is There.NEWER
    monkeypatch.setattr(place, "rsync", real)
    send(settings, folder)
    assert set(read_journal(other.folder).tasks) == {"a", "b"}


def test_the_announcement_arrives_each_time_however_soon_after_the_last_one(host: LossyHost, other: OtherHost) -> None:
    settings = host.world.settings()
    folder = grown(settings, "a")
    said = set()
    for _ in range(4):
        send(settings, folder)
        said.add((other.folder / "announced.json").read_bytes())
    assert len(said) == 4


@pytest.mark.parametrize("older", [True, False])
def test_another_journal_or_an_older_one_over_there_is_never_overwritten(
    host: LossyHost, other: OtherHost, tmp_path: Path, *, older: bool
) -> None:
    settings = host.world.settings()
    folder = grown(settings, "a")
    send(settings, folder)
    shutil.copytree(other.folder, tmp_path / "kept")
    if older:
        for task in ("b", "c"):
            grown(settings, task)
            send(settings, folder)
        shutil.rmtree(other.folder)
        shutil.copytree(tmp_path / "kept", other.folder)
    else:
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
        DayJournal(folder).create()
    before = {path.name: path.read_bytes() for path in other.folder.iterdir()}
    with pytest.raises(JournalUnavailable, match="another journal, or an older state of this one"):
        send(settings, grown(settings, "d"))
    with pytest.raises(InvalidInput, match="With --yes the other one takes its place"):
        _take_over(settings, DayJournal(folder), print, yes=False)
    assert {path.name: path.read_bytes() for path in other.folder.iterdir()} == before
    shutil.rmtree(other.folder)
    other.folder.mkdir()
    send(settings, folder)
    assert journal_id(other.folder) == journal_id(folder)


def test_a_fetch_that_fails_leaves_the_spool_as_it_was(
    host: LossyHost, other: OtherHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = host.world.settings()
    folder = grown(settings, "a")
    send(settings, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def failing(*_: Any) -> str:
        raise JournalUnavailable("cut off.")

    monkeypatch.setattr(place, "rsync", failing)
    with pytest.raises(JournalUnavailable):
        place.fetch(settings, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert not (folder / ".fetched").exists()


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
