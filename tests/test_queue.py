"""The four scripts of the queue on a real Redis: what each promises when it is repeated, overtaken or fed with odd things."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis import Redis

from dispatcher.tasks import Claim, Finished, TaskQueue
from dispatcher.worker import connect
from shared.processes import died_here, host_of, process_name
from shared.records import Result, Task, Turn
from tests.conftest import World

Scenario = Callable[[TaskQueue, TaskQueue], Awaitable[Any]]


def play(world: World, scenario: Scenario) -> Any:
    """Run a scenario with two workers on the world's Redis."""

    async def run() -> Any:
        clients = [connect(world.settings()) for _ in range(2)]
        try:
            return await scenario(TaskQueue(clients[0]), TaskQueue(clients[1]))
        finally:
            for client in clients:
                await client.aclose()

    return asyncio.run(run())


def finished(claim: Claim, **more: Any) -> Finished:
    task = Task.parse(claim.raw)
    turns = [Turn(task.task_id, role, task.chat_id, f"{role} of {task.message}", 1.0) for role in ("user", "asst")]
    defaults: dict[str, Any] = {"session_was": "", "session": "s", "session_ttl": 100, "stats": [("tasks", "1")]}
    return Finished(task, Result.sign("k", task.task_id, "out", "now"), turns, **(defaults | more))


async def claimed(queue: TaskQueue) -> Claim:
    claim = await queue.claim(queue.next_token())
    assert isinstance(claim, Claim)
    return claim


def test_a_claim_asked_again_with_its_token_gives_the_same_task(light: World) -> None:
    light.enqueue("t1", "one", chat_id=1)
    light.enqueue("t2", "two", chat_id=2)

    async def scenario(one: TaskQueue, _: TaskQueue) -> None:
        token = one.next_token()
        first, again = await one.claim(token), await one.claim(token)
        assert first == again
        assert light.redis.llen("hcli:tasks") == 1

    play(light, scenario)


def test_a_busy_chat_waits_and_others_pass(light: World) -> None:
    for task, chat in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        light.enqueue(task, "x", chat_id=chat)

    async def scenario(one: TaskQueue, two: TaskQueue) -> None:
        first, second = await claimed(one), await claimed(two)
        assert [json.loads(claim.raw)["task_id"] for claim in (first, second)] == ["a1", "b1"]
        assert await two.claim(two.next_token()) is None
        await one.finish(first, finished(first))
        assert json.loads((await claimed(two)).raw)["task_id"] == "a2"

    play(light, scenario)


@pytest.mark.parametrize("chat", ['"a"', "-7"])
def test_a_task_that_only_python_reads_is_locked_by_its_chat_too(light: World, chat: str) -> None:
    for number in range(2):
        light.redis.rpush("hcli:tasks", f'{{"task_id":"t{number}","message":"\\ud83d cut","chat_id":{chat}}}')

    async def scenario(one: TaskQueue, two: TaskQueue) -> None:
        assert Task.parse((await claimed(one)).raw).task_id == "t0"
        assert await two.claim(two.next_token()) is None

    play(light, scenario)


def test_finishing_twice_writes_once(light: World) -> None:
    light.enqueue("t1", "one", chat_id=1)

    async def scenario(one: TaskQueue, two: TaskQueue) -> None:
        claim = await claimed(one)
        assert await one.finish(claim, finished(claim))
        assert not await one.finish(claim, finished(claim, session="another"))
        late = Claim(claim.raw, claim.lock, two.next_token())
        assert not await two.finish(late, finished(late)), "nor does a worker that took it over"

    play(light, scenario)
    assert light.redis.llen("hcli:session_history:1") == 2
    assert light.redis.get("hcli:session:1") == b"s"
    assert [int(value) for value in light.redis.hvals(light.redis.keys("hcli:stats:*")[0])] == [1]


def test_keys_of_another_type_cost_themselves_and_not_the_task(light: World) -> None:
    """Redis undoes nothing when a script fails half-way: the in-flight entry goes last."""
    light.enqueue("t1", "one", chat_id=1)
    for name in ("session_history:1", "session_size:1", "mem:unconsolidated:1"):
        light.redis.hset(f"hcli:{name}", "odd", "type")

    async def scenario(one: TaskQueue, _: TaskQueue) -> None:
        claim = await claimed(one)
        assert await one.finish(claim, finished(claim, stats=[("duration_ms", "no number")]))

    play(light, scenario)
    assert light.redis.exists("hcli:memory:t1:user", "hcli:memory:t1:asst", "hcli:results:t1", "hcli:mem:done:t1") == 4
    assert not light.redis.exists("hcli:mem:busy")


