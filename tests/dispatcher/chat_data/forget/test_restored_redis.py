"""After `hmem forget`, a Redis from before is put back, and a list of memories from before is imported: neither brings anything back."""

from __future__ import annotations

import json
import time
from contextlib import closing, nullcontext
from typing import Any

import pytest

from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.session_history import conversation_of
from dispatcher.memory.tombstones import FORGOTTEN, Forgotten, erases
from shared.hooks import feature_names
from shared.turns.records import Task, Tombstone, dumps
from tests.dispatcher.chat_data.forget.test_every_layer import content_of
from tests.support.day.forgetting_world import CANARIES, CHAT, OTHERS, hmem, result_of
from tests.support.day.talking import CLAUDE, Talk
from tests.support.world import World

ENTRY = {"user": "user", "asst": "assistant"}


def copy_of(world: World) -> dict[bytes, tuple[bytes, int]]:
    """All of Redis: value and expiry of every key."""
    client: Any = world.redis
    return {key: (client.dump(key), max(0, client.pttl(key))) for key in client.scan_iter()}


def put_back(world: World, copy: dict[bytes, tuple[bytes, int]]) -> None:
    world.redis.flushall()
    for key, (value, expiry) in copy.items():
        world.redis.restore(key, expiry, value)


@pytest.mark.parametrize(("mode", "kind"), [("replay", "chat"), ("resume", "turn")])
def test_a_redis_from_before_brings_nothing_back(light: World, mode: str, kind: str) -> None:
    light.environment |= {"CLAUDE_BIN": CLAUDE, "SESSION_MODE": mode, "CONSOLIDATION_INTERVAL": "1", "SESSION_TOKENS": "50"}  # fmt: skip
    talk = Talk(light)
    # What is forgotten by its ids may be dated after its forgetting, where the bot's clock is ahead.
    said_at = time.time() + (60 if kind == "turn" else -60)
    running = light.start_dispatcher()
    talk.say(f"Listen: {CANARIES[0]}", f"I hear: {CANARIES[0]}", at=said_at)
    talk.say(OTHERS[0], at=said_at + 10)
    talk.consolidated()
    assert running.stop() == 0

    queued = [talk.send(f"{word}: {CANARIES[1]}", at=said_at + 20) for word in ("queued", "deadly", "ended")]
    light.redis.set(f"hcli:mem:attempts:{queued[1]}", "3")
    light.redis.set(f"hcli:mem:cancel:{queued[2]}", "1")
    before = copy_of(light)
    running = light.start_dispatcher()
    assert {talk.reply(one) for one in queued} > {"All right."}, "they were answered before the forgetting"
    assert running.stop() == 0
    asked = [f"--chat={CHAT}"] if kind == "chat" else [f"--turn={one}" for one in (f"{CHAT}-1", *queued)]
    assert hmem(light, "forget", *asked, "--yes", "--later").returncode == 0
    put_back(light, before)
    requests = len(talk.requests())

    seen = hmem(light, "context", CHAT, "what did I say?", "--json").stdout
    told = {"hmem context": seen}
    if "mcp" in feature_names():
        from dispatcher.features.mcp.tools import ChatMemory

        with closing(ChatMemory(light.settings(), CHAT)) as memory:
            told["memory_recent"] = memory.history(10)
    running = light.start_dispatcher()
    replies = [talk.reply(one) for one in queued]
    answer = talk.asked("what did I say?")
    again = talk.asked("and now?")
    assert running.stop() == 0
    told["prompt"] = answer.whole
    brought_back = [
        name for name, text in (told | {"the next": again.whole}).items() if "zanzibar" in text or "жираф" in text
    ]
    assert (brought_back, replies, kept(light)) == ([], [FORGOTTEN] * 3, [])
    assert result_of(light, queued[0]) == FORGOTTEN, "and it is signed"
    assert {OTHERS[0] in text for text in told.values()} == {kind == "turn"}
    assert (answer.resumed, again.resumed) == (False, mode == "resume")
    assert len(talk.requests()) == requests + 2, "Claude was asked about nothing else"


