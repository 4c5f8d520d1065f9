"""`hmem doctor` where h-cli's bot or dispatcher stands beside ours."""

from __future__ import annotations

import json
import time

import pytest

from shared.wire import keys
from tests.support.day.health import expect, looks
from tests.support.world import World


@pytest.mark.slow
def test_turns_that_expire_are_a_problem(host: World) -> None:
    """As h-cli's dispatcher stores them."""
    host.say("ours", "hello")
    assert looks(host, "expiry").state == "ok"
    for task in ("theirs", "theirs-too"):
        host.redis.expire(host.say(task, "hello"), 14_400 if task == "theirs" else 7_200)
    expect(host, "expiry", 32, "2 turns expire in Redis, the first in 2.0 hours, the last in 4.0", "SESSION_TTL=172800")


def test_a_bot_that_gives_up_before_the_dispatcher_is_warned_of(host: World) -> None:
    assert looks(host, "patience").state == "ok"
    host.redis.set(keys.PATIENCE, "300")
    found = looks(host, "patience")
    assert (found.state, "waits 300 s" in found.sentence, "TASK_TIMEOUT to 280" in found.fix) == ("warning", True, True)
    host.environment["TASK_TIMEOUT"] = "280"
    assert looks(host, "patience").state == "ok"
    host.redis.set(keys.PATIENCE, "no number")
    assert looks(host, "patience").state == "ok"


def test_reminders_that_nobody_fetches_are_warned_of(host: World) -> None:
    assert looks(host, "outbox").state == "ok"
    for ago, state in ((0.0, "ok"), (3_600.0, "warning")):
        host.redis.delete(keys.OUTBOX)
        host.redis.rpush(
            keys.OUTBOX, json.dumps({"id": "r", "chat_id": "1", "text": "x", "created_at": time.time() - ago})
        )
        assert looks(host, "outbox").state == state
    found = looks(host, "outbox")
    assert ("1 reminders wait" in found.sentence, "hmem telegram" in found.fix) == (True, True)
