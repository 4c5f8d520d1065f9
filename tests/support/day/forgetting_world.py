"""A world in which one chat has said something in every layer of the day host, and another chat as well."""

from __future__ import annotations

import json
import re
import subprocess
import time
from functools import partial
from typing import Any

from redis import Redis

from dispatcher.chat_data.forget.layers.redis import RedisLayer
from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.chat_data.forget.request import ForgetRequest, Scope
from dispatcher.memory.store.memories import Memory, MemoryType
from dispatcher.memory.store.summaries import SessionSummary
from dispatcher.queue.refused import dead_letter
from shared.system.files import safe_name
from shared.turns.records import Tombstone, Turn, dumps, loads_object
from shared.turns.signed import PartialAnswer, Result
from tests.support.processes.forked import constant
from tests.support.world import SECRET, World

CHAT, OTHER = "9912", "7700000077"  # no part of a random id
CANARIES = ["the zanzibar lighthouse canary sleeps at noon", "фиолетовый жираф читает канареечный роман"]
OTHERS = ["the neighbours keep a quiet tortoise in the attic", "соседи держат спокойную черепаху на чердаке"]


def planted(world: World) -> dict[bytes, bytes]:
    """Both chats in every layer; Redis' keys of the other one as they are."""
    plant_archive(world)
    for chat, texts in ((OTHER, OTHERS), (CHAT, CANARIES)):
        plant_redis(world, chat, texts)
        plant_store(world, chat, texts)
        plant_files(world, chat, texts)
    return keys_of(world, OTHER)


def plant_archive(world: World) -> None:
    """A night that has archived, and published, an exchange of each chat."""
    for chat, texts in ((OTHER, OTHERS), (CHAT, CANARIES)):
        for number, text in enumerate(texts):
            world.say(f"old-{chat}-{number}", text, chat_id=chat)
    world.night()


def plant_redis(world: World, chat: str, texts: list[str]) -> None:
    redis, now = world.redis, time.time() - 60
    redis.hset(f"hcli:mem:chat:{chat}", "timezone", "Europe/Berlin")
    for number, text in enumerate(texts):
        task = f"new-{chat}-{number}"
        world.say(task, text, chat_id=chat, timestamp=now, session=f"session-{chat}")
        redis.set(f"hcli:results:{task}", Result.sign(SECRET, task, text, "now").to_json())
        redis.set(f"hcli:mem:partial:{task}", PartialAnswer(chat, 1, text).to_json(SECRET, task))
        redis.rpush(f"hcli:mem:unconsolidated:{chat}", f"{task}:user")
        redis.rpush("hcli:mem:dead", dead_letter(dumps({"task_id": task, "chat_id": chat, "message": text}), "odd"))
        damaged = f'{{"chat_id": {chat}, "message": "{text}'.encode() + b"\xff"
        redis.rpush("hcli:mem:dead", dead_letter(damaged, "bad"))
        tag = {"kind": "remember", "number": 1, "text": text, "options": {}}
        tags = {"task_id": task, "chat_id": chat, "session": "", "said_at": now, "tags": [tag]}
        redis.rpush("hcli:mem:tags", dumps(tags))
        redis.rpush("hcli:mem:outbox:main", dumps({"id": task, "chat_id": chat, "text": text, "created_at": now}))
        redis.hset("hcli:mem:bot:waiting:main", f"words-{task}", dumps({"chat": chat, "at": now, "text": text}))
        redis.rpush(f"hcli:session_history:{chat}", dumps({"role": "user", "content": text, "timestamp": now}))
        redis.rpush(f"hcli:teach:{chat}:turns", dumps({"role": "user", "content": text}))
        world.enqueue(f"queued-{chat}-{number}", text, chat_id=chat)
        redis.set(f"hcli:mem:bot:seen:{chat}-{number}", dumps({"task": task, "digest": "0", "told": False}))
    redis.set(f"hcli:memory:broken-{chat}:user", f'{{"chat_id": "{chat}", "content": "{texts[0]}"')
    redis.set(f"hcli:session:{chat}", f"session-{chat}")
    redis.set(f"hcli:session_size:{chat}", "10")
    redis.hset("hcli:mem:holds", chat, dumps({"since": now, "next": now, "why": "it is overloaded"}))
    redis.rpush(f"hcli:mem:why:{chat}", dumps({"hits": [{"text": texts[0]}]}))
    redis.hset(f"hcli:mem:spent:{chat}", "session", f"session-{chat}")
    for day in ("2026-11-21", "2026-11-22"):
        redis.hset(f"hcli:mem:stats:{day}:{chat}", "tasks", 3)


