"""A Redis that is emptied, or filled again, while the dispatcher looks at it: between its look and its mark, and between two reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.follow import Followed, Follower
from tests.dispatcher.second_copy.conftest import LossyHost


class Dispatchers:
    """What follows one Redis into one journal; `before` a step of the first one something happens, once."""

    def __init__(self, host: LossyHost) -> None:
        self.host = host
        DayJournal(host.disk).create()
        self.first, self.second = self._follower(), self._follower()

    def _follower(self) -> Follower:
        return Follower(Followed(DayJournal(self.host.disk), self.host.redis, 1 << 20, list, lambda stone: None, None))

    def before(self, step: str, happens: Callable[[], None]) -> None:
        original = getattr(self.first, step)

        def stepped(*arguments: Any, **named: Any) -> Any:
            setattr(self.first, step, original)
            happens()
            return original(*arguments, **named)

        setattr(self.first, step, stepped)

    def everything(self) -> dict[bytes, bytes]:
        names = ("hcli:memory:*", "hcli:tasks", "hcli:session*", "hcli:results:*")
        return {name: self.host.redis.dump(name) for one in names for name in self.host.redis.scan_iter(match=one)}


@pytest.fixture
def dispatchers(host: LossyHost) -> Dispatchers:
    made = Dispatchers(host)
    for number in range(3):
        host.world.say(f"t{number}", f"number {number}")
    host.world.enqueue("q1", "a message that waits")
    host.redis.set("hcli:session:9912", "a session", ex=14_400)
    made.first.begin()
    made.second.begin()
    host.world.say("t9", "one more, which the next look finds")
    return made


@pytest.mark.parametrize("step", ["_take_dirty", "_append", "_keep_store", "_mark"])
def test_a_redis_emptied_during_a_look_is_filled_again(dispatchers: Dispatchers, host: LossyHost, step: str) -> None:
    before = dispatchers.everything()
    dispatchers.before(step, lambda: host.redis.flushall())
    for _ in range(3):
        dispatchers.first.round(whole=True)
    lacking = before.keys() - dispatchers.everything().keys()
    assert lacking <= {b"hcli:memory:t9:user"}, "only what the look had not read yet may be missing"
    assert bool(lacking) == (step == "_take_dirty")
    assert host.journal.tasks["q1"].state == "queued"


def test_a_redis_that_another_dispatcher_filled_meanwhile_gets_what_only_this_one_has_seen(
    dispatchers: Dispatchers, host: LossyHost
) -> None:
    before = dispatchers.everything()

    def emptied_and_filled() -> None:
        host.redis.flushall()
        dispatchers.second.round(whole=True)
        assert dispatchers.second.put_back_times == 1
        assert b"hcli:memory:t9:user" not in host.turns()

    dispatchers.before("_append", emptied_and_filled)
    dispatchers.first.round(whole=True)
    dispatchers.second.round(whole=True)
    dispatchers.first.round(whole=True)
    assert dispatchers.everything().keys() == before.keys()


def test_an_emptied_redis_that_is_emptied_again_while_it_is_filled_counts_as_lost(
    dispatchers: Dispatchers, host: LossyHost
) -> None:
    dispatchers.first.round(whole=True)
    before = dispatchers.everything()
    host.redis.flushall()
    dispatchers.before("_raise", lambda: host.redis.flushall())
    for _ in range(3):
        dispatchers.first.round(whole=True)
    assert dispatchers.everything().keys() == before.keys()


def test_a_mark_that_another_dispatcher_has_raised_meanwhile_is_no_loss(
    dispatchers: Dispatchers, host: LossyHost
) -> None:
    def other_one() -> None:
        host.world.say("t10", "found by the other one")
        dispatchers.second.round(whole=True)

    dispatchers.before("_mark", other_one)
    dispatchers.first.round(whole=True)
    dispatchers.second.round(whole=True)
    assert (dispatchers.first.put_back_times, dispatchers.second.put_back_times) == (0, 0)
    assert {"hcli:memory:t9:user", "hcli:memory:t10:user"} <= host.journal.turns.keys()


def test_what_was_cancelled_on_purpose_is_not_put_back(
    dispatchers: Dispatchers, host: LossyHost, tmp_path: Path
) -> None:
    host.redis.delete("hcli:tasks")
    for _ in range(3):
        dispatchers.first.round(whole=False)
        dispatchers.second.round(whole=False)
    assert host.redis.llen("hcli:tasks") == 0
    assert host.journal.tasks["q1"].state == "gone"
