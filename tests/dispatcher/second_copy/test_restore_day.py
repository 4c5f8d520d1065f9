"""`hmem restore --day`: what it refuses, says and brings back from a directory on another disk."""

from __future__ import annotations

import json

from shared.errors import InvalidInput, JournalUnavailable
from tests.dispatcher.second_copy.conftest import LossyHost
from tests.support.machine import wait_for


def lost(host: LossyHost) -> dict[bytes, bytes]:
    """A day with a fact, an answer and a message that waits; then both disks are lost. What was said."""
    host.world.start_dispatcher()
    host.world.enqueue("fact", "/memory add the boiler is in the cellar")
    host.world.enqueue("t0", "hello")
    host.answered("fact", "t0")
    (host.world.root / "hold").touch()
    host.world.enqueue("t1", "claimed")
    wait_for(lambda: host.redis.hlen("hcli:mem:busy"), "the claim")
    host.world.enqueue("t2", "waiting")
    host.followed()
    turns = host.turns()
    host.kill_dispatchers()
    host.lose_redis()
    host.lose_state()
    (host.world.root / "hold").unlink()
    return turns


def test_it_brings_everything_back_and_says_so_plainly(host: LossyHost) -> None:
    turns = lost(host)
    done = host.world.command("hmem", "restore", "--day")
    assert "The day was restored from" in done.stdout
    assert "2 turns (2 wait for the night)" in done.stdout
    assert "2 messages without an answer back in the queue" in done.stdout
    assert "the day store, with typed memories, reminders and summaries" in done.stdout
    assert host.turns() == turns
    host.world.start_dispatcher()
    host.answered("t1", "t2")
    assert "the boiler is in the cellar" in host.world.command("hmem", "memory", "list", "9912").stdout


def test_it_may_be_done_again_and_changes_nothing_then(host: LossyHost) -> None:
    lost(host)
    host.world.command("hmem", "restore", "--day")
    queued = host.redis.lrange("hcli:tasks", 0, -1)
    again = json.loads(host.world.command("hmem", "restore", "--day", "--yes", "--json").stdout)
    assert {name for name, count in again["put_back"].items() if count} == set()
    assert host.redis.lrange("hcli:tasks", 0, -1) == queued


def test_a_host_that_is_not_empty_is_left_alone_without_yes(host: LossyHost) -> None:
    lost(host)
    host.world.say("other", "somebody else's turn")
    refused = host.world.command("hmem", "restore", "--day", check=False)
    assert refused.returncode == InvalidInput.exit_code
    assert "This host is not empty: Redis has 1 turns" in refused.stderr
    assert len(host.turns()) == 1
    host.world.command("hmem", "restore", "--day", "--yes")
    assert len(host.turns()) == 3


def test_it_is_refused_while_a_dispatcher_runs(host: LossyHost) -> None:
    host.world.start_dispatcher()
    refused = host.world.command("hmem", "restore", "--day", "--yes", check=False)
    assert refused.returncode == InvalidInput.exit_code
    assert "A dispatcher is running" in refused.stderr


def test_without_a_journal_it_says_what_is_missing(host: LossyHost) -> None:
    missing = host.world.command("hmem", "restore", "--day", check=False)
    assert (missing.returncode, "There is no journal at" in missing.stderr) == (JournalUnavailable.exit_code, True)
    unset = host.world.command("hmem", "restore", "--day", check=False, JOURNAL="")
    assert (unset.returncode, "JOURNAL is not set" in unset.stderr) == (JournalUnavailable.exit_code, True)
    assert host.world.command("hmem", "restore", check=False).returncode == InvalidInput.exit_code