def plant_store(world: World, chat: str, texts: list[str]) -> None:
    store, now = StoreLayer(world.settings()), time.time() - 60
    for number, text in enumerate(texts):
        task = f"new-{chat}-{number}"
        turn = f"{task}:user"
        store.turns.store([Turn(task, "user", chat, text, now, None, f"session-{chat}")])
        store.summaries.store(SessionSummary(chat, f"session-{number}", text, now, now, now, (turn,)))
        store.memories.add(Memory(chat, MemoryType.FACT, text, created=now, source_turn=turn))
        for rows in store.of_features:
            needed = {one.name: "" for one in rows.columns if not (one.nullable or one.primary_key)}
            rows.insert(needed | {"chat_id": chat, "text": text, "created": now, "source_turn": turn})
        store.actions.apply_once(chat, task, 1, "remember", partial(outcome, text), now=now)
    store.close()


def outcome(text: str, _connection: object) -> str:
    return json.dumps({"say": text})


def plant_files(world: World, chat: str, texts: list[str]) -> None:
    state = world.root / "state"
    directory = state / "chats" / safe_name(chat)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "notes.txt").write_text("\n".join(texts))
    projects = world.root / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(directory))
    projects.mkdir(parents=True)
    for session in (f"session-{chat}", f"earlier-{chat}"):
        lines = [{"cwd": str(directory), "message": text} for text in texts]
        (projects / f"{session}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if chat == CHAT:
        prompts = state / "prompts" / "of-a-dead-one"
        prompts.mkdir(parents=True)
        (prompts / "prompt.md").write_text(texts[1])


def keys_of(world: World, chat: str) -> dict[bytes, bytes]:
    """Redis' keys with that chat in their name, as DUMP gives them."""
    found: Any = [key for key in world.redis.scan_iter() if chat.encode() in key]
    return {key: world.redis.dump(key) for key in found}  # type: ignore[misc]


def files_of(world: World, chat: str) -> dict[str, bytes]:
    """Files with that chat in their path."""
    return {
        str(p): p.read_bytes() for p in world.root.rglob("*") if p.is_file() and chat in str(p.relative_to(world.root))
    }


def forget_in_redis(client: Redis, chat: str) -> None:
    """What `hmem forget --chat` takes out of Redis, the features' keys included."""
    layer = RedisLayer(client)
    layer.remove(layer.find(Scope(ForgetRequest("chat", chat), [Tombstone("f", chat, time.time(), erase=True)])))


def result_of(world: World, task_id: str) -> str:
    raw: Any = world.redis.get(f"hcli:results:{task_id}")
    assert Result.parse(raw).verify(SECRET, task_id)
    return str(loads_object(raw)["output"])


def hmem(world: World, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """`hmem …` to its end, whatever its exit code is."""
    return world.command("hmem", *arguments, check=False, **more)


def impatient(world: World, *arguments: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """`hmem …` to its end, which waits only so many seconds for tasks to end and for caches to be dropped."""
    forget = "dispatcher.chat_data.forget"
    ends, drops = f"{forget}.layers.tasks:TASK_END_SECONDS", f"{forget}.steps:DROPPING_SECONDS"
    with constant(ends, seconds), constant(drops, seconds):
        return hmem(world, *arguments)
