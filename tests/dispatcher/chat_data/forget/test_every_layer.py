"""A person's words in every layer of both hosts, and `hmem forget`: nothing is left anywhere, nobody else loses a byte, nothing brings it back."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, cast

import pytest

from shared.release import retention
from tests.support.day.forgetting_world import CHAT, OTHER, files_of, keys_of, planted
from tests.support.machine import wait_for
from tests.support.night.archives import archive, places, texts
from tests.support.world import BINARIES, World

#: Words of the canaries; what finds them here is no code of the product.
WORDS = ("zanzibar", "жираф", "канареечный")


def in_redis(world: World, *words: str) -> list[bytes]:
    """Keys whose name or content holds one of the words, as it is or as JSON escapes it."""
    needles = [form for word in words for form in (word.encode(), json.dumps(word)[1:-1].encode())]
    return sorted(
        key
        for key in world.redis.scan_iter()
        if any(n in part for n in needles for part in (key, content_of(world, key)))
    )


def content_of(world: World, key: bytes) -> bytes:
    """All that a key holds."""
    redis: Any = world.redis
    read: dict[bytes, Callable[[], Any]] = {
        b"string": lambda: [redis.get(key)],
        b"list": lambda: redis.lrange(key, 0, -1),
        b"hash": lambda: [part for pair in redis.hgetall(key).items() for part in pair],
        b"set": lambda: redis.smembers(key),
        b"zset": lambda: redis.zrange(key, 0, -1),
    }
    return b"\n".join(read[redis.type(key)]())


@pytest.fixture
def full(world: World) -> World:
    """Both chats in every layer of both hosts, with a mirror, both indexes and an export from before."""
    world.environment |= {
        "ARCHIVE_MIRROR": str(world.root / "mirror"), "NIGHT_INDEXES": "sqlite,chroma", "MEMORY_BACKEND": "chroma",
    }  # fmt: skip
    (world.root / "mirror").mkdir()
    planted(world)
    incoming = world.memory_dir / "incoming" / "9.9"
    incoming.mkdir(parents=True)
    (incoming / "lexical").write_text("фиолетовый жираф")
    world.command("hmem-night", "export-archive", "--out", str(world.root / "old-export"))
    shutil.copytree(world.root / "mirror", world.root / "old-mirror")
    return world


def left(world: World) -> list[str]:
    """Where the words still are, but for what the owner took out of the house before."""
    return [place for place in places(world, *WORDS) if not place.startswith(("old-", "dispatcher-"))]


def forget(world: World, *arguments: str, code: int = 0, **more: str) -> dict[str, Any]:
    done = world.command("hmem", "forget", *arguments, "--json", check=False, **more)
    assert done.returncode == code, done.stdout + done.stderr
    return cast(dict[str, Any], json.loads(done.stdout)[-1])


def others(world: World) -> tuple[dict[str, bytes], dict[bytes, bytes]]:
    """What is the other chat's alone."""
    files = files_of(world, OTHER)
    return {name: content for name, content in files.items() if "/state/" in name}, keys_of(world, OTHER)


def test_a_chat_is_gone_from_every_layer_and_nothing_brings_it_back(full: World) -> None:
    world = full
    before, in_redis_before = places(world, *WORDS), in_redis(world, *WORDS)
    for layer in ("night/archive/seg-1", "mirror/seg-1", "/lexical/",
                  "incoming", "state/day-store.sqlite", "state/chats", "state/prompts", ".claude/projects", "/chats/"):  # fmt: skip
        assert any(layer in place for place in before), layer
    assert len(in_redis_before) > 10
    mine = others(world)

    receipt = forget(world, f"--chat={CHAT}", "--yes")

    assert left(world) == []
    assert in_redis(world, *WORDS) == []
    assert (receipt["complete"], receipt["scan"]["found"], receipt["scan"]["unreadable"]) == (True, [], [])
    assert receipt["scan"]["needles"] > 5 and receipt["scan"]["files"] > 20
    assert others(world)[0] == mine[0]
    assert len(retention.release_runs(world.memory_dir)) == 1
    assert not any("zanzibar" in text for text in texts(world).values())
    assert any("tortoise" in text for text in texts(world).values())

    _talks_again(world)
    _old_copies_bring_nothing_back(world)


def _talks_again(world: World) -> None:
    """What the chat says from now on is answered, and with the next night archived and recalled."""
    running = world.start_dispatcher()
    world.enqueue("later-1", "we bought a kayak in Bergen", chat_id=CHAT)
    wait_for(lambda: world.redis.exists("hcli:results:later-1"), "the answer")
    running.stop()


def _old_copies_bring_nothing_back(world: World) -> None:
    """The export from before, the mirror from before, a Redis from before."""
    imported = world.command("hmem-night", "backfill", "jsonl", str(world.root / "old-export"))
    assert "forgotten" in imported.stdout
    assert left(world) == []
    for path in (world.root / "old-mirror").iterdir():
        shutil.copyfile(path, world.root / "mirror" / path.name)
    shutil.copyfile(world.root / "old-mirror" / "seg-1.jsonl", archive(world) / "seg-1.jsonl")
    world.say("old-9912-0", "the zanzibar lighthouse canary sleeps at noon", chat_id=CHAT)
    assert left(world) != []
    world.night()
    world.night()
    assert left(world) == []
    assert not any("zanzibar" in text for text in texts(world).values())
    assert "we bought a kayak in Bergen" in texts(world).values()
    assert "kayak" in world.command("hmem", "search", CHAT, "kayak").stdout


@pytest.mark.slow
def test_a_forgetting_waits_for_a_night_that_has_the_words_in_hand(light: World) -> None:
    planted(light)
    light.say("a7", "the zanzibar ferry leaves at nine", chat_id=CHAT)
    begun, told = light.root / "begun", light.root / "told"
    command = f"sh -c 'touch {begun}; while [ -e {begun} ]; do sleep .1; done'"
    with subprocess.Popen(
        [str(BINARIES / "hmem-night"), "run"], env=light.variables(RESTART_COMMAND=command), stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as night:  # fmt: skip
        wait_for(begun.exists, "the night")
        assert any("zanzibar ferry" in text for text in texts(light).values())
        asked = [str(BINARIES / "hmem"), "forget", f"--chat={CHAT}", "--yes", "--json"]
        with told.open("wb") as log, subprocess.Popen(
            asked, env=light.variables(), stdout=subprocess.PIPE, stderr=log
        ) as forgetting:  # fmt: skip
            wait_for(lambda: b"Another night is running" in told.read_bytes(), "the forgetting to wait")
            begun.unlink()
            (receipt,) = json.loads(forgetting.communicate()[0])
        assert (night.wait(), forgetting.returncode) == (0, 0)
    assert receipt["complete"]
    assert (left(light), in_redis(light, *WORDS)) == ([], [])
