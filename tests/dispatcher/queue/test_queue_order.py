"""Who comes next: the chat served longest ago, a chat never served before all others; and a task that may kill its worker runs alone."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from redis import Redis

from dispatcher.queue.tasks import NOT_YET, Claim, TaskQueue
from shared.wire import keys
from tests.support.day.hcli_bot import SAY, Bot, script
from tests.support.day.queues import claimed, finished, play
from tests.support.machine import wait_for
from tests.support.world import Dispatcher, World


def fill(world: World, counts: dict[str, int], size: int = 5) -> None:
    """So many tasks of each chat, one chat after the other."""
    with world.redis.pipeline() as pipe:
        for chat, count in counts.items():
            for number in range(count):
                task = {"task_id": f"{chat}-{number}", "message": "x" * size, "chat_id": chat}
                pipe.rpush(keys.TASKS, json.dumps(task))
        pipe.execute()


async def served(queue: TaskQueue, count: int) -> list[str]:
    """So many tasks taken and finished one after the other: their ids."""
    ids = []
    for _ in range(count):
        claim = await claimed(queue)
        ids.append(json.loads(claim.raw)["task_id"])
        await queue.finish(claim, finished(claim))
    return ids


def test_several_floods_take_turns_with_a_quiet_chat_that_is_claimed_beside_them(light: World) -> None:
    fill(light, {"a": 500, "b": 500, "c": 500})

    async def scenario(one: TaskQueue, two: TaskQueue) -> None:
        assert await served(one, 6) == ["a-0", "b-0", "c-0", "a-1", "b-1", "c-1"]
        held = await claimed(two)  # another dispatcher answers a
        fill(light, {"quiet": 2})
        assert await served(one, 5) == ["quiet-0", "b-2", "c-2", "quiet-1", "b-3"]
        await two.finish(held, finished(held))
        assert await served(one, 2) == ["a-3", "c-3"]

    play(light, scenario)


def test_a_recovered_chat_comes_first_again(light: World) -> None:
    fill(light, {"a": 2, "b": 2})

    async def scenario(one: TaskQueue, two: TaskQueue) -> None:
        assert await served(one, 2) == ["a-0", "b-0"]
        await claimed(two)
        assert await two.leave() == 1
        assert light.redis.keys("hcli:mem:attempts:*") == [], "nobody is blamed"
        assert await served(one, 2) == ["a-1", "b-1"]
        assert await one.claim(one.next_token()) is None

    play(light, scenario)


def test_after_two_deaths_a_task_runs_alone(light: World) -> None:
    fill(light, {"poison": 1, "good": 1})
    light.redis.set("hcli:mem:attempts:poison-0", 2)

    async def scenario(one: TaskQueue, _: TaskQueue) -> None:
        assert await one.claim(one.next_token(), 1) == NOT_YET
        assert light.redis.llen(keys.TASKS) == 2
        token = one.next_token()
        claim, again = await one.claim(token, 0), await one.claim(token, 0)
        assert isinstance(claim, Claim)
        assert claim.alone
        assert again == claim

    play(light, scenario)


@pytest.mark.slow
def test_neighbours_of_a_poisonous_task_are_answered(light: World, redis: Redis) -> None:
    """It kills its dispatcher three times, each time with others beside it as far as it may have any."""
    bot = Bot(redis)
    asks = light.root / "asks-for-death"  # the CLI may send its parent no signal
    deadly = script(
        light, f'case "$MESSAGE" in *poison*) sleep 0.3; touch {asks}; sleep 60;; *) sleep 0.6; {SAY} fine;; esac'
    )
    tasks = {chat: bot.send(f"{chat} says hello", chat) for chat in ("poison", "b", "c", "d", "e")}
    for _ in range(4):
        running = light.start_dispatcher(CLAUDE_BIN=deadly)
        if lives_until_answered(running, redis, tasks, asks):
            break
    answers = {chat: bot.receive(task)["output"] for chat, task in tasks.items()}
    assert "crashed my process 3 times" in answers.pop("poison")
    assert set(answers.values()) == {"fine"}
    assert redis.llen("hcli:mem:dead") == 1
    assert running.stop(signal.SIGTERM) == 0


def lives_until_answered(running: Dispatcher, redis: Redis, tasks: dict[str, str], asks: Path) -> bool:
    """Until all is answered, or the poison has asked for the dispatcher's death."""

    def answered() -> bool:
        return redis.exists(*(f"hcli:results:{task}" for task in tasks.values())) == len(tasks)

    wait_for(lambda: asks.exists() or answered(), "a death, or all answers")
    if asks.exists():
        asks.unlink()
        running.stop(signal.SIGKILL)
    return running.process.poll() is None


def test_a_dispatcher_that_was_stopped_past_its_lease_finishes_nothing_twice(light: World, redis: Redis) -> None:
    """SIGSTOP, another takes over, SIGCONT: one answer, two turns, one line of counters, and the chat is free."""
    bot = Bot(redis)
    gate, started = light.root / "gate", light.root / "started"
    slow = script(light, f"echo >> {started}; while [ ! -e {gate} ]; do sleep 0.05; done; {SAY} answer-$$")
    frozen = light.start_dispatcher(CLAUDE_BIN=slow)
    task = bot.send("hello", 9912)
    wait_for(started.exists, "the first call")
    frozen.process.send_signal(signal.SIGSTOP)
    redis.delete(*redis.keys("hcli:mem:lease:*"))  # 30 s later
    second = light.start_dispatcher(CLAUDE_BIN=slow)
    wait_for(lambda: len(started.read_text().splitlines()) == 2, "the second call")
    frozen.process.send_signal(signal.SIGCONT)
    gate.touch()
    output = bot.receive(task)["output"]
    assert bot.turn(task, "asst")["content"] == output, "the first to finish wins, and only that"
    assert bot.ask("next", 9912).startswith("answer-")
    assert [one.stop() for one in (frozen, second)] == [0, 0]
    assert len(redis.lrange("hcli:session_history:9912", 0, -1)) == 4
    assert [redis.hget(day, "tasks") for day in redis.keys("hcli:stats:*")] == [b"2"]
    assert not redis.exists("hcli:mem:busy", "hcli:tasks", f"hcli:results:{task}")
