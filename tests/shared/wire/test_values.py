"""Something else under our keys: passed over, or named in a sentence with what to do, by night and by day; and nothing of it stays."""

from __future__ import annotations

import asyncio
import re

import pytest
from redis import Redis, ResponseError

from dispatcher.health.doctor import CHECKS, carry_out
from dispatcher.health.findings import Setup
from dispatcher.health.status import read_status
from dispatcher.queue.tasks import TaskQueue
from shared.errors import NightRunning, PublishFailed, RedisUnavailable
from shared.system.command import translate
from shared.wire import keys
from shared.wire.client import open_async_redis, open_redis
from shared.wire.key_table import all_keys
from shared.wire.values import count_of, living, shown
from tests.support.world import World

WORKER = "fake"
#: Of each pattern of ours, the key of this worker, task or chat.
OURS = {
    re.sub(r"\{[^}]*\}.*", WORKER, key.pattern): key.type for key in all_keys() if key.pattern.startswith("hcli:mem:")
}
#: Of these, what a night asks for beside its own.
NIGHTS = (keys.RELEASE, keys.WORKERS, keys.TOMBSTONES, keys.lease(WORKER))


def put_wrong(client: Redis, name: str) -> None:
    client.delete(name)
    if OURS[name] == "list":
        client.set(name, "abc")
    else:
        client.rpush(name, "abc")


def stands_as_a_dispatcher(client: Redis, says: str, name: str = WORKER) -> None:
    client.hset(keys.RELEASE, name, says)
    client.sadd(keys.WORKERS, name)
    client.set(keys.lease(name), "1")


def sentence(error: Exception) -> str:
    ours = translate(error)
    assert ours is not None, repr(error)
    return str(ours)


def test_what_is_shown_of_a_name_moves_no_cursor_and_ends() -> None:
    assert shown(b"\x1b[2J\nname\xff") == "�[2J�name�"
    assert len(shown("x" * 1000)) == 100
    assert [count_of(raw) for raw in (None, b"12", b"abc", b"1e9", b"9" * 30)] == [0, 12, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("says", ["9" * 5000, "1"])
def test_who_stands_in_redis_as_a_dispatcher_can_fail_a_night_with_a_sentence_only(light: World, says: str) -> None:
    light.say("t1", "The boiler code is 4711.")
    light.night()
    stands_as_a_dispatcher(light.redis, says)
    light.say("t2", "The attic code is 4712.")
    with pytest.raises(PublishFailed, match="Dispatcher fake did not switch to release 2") as failed:
        light.night(publish_wait=0.3)
    assert "redis-cli SREM hcli:mem:workers NAME" in str(failed.value)
    assert ("is not a run number" in str(failed.value)) == (says != "1")
    assert read_status(light.settings(), light.redis)["workers"] == living(light.redis)
    setup = Setup(light.settings(), light.redis)
    assert not [check.name for check in CHECKS if "redis" in check.needs and carry_out(check, setup).code == 1]
    assert living(light.redis) == {"fake": 1 if says == "1" else None}
    light.redis.srem(keys.WORKERS, WORKER)
    assert light.night()[0]["run"] == 2


def test_a_counter_that_counts_no_nights_is_named_and_leaves_nothing_behind(light: World) -> None:
    light.say("t1", "The boiler code is 4711.")
    light.night()
    for value in ("-7", "abc"):
        light.redis.set(keys.NIGHT_RUN, value)
        with pytest.raises(RedisUnavailable, match="redis-cli DEL hcli:mem:night:run"):
            light.night()
    assert not light.redis.exists(keys.NIGHT_OWNER)
    light.redis.delete(keys.NIGHT_RUN)
    assert light.night()[-1]["run"] == 2


def test_a_lease_that_is_no_nights_is_named(light: World) -> None:
    light.redis.set(keys.NIGHT_OWNER, b"\x1b[2J\xff " * 100)
    with pytest.raises(NightRunning, match="redis-cli DEL hcli:mem:night:owner") as refused:
        light.night()
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("name", [name for name in OURS if ":night:" in name or name in NIGHTS])
def test_a_key_of_another_type_is_passed_over_by_a_night_or_named(light: World, name: str) -> None:
    light.say("t1", "The boiler code is 4711.")
    stands_as_a_dispatcher(light.redis, "1")
    put_wrong(light.redis, name)
    try:
        light.night(publish_wait=0.1)
    except PublishFailed as error:
        assert WORKER in str(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be a sentence
        assert name in sentence(error), sentence(error)


def test_a_key_of_another_type_is_passed_over_by_day_or_named(light: World) -> None:
    settings, client = light.settings(), open_redis(light.url)
    for name in OURS:
        client.flushall()
        stands_as_a_dispatcher(client, "1")
        put_wrong(client, name)
        try:
            read_status(settings, client)
        except ResponseError as error:
            assert name in sentence(error), sentence(error)
        for finding in (carry_out(check, Setup(settings, client)) for check in CHECKS if "redis" in check.needs):
            assert finding.code != 1, finding
            assert "has an unexpected value" not in finding.sentence or name in finding.sentence
    client.close()


def test_the_keys_are_named_also_where_a_script_stumbles(light: World) -> None:
    light.redis.set(keys.WORKERS, "abc")
    light.enqueue("t1", "hello")

    async def claim() -> str:
        async with open_async_redis(light.settings().redis_url) as client:
            queue = TaskQueue(client, lambda task_id, raw: True, light.settings())
            with pytest.raises(ResponseError, match="WRONGTYPE") as failed:
                await queue.claim(queue.next_token())
            return str(failed.value)

    told = asyncio.run(claim())
    assert "hcli:tasks or hcli:mem:busy" in told
    assert "hcli:mem:workers" in told
