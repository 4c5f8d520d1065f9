"""KEEP_MEDIA by day: the files of a finished message wait in Redis, its turn says so, and a crash between the two changes nothing."""

from __future__ import annotations

import json
import time
from typing import Any

from shared.wire import keys
from shared.wire.media import MOST_BYTES
from tests.nightly.archive.media.kept_media import PHOTO, entry, file_of, sha256, waiting
from tests.support.day.hcli_bot import Bot
from tests.support.machine import wait_for
from tests.support.world import World


def arrive(world: World, *contents: bytes) -> list[dict[str, Any]]:
    """The files as the bot has stored them; the task's entries."""
    for content in contents:
        world.redis.set(f"hcli:mem:media:{sha256(content)}", content)
    return [{name: value for name, value in entry(content).items() if name != "kept"} for content in contents]


def turn(world: World, task_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.redis.get(f"hcli:memory:{task_id}:user") or b"")
    return found


def test_the_files_of_a_finished_message_are_kept_and_reach_the_archive(light: World, bot: Bot) -> None:
    light.start_dispatcher(KEEP_MEDIA="true")
    task = bot.send("what is this?", 9912, media=arrive(light, PHOTO, b"another"))
    bot.receive(task)
    assert [one["kept"] for one in turn(light, task)["media"]] == [True, True]
    assert light.redis.get(f"hcli:mem:kept:{task}:{sha256(PHOTO)}") == PHOTO
    assert light.redis.ttl(f"hcli:mem:kept:{task}:{sha256(PHOTO)}") == -1
    assert "2 waiting for the night" in light.status().stdout
    light.dispatchers[-1].stop()
    light.night()
    assert (waiting(light), file_of(light, task, PHOTO).read_bytes()) == ([], PHOTO)


def test_nothing_is_kept_unless_the_owner_wants_it(light: World, bot: Bot) -> None:
    light.start_dispatcher()
    (one,) = arrive(light, PHOTO)
    task = bot.send("what is this?", 9912, media=[one | {"kept": True}])
    bot.receive(task)
    assert turn(light, task)["media"] == [one], "a task cannot say that its files are kept"
    assert waiting(light) == []


def test_without_room_or_without_the_file_the_turn_says_so_and_is_answered(light: World, bot: Bot) -> None:
    light.start_dispatcher(KEEP_MEDIA="true")
    first = bot.send("small", 9912, media=arrive(light, PHOTO))
    bot.receive(first)
    gone = [entry(b"never stored")]
    taken = f"{MOST_BYTES - 500}:{int(time.time())}:77"
    light.redis.hset(keys.KEPT, "other:" + "0" * 64, taken)
    second = bot.send("too large, and one that has expired", 9912, media=[*arrive(light, b"x" * 990), *gone])
    assert bot.receive(second)["output"]
    assert [one["kept"] for one in turn(light, second)["media"]] == [False, False]
    light.redis.hdel(keys.KEPT, "other:" + "0" * 64)
    assert [key for key in waiting(light) if first.encode() in key] == waiting(light)
    light.dispatchers[-1].stop()
    done = light.command("hmem-night", "run")
    assert "not kept by day: 2 files of messages" in done.stdout


def test_a_dispatcher_killed_between_file_and_turn_keeps_both_once(light: World, bot: Bot) -> None:
    dying = light.start_dispatcher(KEEP_MEDIA="true", HMEM_CRASH_AT="answering:media-kept")
    task = bot.send("what is this?", 9912, media=arrive(light, PHOTO))
    wait_for(lambda: dying.process.poll() is not None, "the dispatcher to die")
    assert len(waiting(light)) == 2
    assert not light.redis.exists(f"hcli:memory:{task}:user")
    light.redis.delete(f"hcli:mem:media:{sha256(PHOTO)}")  # expired meanwhile
    light.start_dispatcher(KEEP_MEDIA="true")
    assert bot.receive(task)["output"]
    assert [one["kept"] for one in turn(light, task)["media"]] == [True], "the repeated task finds it kept"
    sizes: Any = light.redis.hvals("hcli:mem:kept")
    assert [size.split(b":")[0] for size in sizes] == [str(len(PHOTO)).encode()]
