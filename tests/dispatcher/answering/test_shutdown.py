"""A stop: running tasks may end (TASK_TIMEOUT), the rest goes back to the head of the queue in its order, and nobody is blamed."""

from __future__ import annotations

import json
import signal

from redis import Redis

from shared.wire import keys
from tests.support.day.hcli_bot import SAY, Bot, script
from tests.support.machine import wait_for
from tests.support.world import World


def queued(redis: Redis) -> list[str]:
    return [json.loads(raw)["message"] for raw in redis.lrange(keys.TASKS, 0, -1)]


def test_a_second_signal_puts_the_running_tasks_back_in_order(light: World, bot: Bot) -> None:
    """Three run, one of them ends in time; two more wait."""
    gate, begun = light.root / "gate", light.root / "begun"
    hangs = f'echo >> {begun}; case "$MESSAGE" in *quick*) while [ ! -e {gate} ]; do sleep 0.05; done; {SAY} ok;; *) sleep 600;; esac'
    running = light.start_dispatcher(CLAUDE_BIN=script(light, hangs))
    tasks = {message: bot.send(message, chat) for message, chat in
             (("first", 1), ("quick", 2), ("second", 3), ("third", 4), ("after first", 1))}  # fmt: skip
    wait_for(lambda: begun.exists() and len(begun.read_text().splitlines()) == 3, "three calls")
    running.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "finishing running tasks" in running.log.read_text(), "the stop")
    gate.touch()
    assert bot.receive(tasks["quick"])["output"] == "ok"
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    assert queued(bot.redis) == ["first", "second", "third", "after first"]
    assert not bot.redis.keys("hcli:mem:attempts:*"), "a stop is no death"
    assert not bot.redis.exists("hcli:mem:busy")
    assert not bot.redis.keys("hcli:mem:inflight:*")
    second = light.start_dispatcher(CLAUDE_BIN=script(light, f"{SAY} ok"))
    assert {bot.receive(task)["output"] for message, task in tasks.items() if message != "quick"} == {"ok"}
    history = [json.loads(entry)["content"] for entry in bot.redis.lrange("hcli:session_history:1", 0, -1)]
    assert history == ["first", "ok", "after first", "ok"]
    assert second.stop() == 0
