"""Backups while nights run, a dispatcher answers and turns are written: nothing is in none of the places."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from redis import Redis

from dispatcher.backups.make import bring_together
from dispatcher.backups.redis_part import put_redis_back, read_records, take_redis
from dispatcher.backups.trial import looks
from shared.wire import keys
from tests.support.day.health import redis_server
from tests.support.machine import wait_for
from tests.support.world import World

#: How long the backups are made, in seconds.
BUSY_SECONDS = 15.0


@contextmanager
def meanwhile(*works: Callable[[], object]) -> Iterator[None]:
    """Do these again and again until the end of the block; what one raises is raised there."""
    ended, failed = threading.Event(), list[BaseException]()

    def run(work: Callable[[], object]) -> None:
        while not ended.is_set() and not failed:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - the test says it
                failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert failed == []


def turns_in(tree: Path) -> tuple[set[bytes], set[bytes]]:
    """Names of the turns in the copy of Redis, and in the copy of the archive."""
    waiting = {one["key"] for one in read_records(tree / "redis.jsonl") if one["key"].startswith(b"hcli:memory:")}
    lines = (
        orjson.loads(line)
        for path in (tree / "night" / "archive").glob("seg-*.jsonl")
        for line in path.read_bytes().splitlines()
    )
    return waiting, {line["key"].encode() for line in lines if line["kind"] == "turn"}


def test_no_turn_is_lost_while_nights_delete_and_turns_are_written(light: World, tmp_path: Path) -> None:
    light.say("t0", "the first words", timestamp=1_707_500_000.0)
    light.night()
    written, number = list[bytes](), iter(range(1, 1_000_000))
    where: list[tuple[int, int, int]] = []

    def say() -> None:
        one = next(number)
        written.append(light.say(f"t{one}", f"words of turn {one}", timestamp=1_707_500_000.0 + one))
        time.sleep(0.002)

    with meanwhile(say, lambda: light.command("hmem-night", "run")):
        wait_for(lambda: len(written) > 50, "some turns")
        end, made = time.monotonic() + BUSY_SECONDS, 0
        while time.monotonic() < end:
            before, tree, made = set(written), tmp_path / f"tree-{made}", made + 1
            tree.mkdir()
            parts, _, _ = bring_together(light.settings(), light.redis, tree)
            waiting, archived = turns_in(tree)
            assert not before - waiting - archived
            for name in ("together", "release"):  # what the release was built from is in the copy of the archive
                looks(tree, tmp_path, {"parts": parts})[name]()
            where.append((len(before), len(waiting), len(archived)))
    assert len({archived for _, _, archived in where}) > 2, f"nights ended meanwhile: {where}"
    assert any(waiting < now for now, waiting, _ in where), "and deleted what they had archived"


@pytest.mark.slow
def test_no_message_is_lost_while_a_dispatcher_answers(light: World, tmp_path: Path) -> None:
    running = light.start_dispatcher()
    sent, number = list[str](), iter(range(1, 1_000_000))

    def send() -> None:
        name = f"m{next(number)}"
        light.enqueue(name, f"message {name}", chat_id=9000 + len(sent) % 7)
        sent.append(name)
        time.sleep(0.1)

    seen = set[str]()
    with meanwhile(send):
        end = time.monotonic() + BUSY_SECONDS
        while time.monotonic() < end:
            before, path = set(sent), tmp_path / "redis.jsonl"
            take_redis(light.redis, path)
            with redis_server(tmp_path / "copy", "--save", "") as copy:
                put_redis_back(copy, path)
                places = {name: place_of(copy, name) for name in before}
            assert {name for name, place in places.items() if not place} == set()
            seen |= set(places.values())
    running.stop()
    assert {"answered", "waiting"} <= seen, seen


def place_of(copy: Redis, name: str) -> str:
    """Where a message is in a copy of Redis; "" if it is nowhere, or counts as done without its turns."""
    if copy.exists(keys.done(name)):
        return "answered" if copy.exists(keys.turn(name, "user")) and copy.exists(keys.turn(name, "asst")) else ""
    lists = [copy.lrange(keys.TASKS, 0, -1)]
    lists += [copy.hvals(key) for key in copy.scan_iter(match=keys.inflight("*"))]
    return "waiting" if any(f'"{name}"'.encode() in raw for one in lists for raw in one) else ""


def test_every_type_of_value_comes_back_byte_for_byte(redis: Redis, tmp_path: Path) -> None:
    redis.set("hcli:memory:a:user", bytes(range(256)))
    redis.rpush("hcli:tasks", b"\xff\x00", "two")
    redis.hset("hcli:mem:bot:waiting", "a", b"\xfe")
    redis.zadd("hcli:mem:served", {"9912": 3.5})
    redis.sadd("hcli:mem:workers", "w1")
    redis.hset("hcli:mem:inflight:w1", "token", "task")
    redis.set("hcli:results:x", "soon", px=400)
    redis.set("hcli:mem:lease:w1", "alive", ex=30)
    redis.set("other:program", "not ours")
    path = tmp_path / "redis.jsonl"
    counts = take_redis(redis, path)
    assert counts["turns"] == 1
    kept = {one["key"] for one in read_records(path)}
    assert b"hcli:mem:inflight:w1" in kept
    assert not kept & {b"hcli:mem:lease:w1", b"other:program"}
    assert (
        json.loads(path.read_bytes().splitlines()[0])["key"]
        == base64.b64encode(next(iter(read_records(path)))["key"]).decode()
    )
    time.sleep(0.5)
    with redis_server(tmp_path / "copy", "--save", "") as copy:
        copy.set("hcli:memory:a:user", "newer")
        first = put_redis_back(copy, path)
        assert (first["there"], first["expired"]) == (1, 1)
        for key in kept - {b"hcli:memory:a:user", b"hcli:results:x"}:
            assert copy.dump(key) == redis.dump(key), key
        assert copy.get("hcli:memory:a:user") == b"newer"
        assert put_redis_back(copy, path)["restored"] == 0