def kept(world: World) -> list[str]:
    """Where a canary is, but for the turns that were put back and their answer: the night takes those, and the answer expires."""
    client: Any = world.redis
    put_back = (f"hcli:memory:{CHAT}-1:user", f"hcli:memory:{CHAT}-1:asst", f"hcli:results:{CHAT}-1")
    names = [name for raw in client.scan_iter() if (name := raw.decode()) not in put_back]
    held = [name for name in names if any(text.encode() in content_of(world, name.encode()) for text in CANARIES)]
    store = StoreLayer(world.settings())
    held += [stored.turn.turn_id for stored in store.turns.every() if any(x in stored.turn.content for x in CANARIES)]
    held += [summary.session for summary in store.summaries.every() if any(x in summary.text for x in CANARIES)]
    store.close()
    return held


def entry(role: str, at: float) -> bytes:
    return dumps({"role": ENTRY[role], "content": f"{role} {at:g}", "timestamp": at})


def told(entries: list[bytes], *stones: Tombstone) -> list[str]:
    said, gone = conversation_of(entries, stones)
    assert len(said) + len(gone) == len(entries)
    return [one.content for one in said]


def test_which_entries_of_a_conversation_are_left_out() -> None:
    entries = [entry("user", 100), entry("asst", 103), entry("user", 110), entry("asst", 111)]
    everything = ["user 100", "asst 103", "user 110", "asst 111"]
    named = frozenset({"t:user", "t:asst"})
    assert told(entries) == everything
    assert told(entries, Tombstone("f", CHAT, 200.0), Tombstone("g", CHAT, 200.0, turn_ids=named)) == everything
    assert told(entries, Tombstone("e", CHAT, 105.0, erase=True)) == everything[2:]
    assert told(entries, Tombstone("e", CHAT, 200.0, before=103.0, erase=True)) == everything[1:]
    at = {"t:user": 108.0, "t:asst": 113.5}
    assert told(entries, Tombstone("e", CHAT, 200.0, turn_ids=named, erase=True, said_at=at)) == [*everything[:2], "asst 111"]  # fmt: skip
    at = {"t:asst": 104.9}
    assert told(entries, Tombstone("e", CHAT, 200.0, turn_ids=named, erase=True, said_at=at)) == ["user 100", *everything[2:]]  # fmt: skip


def test_which_tasks_are_not_answered() -> None:
    def gone(submitted_at: float | None, stone: Tombstone) -> bool:
        return erases([stone], Task("t", CHAT, "x", submitted_at=submitted_at), 300.0)

    stone = Tombstone("e", CHAT, 200.0, erase=True)
    assert [gone(at, stone) for at in (199.0, 201.0, None)] == [True, False, False]
    assert gone(299.0, Tombstone("e", CHAT, 200.0, turn_ids=frozenset({"t:user"}), erase=True))
    assert not gone(100.0, Tombstone("f", CHAT, 200.0)), "what is only hidden is answered"


def imported(world: World, name: str, lines: list[Any]) -> dict[str, Any]:
    path = world.root / name
    path.write_bytes(b"\n".join(dumps(line) for line in lines))
    done = hmem(world, "memory", "import", CHAT, str(path), "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_an_import_takes_back_no_memory_that_is_forgotten(light: World) -> None:
    now = time.time()
    forgotten = Forgotten(light.root / "state")
    forgotten.add(Tombstone("e1", CHAT, now - 50, before=now - 500, erase=True))
    forgotten.add(Tombstone("e2", CHAT, now - 50, turn_ids=frozenset({"t:user", "t:asst"}), erase=True))
    forgotten.add(Tombstone("f1", CHAT, now - 50, turn_ids=frozenset({"hidden:user"})))
    lines = [
        {"fact": CANARIES[0], "created": now - 600},
        {"fact": CANARIES[1], "created": now - 60, "source_turn": "other:user t:user"},
        {"fact": OTHERS[0], "created": now - 60, "source_turn": "hidden:user"},
        {"fact": OTHERS[1], "created": now - 400},
        "a flat list has no times",
    ]
    first = imported(light, "memories.jsonl", lines)
    assert (first["added"], first["known"], first["forgotten"], first["refused"]) == (3, 0, 2, [])
    second = imported(light, "memories.jsonl", lines)
    assert (second["added"], second["known"], second["forgotten"]) == (0, 3, 2)
    said = hmem(light, "memory", "import", CHAT, str(light.root / "memories.jsonl")).stdout.splitlines()[-1]
    assert said == "New memories: 0, already known: 3. Forgotten before, and not imported: 2."
    day = DayMemory(light.settings(), nullcontext)
    assert {memory.text for memory in day.memories.every()} == {*OTHERS, "a flat list has no times"}
    day.close()
