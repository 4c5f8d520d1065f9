"""What the dispatcher puts back into a Redis that was lost, emptied, or put back from an older copy."""

from __future__ import annotations

import json
import time

import pytest

from shared.turns.records import Tombstone
from tests.dispatcher.second_copy.conftest import LossyHost
from tests.support.machine import wait_for


def test_a_lost_redis_gets_turns_answers_and_conversation_back_byte_for_byte(host: LossyHost) -> None:
    host.world.start_dispatcher()
    for number in range(4):
        host.world.enqueue(f"t{number}", f"number {number}")
    host.answered("t0", "t1", "t2", "t3")
    session = host.redis.get("hcli:session:9912")
    history, turns = host.redis.lrange("hcli:session_history:9912", 0, -1), host.turns()
    results = {name: host.redis.get(name) for name in host.redis.keys("hcli:results:*")}
    host.kill_dispatchers()
    host.lose_redis()
    host.lose_state()
    host.world.start_dispatcher()
    assert host.turns() == turns
    assert len(turns) == 8
    assert {name: host.redis.get(name) for name in host.redis.keys("hcli:results:*")} == results
    assert host.redis.lrange("hcli:session_history:9912", 0, -1) == history
    assert host.redis.get("hcli:session:9912") == session
    assert 0 < host.redis.ttl("hcli:session:9912") <= 14_400


def test_a_message_that_waited_is_answered_and_a_finished_one_never_again(host: LossyHost) -> None:
    (host.world.root / "hold").touch()
    host.world.start_dispatcher()
    host.world.enqueue("running", "the first one")
    wait_for(lambda: host.redis.hlen("hcli:mem:busy"), "the claim")
    host.world.enqueue("waiting", "the second one")
    host.followed()
    host.kill_dispatchers()
    host.lose_redis()
    (host.world.root / "hold").unlink()
    host.world.start_dispatcher()
    host.answered("running", "waiting")
    asked = host.asked()
    host.kill_dispatchers()
    host.lose_redis()
    host.world.start_dispatcher()
    host.followed()
    assert host.asked() == asked
    assert host.redis.llen("hcli:tasks") == 0


def test_an_older_redis_gives_up_the_tasks_that_were_finished_since(host: LossyHost) -> None:
    (host.world.root / "hold").touch()
    host.world.start_dispatcher()
    host.world.enqueue("flying", "it was in flight when the copy was made")
    wait_for(lambda: host.redis.hlen("hcli:mem:busy"), "the claim")
    host.world.enqueue("queued", "it was queued when the copy was made")
    host.followed()
    older = host.copy_of_redis()
    (host.world.root / "hold").unlink()
    host.answered("flying", "queued")
    asked, turns = host.asked(), host.turns()
    host.kill_dispatchers()
    host.lose_redis(older)
    assert host.redis.llen("hcli:tasks") == 1, "the copy has it queued"
    host.world.start_dispatcher()
    host.followed()
    assert host.asked() == asked
    assert host.turns() == turns
    assert (host.redis.llen("hcli:tasks"), host.redis.hlen("hcli:mem:busy")) == (0, 0)


def test_a_message_that_was_cancelled_while_no_dispatcher_ran_stays_cancelled(host: LossyHost) -> None:
    """Redis was not lost, so what is missing there was taken away on purpose."""
    (host.world.root / "hold").touch()
    host.world.start_dispatcher()
    host.world.enqueue("first", "hold on")
    raw = host.world.enqueue("second", "forget it")
    host.followed()
    host.kill_dispatchers()
    assert host.redis.lrem("hcli:tasks", 0, raw) == 1
    (host.world.root / "hold").unlink()
    host.world.start_dispatcher()
    host.answered("first")
    asked = "\n".join(host.asked())
    assert "hold on" in asked
    assert "forget it" not in asked


def test_a_redis_that_is_emptied_while_the_dispatcher_runs_is_filled_before_the_next_claim(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "before")
    host.answered("t0")
    turns = host.turns()
    host.redis.flushall()
    host.world.enqueue("t1", "after")
    wait_for(lambda: host.redis.exists("hcli:mem:done:t1"), "the answer")
    assert turns.items() <= host.turns().items()
    assert host.redis.exists("hcli:mem:done:t0")


