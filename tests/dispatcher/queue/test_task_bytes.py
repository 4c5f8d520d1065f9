"""Tasks that are too large: Redis does not stand still, the dispatcher never holds them, and all within the limit is answered."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from shared.turns.records import MOST_TASK_BYTES as LIMIT
from shared.turns.records import dumps
from shared.wire import keys
from tests.support.day.hcli_bot import Bot
from tests.support.machine import wait_for
from tests.support.world import Dispatcher, World

GIANT = 100 << 20


def task(task_id: str, size: int, chat: int = 9912) -> bytes:
    """As h-cli's bot writes it, of this many bytes."""
    record = {"task_id": task_id, "message": "", "user_id": 7, "chat_id": chat, "model": "opus"}
    raw = dumps(record | {"message": "x" * (size - len(dumps(record)))})
    assert len(raw) == size
    return raw


def resident(dispatcher: Dispatcher, field: str = "VmHWM") -> int:
    """Bytes that its process has held at most (VmHWM), or holds (VmRSS)."""
    status = Path(f"/proc/{dispatcher.process.pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field))


def slowest(redis: Redis) -> int:
    """The longest that a command took, in microseconds."""
    return max((one["duration"] for one in redis.slowlog_get(1000)), default=0)


def letters(redis: Redis) -> list[dict[str, Any]]:
    raws: Any = redis.lrange(keys.DEAD, 0, -1)
    return [json.loads(raw) for raw in raws]


def push(redis: Redis, *raws: bytes) -> None:
    """All at once, so that nobody takes the first before the last is there."""
    with redis.pipeline() as pipe:
        for raw in raws:
            pipe.rpush(keys.TASKS, raw)
        pipe.execute()


@pytest.mark.slow
def test_a_task_over_the_limit_is_refused_in_a_sentence_and_one_within_is_answered(light: World, bot: Bot) -> None:
    """Also what is left of a giant that a dead worker had."""
    light.redis.sadd(keys.WORKERS, "dead-worker")
    light.redis.hset(keys.inflight("dead-worker"), "dead-worker:1", b'hmem-too-large 999999\n{"task_id":"back",')
    running = light.start_installed_dispatcher()
    assert "it has 999999 bytes" in bot.receive("back")["output"]
    wide = json.dumps({"task_id": "wide", "message": "жук " * LIMIT, "chat_id": 9912}, ensure_ascii=False).encode()
    push(bot.redis, task(f"of-{LIMIT}", LIMIT), task("over", LIMIT + 1), wide)
    assert "stand-in" in bot.receive(f"of-{LIMIT}")["output"]
    refused = f"it has {LIMIT + 1} bytes, and the limit is {LIMIT}"
    assert refused in bot.receive("over")["output"]
    assert f"the limit is {LIMIT}" in bot.receive("wide")["output"]
    cut = {name: one for one in letters(bot.redis) for name in ("over", "wide") if f'"{name}"' in one["task"]}
    assert cut["over"]["reason"].startswith(f"it has {LIMIT + 1} bytes")
    assert len(cut["over"]["task"]) < 2000
    assert cut["over"]["task"].startswith('{"task_id":"over"')
    assert '"chat_id":9912' in cut["over"]["task"], "so that it is forgotten with its chat"
    assert "жук" in cut["wide"]["task"], "no character is cut in two"
    assert running.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("waiting", [True, False], ids=["it-is-waited-for", "it-stands-there"])
def test_a_giant_is_never_held_by_the_dispatcher_and_loses_nobody(light: World, bot: Bot, waiting: bool) -> None:
    giant, around = task("giant", GIANT), [task(f"small-{number}", 300, chat=number + 1) for number in range(20)]
    running = light.start_installed_dispatcher()
    assert "stand-in" in bot.ask("warm", 77)
    if not waiting:
        running.stop()
    else:
        wait_for(lambda: b"blmove" in b" ".join(c["cmd"].encode() for c in bot.redis.client_list()), "the wait")
    push(bot.redis, giant, *around)
    if not waiting:
        bot.redis.slowlog_reset()
        assert int(bot.redis.eval("return #redis.call('LINDEX', KEYS[1], 0)", 1, keys.TASKS)) == GIANT
        reading = slowest(bot.redis)
        bot.redis.slowlog_reset()
        running = light.start_installed_dispatcher()
    wait_for(lambda: letters(bot.redis), "the dead letter")
    for number in range(20):
        assert "stand-in" in bot.receive(f"small-{number}")["output"]
    assert resident(running) < 250 << 20
    assert waiting or slowest(bot.redis) < reading / 3, "Redis does not stand still over it: nobody has read it"
    (letter,) = letters(bot.redis)
    assert GIANT <= int(letter["reason"].split()[2]) < 1.3 * GIANT
    assert bot.redis.llen(keys.TASKS) == 0
    assert running.stop() == 0


@pytest.mark.slow
def test_a_wait_whose_target_is_removed_loses_no_task(light: World, bot: Bot) -> None:
    """Redis was emptied while a dispatcher waited: the next task is moved, and comes back."""
    running = light.start_installed_dispatcher()
    wait_for(lambda: bot.redis.exists(keys.UNMOVED), "the wait")
    time.sleep(0.5)
    for number in range(3):
        bot.redis.delete(keys.UNMOVED)
        assert "stand-in" in bot.ask(f"message {number}", 9912)
    assert bot.redis.type(keys.UNMOVED) == b"string"
    assert running.stop() == 0
