"""Writes tests/data/formats/<version>/: an installation of made-up chats as this version leaves it. Once for each version that is released:

.venv/bin/python -m scripts.format_samples

`installation.tar.gz` has the directories of state, memory and night: two nights, an unfinished third one with a staged import, a forgotten turn,
typed memories; `redis.json` every key that has no expiry of seconds. Tests have each later version take them over (tests/end_to_end/test_formats.py).
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from redis import Redis

from dispatcher.memory.tombstones import Forgotten
from dispatcher.queue.refused import dead_letter
from dispatcher.telegram.waiting import Waiting
from shared.system.formats import program_version
from shared.turns.records import Tombstone, Turn, dumps
from shared.wire import keys
from tests.support.machine import answers, free_port, wait_for
from tests.support.world import REPOSITORY, World

CHAT = "9912"
SAMPLES = REPOSITORY / "tests" / "data" / "formats"
#: Keys that name processes of this host, or that expire within a minute or two.
_PASSING = (
    "hcli:mem:lease:",
    "hcli:mem:workers",
    "hcli:mem:release",
    "hcli:mem:night:owner",
    "hcli:mem:inflight:",
    "hcli:mem:bot:owner",
    "hcli:mem:night:picture",  # pixels
)


def main() -> None:
    """Make the samples of this version, in place of earlier ones of the same version."""
    target = SAMPLES / program_version()
    with tempfile.TemporaryDirectory(prefix="hmem-samples-") as folder:
        port = free_port()
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            client: Redis = Redis.from_url(f"redis://127.0.0.1:{port}/0")
            try:
                wait_for(lambda: answers(client), "redis-server to start")
                world = World(Path(folder) / "host", client, f"redis://127.0.0.1:{port}/0")
                world.root.mkdir()
                live(world)
                target.mkdir(parents=True, exist_ok=True)
                save(world, target)
            finally:
                server.terminate()
    sys.stdout.write(f"{target}: {sum(path.stat().st_size for path in target.iterdir()) // 1024} KiB\n")


def live(world: World) -> None:
    """Two days and nights, and the beginning of a third."""
    world.say("a1", "The boiler code is 4711.")
    world.say("a1", "I will remember the boiler code.", role="asst", timestamp=1_707_500_005.0)
    world.say("a2", "The cat is called Mitzi, and this sentence is to be forgotten.", timestamp=1_707_500_100.0)
    world.say("b1", "We sail on Saturday if the wind holds.", chat_id="-77")
    world.night()
    dispatcher = world.start_dispatcher()
    world.command("hmem", "ask", CHAT, "What is the boiler code?")
    for kind, text in (
        ("fact", "lives in Ghent"),
        ("goal", "paint the fence"),
        ("preference", "prefers short answers"),
    ):
        world.command("hmem", "memory", "add", CHAT, text, "--type", kind)
    assert dispatcher.stop() == 0
    Forgotten(world.settings().hmem_state_dir).add(
        Tombstone("h1", CHAT, 1_707_500_000.0, turn_ids=frozenset({"a9:user"}))
    )
    world.redis.rpush(keys.DEAD, dead_letter(b'{"task_id": "x1", "chat_id": 9912, "message": "an odd one"}', "odd"))
    world.redis.hset(
        keys.BOT_WAITING, "tg-1", Waiting(CHAT, 1_707_500_000.0, text="The answer is on its way.").to_json()
    )
    world.redis.rpush(
        keys.OUTBOX,
        dumps({"id": "o1", "chat_id": int(CHAT), "text": "Tomorrow: paint the fence", "created_at": 1_707_500_000.0}),
    )
    world.push_tombstone(Tombstone("s1", CHAT, 1_800_000_000.0, turn_ids=frozenset({"a2:user"}), erase=True))
    world.say("c1", "The new fence is green.", timestamp=1_707_600_000.0)
    world.night()
    world.say("d1", "The bicycle is in the shed.", timestamp=1_707_700_000.0)
    turns = world.root / "turns.jsonl"
    turns.write_bytes(Turn("old1", "user", CHAT, "The tent lies in the attic.", 1_600_000_000.0).to_json())
    killed = world.command(
        "hmem-night", "backfill", "jsonl", str(turns), check=False, HMEM_CRASH_AT="export:before-commit"
    )
    assert killed.returncode < 0, killed.stderr


def save(world: World, target: Path) -> None:
    """The files, without owner or time, and the keys."""
    with tarfile.open(target / "installation.tar.gz", "w:gz") as packed:
        for name in ("state", "memory", "night"):
            packed.add(world.root / name, name, filter=_anonymous)
    (target / "redis.json").write_text(
        json.dumps(keys_of(world.redis), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )
    said = (target / "redis.json").read_text()
    assert socket.gethostname() not in said, "a key names this host"


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return None if entry.name.endswith((".lock", "/lock", "-wal", "-shm")) else entry


def keys_of(client: Redis) -> dict[str, Any]:
    """Key → its value as JSON: text, list, or object."""
    found: dict[str, Any] = {}
    reading: Any = Redis.from_url(
        f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}/0", decode_responses=True
    )
    for key in sorted(reading.scan_iter()):
        if key.startswith(_PASSING):
            continue
        kind = reading.type(key)
        reads = {
            "string": reading.get, "hash": reading.hgetall, "set": lambda one: {"set": sorted(reading.smembers(one))},
            "list": lambda one: reading.lrange(one, 0, -1), "zset": lambda one: {"zset": reading.zrange(one, 0, -1, withscores=True)},
        }  # fmt: skip
        found[key] = reads[kind](key)
    reading.close()
    return found


if __name__ == "__main__":
    main()