def test_turns_of_other_programs_get_into_the_journal(host: LossyHost) -> None:
    host.world.start_dispatcher()
    key = host.world.say("elsewhere", "h-cli's dispatcher wrote this")
    wait_for(lambda: key.decode() in host.journal.turns, "the round that finds it")
    assert host.journal.turns[key.decode()].value == host.redis.get(key)


def test_tombstones_outlive_both_disks(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "my password is heron")
    host.answered("t0")
    stone = Tombstone("stone-1", "9912", time.time(), turn_ids=frozenset({"t0:user", "t0:asst"}))
    host.world.push_tombstone(stone)
    wait_for(lambda: stone.to_json() in host.journal.tombstones, "the tombstone")
    host.kill_dispatchers()
    host.lose_redis()
    host.lose_state()
    host.world.start_dispatcher()
    assert host.redis.lrange("hcli:mem:tombstones", 0, -1) == [stone.to_json()]
    assert stone.to_json() in (host.state_dir / "forgotten.jsonl").read_bytes()
    assert not host.turns(), "what is to be forgotten is not in the journal"


def test_flushed_turns_leave_the_journal_and_turns_that_are_only_missing_stay(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "archive me")
    host.answered("t0")
    host.world.night()
    wait_for(lambda: not host.journal.turns, "the journal to be rewritten")
    assert host.journal.flushed_run == 1

    def lines() -> bytes:
        return b"".join(path.read_bytes() for path in host.disk.glob("day-*"))

    wait_for(lambda: b"hcli:memory:t0" not in lines(), "the journal to be rewritten")
    host.world.enqueue("t1", "keep me")
    host.answered("t1")
    host.redis.delete("hcli:memory:t1:user")
    host.followed()
    assert "hcli:memory:t1:user" in host.journal.turns, "no night has flushed it"


def test_a_night_without_a_dispatcher_takes_the_turns_from_the_journal(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "said on the last day")
    host.answered("t0")
    turns = host.turns()
    host.kill_dispatchers()
    host.lose_redis()
    [night] = host.world.night(publish_wait=0.0)
    assert (night["exported"], night["new"]) == (2, 2)
    archive = (host.world.night_dir / "archive" / "seg-1.jsonl").read_bytes()
    assert all(json.dumps(value.decode()).encode() in archive for value in turns.values())
    [again] = host.world.night(publish_wait=0.0)
    assert (again["exported"], again["new"], again["already_archived"]) == (2, 0, 2)
    host.world.start_dispatcher()
    host.world.night()
    wait_for(lambda: not host.journal.turns, "the journal to learn of the flush")


@pytest.mark.parametrize(
    "point",
    [
        "journal:written",
        "journal:marked",
        "journal:half-put-back",
        "journal:put-back",
        "journal:store-copied",
        "journal:rewritten",
    ],
)
def test_a_dispatcher_killed_at_each_point_of_the_journal_loses_and_doubles_nothing(
    host: LossyHost, point: str
) -> None:
    host.world.start_dispatcher()
    for number in range(3):
        host.world.enqueue(f"t{number}", f"number {number}")
    host.world.enqueue("fact", "/memory add I like herons")
    host.answered("t0", "t1", "t2", "fact")
    turns = host.turns()
    host.kill_dispatchers()
    if point != "journal:marked":
        host.lose_redis()
        host.lose_state()
    if point == "journal:rewritten":
        (host.disk / "day-000000000000.jsonl").write_bytes(b"")  # as a kill leaves two
    if point == "journal:store-copied":
        next(host.disk.glob("store-*")).unlink()
    doomed = host.world.root / "doomed.log"
    with doomed.open("wb") as log:
        from tests.support.processes.forked import ForkedProcess

        process = ForkedProcess(["hmem", "run"], host.world.variables(HMEM_CRASH_AT=point), doomed, doomed)
        host.world.enqueue("late", "one more")
        assert process.wait(60) == -9, log
    host.world.start_dispatcher()
    host.world.enqueue("last", "and the last one")
    host.answered("last")
    wait_for(lambda: host.redis.exists("hcli:mem:done:late") or host.redis.llen("hcli:tasks") == 0, "the late one")
    assert turns.items() <= host.turns().items()
    assert sum("number" in one for one in host.asked()) == 3, "none of them was answered again"
