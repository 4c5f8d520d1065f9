"""The four scripts of the queue on a real Redis: what each promises when it is repeated, overtaken or fed with odd things."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from dispatcher.queue.existing_values import LOOKS, is_signed
from dispatcher.queue.tasks import Claim, TaskQueue
from shared.turns.records import RecordRefused, Task, Turn
from shared.turns.signed import Result
from shared.wire import keys
from shared.wire.client import open_async_redis
from tests.support.day.hcli_bot import Bot
from tests.support.day.queues import claimed, finished, play
from tests.support.machine import wait_for
from tests.support.world import World


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


def stands(redis: Redis, task_id: str) -> Result:
    raw: Any = redis.get(keys.result(task_id))
    return Result.verified("k", task_id, raw)


def test_junk_written_after_the_last_look_makes_way_and_the_bots_own_result_stays(light: World) -> None:
    for name in ("junk", "odd", "cancelled"):
        light.enqueue(name, name, chat_id=name)
    own = Result.sign("k", "cancelled", "Stopped.", "2026-01-01T00:00:00+00:00").to_json()

    async def scenario(one: TaskQueue, _two: TaskQueue) -> None:
        for claim in [await claimed(one) for _ in range(3)]:
            task = Task.parse(claim.raw).task_id
            light.redis.set(keys.result(task), own if task == "cancelled" else b"junk")
            if task == "odd":
                light.redis.delete(keys.result(task))
                light.redis.hset(keys.result(task), "a", "hash")
            assert await one.finish(claim, finished(claim))

    play(light, scenario)
    for name in ("junk", "odd"):
        assert stands(light.redis, name).output == "out"
    assert light.redis.get(keys.result("cancelled")) == own


@pytest.mark.parametrize("refused", [False, True], ids=["finished", "buried"])
def test_who_writes_junk_again_at_every_look_does_not_hold_up_the_answer(light: World, refused: bool) -> None:
    light.enqueue("t1", "one")
    written = list[bytes]()

    def rewritten(task: str, raw: bytes) -> bool:
        """Somebody writes other junk between the look and the next call."""
        written.append(raw)
        light.redis.set(keys.result(task), b"junk %d" % len(written))
        return is_signed("k", task, raw)

    async def scenario(_: TaskQueue, __: TaskQueue) -> None:
        client = open_async_redis(light.settings().redis_url)
        queue = TaskQueue(client, rewritten, light.settings())
        claim = await claimed(queue)
        light.redis.set(keys.result("t1"), b"junk")
        done = finished(claim)
        assert await (queue.bury(claim, "why", "t1", done.result) if refused else queue.finish(claim, done))
        await client.aclose()

    play(light, scenario)
    assert len(written) == LOOKS
    assert stands(light.redis, "t1").output == "out"


def turn_of(task: str, role: str, chat: str, text: str) -> bytes:
    return Turn(task, role, chat, text, 1.0).to_json()


#: What may stand under a used id whose `done` mark has expired, and is not this task's own: its turns.
STANDING: dict[str, dict[str, bytes]] = {
    "another-chats": {"user": turn_of("another-chats", "user", "77", "the key is under the mat")},
    "another-message": {"user": turn_of("another-message", "user", "9912", "the key is under the mat")},
    "an-answer-elsewhere": {"asst": turn_of("an-answer-elsewhere", "asst", "77", "noted")},
    "no-turn": {"user": b"\xff\x00 no turn"},
    "beside-its-own": {"user": turn_of("beside-its-own", "user", "9912", "second message"), "asst": b"{"},
}


def dumped(redis: Redis, task: str = "same") -> dict[str, Any]:
    return {role: redis.dump(keys.turn(task, role)) for role in ("user", "asst")}


def test_a_used_id_is_refused_aloud_after_its_mark_has_expired(light: World, redis: Redis) -> None:
    light.start_dispatcher()
    bot = Bot(redis)
    for task, standing in STANDING.items():
        redis.mset({keys.turn(task, role): raw for role, raw in standing.items()})
        before = dumped(redis, task)
        light.enqueue(task, "second message")
        assert "used before" in bot.receive(task)["output"], task
        assert dumped(redis, task) == before, "byte for byte"
        assert not redis.exists(f"hcli:mem:done:{task}", "hcli:session:9912", "hcli:mem:unconsolidated:9912")
        wait_for(lambda: not redis.hlen("hcli:mem:busy"), "the chat to be free")
    assert redis.llen("hcli:mem:dead") == len(STANDING)

    for _ in range(2):  # the same task is answered again
        light.enqueue("same", "first message")
        assert "stand-in" in bot.receive("same")["output"]
        wait_for(lambda: not redis.hlen("hcli:mem:busy"), "the chat to be free")
        redis.delete("hcli:mem:done:same")
    assert redis.llen("hcli:mem:dead") == len(STANDING)


def test_an_id_that_is_used_by_two_chats_at_once_is_the_first_ones(light: World) -> None:
    """The check at the beginning sees nothing: the scripts that finish decide."""
    for chat in (1, 2, 3):
        light.enqueue("same", f"of chat {chat}", chat_id=chat)

    async def scenario(one: TaskQueue, two: TaskQueue) -> None:
        first, second, third = await claimed(one), await claimed(two), await claimed(one)
        assert await one.finish(first, finished(first))
        turns = dumped(light.redis)
        with pytest.raises(RecordRefused, match="used before"):
            await two.finish(second, finished(second))
        light.redis.delete("hcli:mem:done:same")
        with pytest.raises(RecordRefused, match="used before"):
            await one.finish(third, finished(third))
        assert dumped(light.redis) == turns
        assert light.redis.hlen(keys.inflight(two.worker)) == 1, "still in flight, to be buried"

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