def test_a_dead_workers_tasks_go_back_in_order_and_are_counted(light: World) -> None:
    for number in range(3):
        light.enqueue(f"t{number}", "x", chat_id=number + 1)

    async def scenario(dead: TaskQueue, alive: TaskQueue) -> None:
        for _ in range(2):
            await claimed(dead)
        assert await alive.recover() == 0, "whoever claims lives"
        light.redis.delete(f"hcli:mem:lease:{dead.worker}")
        assert await alive.recover() == 2
        for number in range(3):
            assert Task.parse((await claimed(alive)).raw).task_id == f"t{number}"
        assert light.redis.get("hcli:mem:attempts:t0") == b"1"
        assert not light.redis.exists("hcli:mem:attempts:t2")

    play(light, scenario)


def test_a_worker_whose_lease_had_lapsed_is_found_when_it_dies_after_a_new_claim(light: World) -> None:
    light.enqueue("t1", "x", chat_id=1)

    async def scenario(slow: TaskQueue, other: TaskQueue) -> None:
        await slow.beat(None)
        light.redis.delete(f"hcli:mem:lease:{slow.worker}")
        assert await other.recover() == 0  # struck off, with nothing in flight
        await claimed(slow)  # it wakes up, claims before its next beat
        assert await other.recover() == 0, "the claim is a sign of life too"
        light.redis.delete(f"hcli:mem:lease:{slow.worker}")  # and dies
        assert await other.recover() == 1
        assert Task.parse((await claimed(other)).raw).task_id == "t1"

    play(light, scenario)


def test_a_living_worker_is_left_alone(light: World) -> None:
    light.enqueue("t1", "x", chat_id=1)

    async def scenario(one: TaskQueue, two: TaskQueue) -> None:
        await one.beat(3)
        await claimed(one)
        assert await two.recover() == 0

    play(light, scenario)


def test_leaving_puts_back_without_blame(light: World) -> None:
    light.enqueue("t1", "x", chat_id=1)

    async def scenario(one: TaskQueue, _: TaskQueue) -> None:
        await one.beat(None)
        await claimed(one)
        assert await one.leave() == 1

    play(light, scenario)
    assert light.redis.llen("hcli:tasks") == 1
    assert light.redis.keys("hcli:mem:attempts:*") == []


def test_waiting_moves_nothing(light: World) -> None:
    raws = [light.enqueue(f"t{number}", "x", chat_id=1) for number in range(3)]

    async def scenario(one: TaskQueue, _: TaskQueue) -> None:
        assert await one.wait(1)

    play(light, scenario)
    assert light.redis.lrange("hcli:tasks", 0, -1) == raws


def test_a_task_id_used_for_another_message_is_refused_aloud(light: World, redis: Redis) -> None:
    from tests.test_bot_contract import Bot

    running, bot = light.start_dispatcher(), Bot(redis)
    light.enqueue("same", "first message")
    bot.receive("same")
    light.enqueue("same", "first message")  # a repeated push of the same task: nothing happens
    light.enqueue("same", "second message")
    assert "used before" in bot.receive("same")["output"]
    assert bot.turn("same", "user")["content"] == "first message"
    assert redis.llen("hcli:mem:dead") == 1
    running.stop()


def test_a_broken_key_of_one_chat_does_not_stop_the_others(light: World, redis: Redis) -> None:
    from tests.test_bot_contract import Bot

    running, bot = light.start_dispatcher(MAX_CONCURRENT_TASKS="1"), Bot(redis)
    redis.lpush("hcli:session:9912", "not a string")
    assert "went wrong on our side" in bot.ask("hello", 9912)
    assert "stand-in" in bot.ask("hello", 77)
    running.stop()


def test_a_process_is_known_by_its_name() -> None:
    with subprocess.Popen(["sleep", "60"]) as living:
        name = re.sub(r"-\d+-(\w+)$", rf"-{living.pid}-\1", process_name())
        assert host_of(name) == socket.gethostname()
        assert not died_here(name)
        living.kill()
    assert died_here(name), "and reaped"
    assert not died_here(f"another-{name}"), "of another host nothing can be said"
    assert not died_here("no name of ours")
