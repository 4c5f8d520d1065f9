"""A chat sees only itself, and memory that is broken, late or away is less memory: on real nights, with keywords alone and with vectors."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from redis import Redis

from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.prompt.context import Context
from shared.config.settings import Settings
from shared.release.manifest import current_release
from shared.release.parts import part_files
from shared.search.lexical import LexicalIndex
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.turns.records import Tombstone
from shared.wire import keys
from tests.support.day.prompts import assembled
from tests.support.world import World

ODD = [*'9912 991 -9912 * 9912* % a/b " c1 OR chat_id ../9912 ключ'.split(), "a b", "9912 OR 77"]
CHATS = [*ODD, "77", "-100123", "5", "x'--", '{"$ne": ""}']
WORDS = "amber basalt cedar dahlia ember falcon garnet hazel indigo jasper kestrel lichen maple nectar osprey pewter quartz rowan sable teal"
CANARY = {chat: f"{word}{number:02d}" for number, (chat, word) in enumerate(zip(CHATS, WORDS.split(), strict=True))}


def say_all(world: World) -> None:
    for number, (chat, canary) in enumerate(CANARY.items()):
        text = f"My secret word is {canary}, keep it."
        world.say(f"c{number}", text, chat_id=chat, name="Anna")
        world.say(f"c{number}", f"I shall keep {canary}.", chat_id=chat, role="asst", timestamp=1_707_500_001.0)
        world.say(f"d{number}", "We met at the harbour on Monday.", chat_id=chat, timestamp=1_707_600_000.0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[tuple[World, OpenRelease]]:
    """One night over all chats, and its open release, with keywords and vectors."""
    client: Redis = Redis.from_url(redis_url)
    client.flushall()
    world = World(tmp_path_factory.mktemp("served"), client, redis_url)
    say_all(world)
    world.night()
    release = opened(world)
    assert release.vectors_missing is None
    yield world, release
    release.close()
    client.close()


def opened(world: World, settings: Settings | None = None) -> OpenRelease:
    release = OpenRelease(settings or world.settings(), (world.memory_dir / "current").resolve())
    release.open_vectors()
    return release


def queries(canary: str, chat: str) -> list[str]:
    """A foreign canary asked for verbatim, in full-text syntax, and as the filter of a vector store."""
    return [
        canary,
        f"My secret word is {canary}, keep it.",
        f"x OR chat_id:{chat} OR {canary}",
        f'chat:"{chat}" OR body:{canary}',
        f'"{canary}" OR "secret"',
        f"NEAR(secret {canary}, 5)",
        f"{canary[:4]}* OR *",
        f"{{chat body}} : {canary}",
        f"' OR chat_id = '{chat}' --",
        json.dumps({"chat_id": chat}),
        json.dumps({"$or": [{"chat_id": {"$eq": chat}}, {"chat_id": {"$ne": ""}}], "where_document": {"$contains": canary}}),
    ]  # fmt: skip


def test_no_chat_is_told_the_canary_of_another(served: tuple[World, OpenRelease]) -> None:
    world, release = served
    settings = world.settings()
    for number, chat in enumerate(CHATS):
        own = CANARY[chat]
        for turn in range(1, 5):
            # Every chat is asked about the next four, each time in another of the ways: all ways meet all chats.
            other = CHATS[(number + turn) % len(CHATS)]
            ways = queries(CANARY[other], other)
            query = ways[(4 * number + turn) % len(ways)]
            found = assembled(PromptRequest(chat, query), settings, release)
            told = orjson.dumps(found.to_json()).decode().replace(own, "")
            assert not [word for word in CANARY.values() if word in told], (chat, other, query)
            assert all(hit.chunk.chat_id == chat for hit in [*found.used, *found.cut])
        found = assembled(PromptRequest(chat, f"What about {own}?"), settings, release)
        assert any(own in hit.chunk.text for hit in found.used), chat
    for stranger in ("99", "nobody", "9912\n", "", "' OR 1=1 --", "?"):
        found = assembled(PromptRequest(stranger, "secret word harbour"), settings, release)
        assert (found.text, found.used, found.cut) == ("", [], [])


def test_the_commands_tell_no_chat_of_another(served: tuple[World, OpenRelease]) -> None:
    (world, _), chat = served, "*"
    query = f"secret word OR {CANARY['77']}"
    for command in ("search", "context"):
        done = world.command("hmem", command, "--json", "--", chat, query)
        told = done.stdout.replace(CANARY[chat], "").replace(query, "")
        assert not [word for word in CANARY.values() if word in told]


def test_deleting_a_chat_changes_nothing_that_another_recalls(world: World) -> None:
    say_all(world)
    world.night()
    before = opened(world)
    world.redis.rpush(keys.TOMBSTONES, tombstone("77"))
    world.say("new", "another day", chat_id="5", timestamp=1_707_700_000.0)
    world.night()
    after = opened(world)
    assert not after.recall(Query("77", CANARY["77"], 50)).hits
    for chat in ("9912", "*"):
        for query in ("secret word", CANARY["77"], "Where did we meet?"):
            one, two = (
                told(assembled(PromptRequest(chat, query), world.settings(), release)) for release in (before, after)
            )
            assert one == two, (chat, query)
    before.close()
    after.close()


def tombstone(chat: str) -> bytes:
    return Tombstone("forget-1", chat, 1_800_000_000.0).to_json()


def told(context: Context) -> bytes:
    """All that is told of a message but the number of the release and how long it took."""
    reasons = [re.sub(r"release \d+", "release", reason) for reason in context.degraded]
    return orjson.dumps(replace(context, release_run=None, ms=0.0, degraded=reasons).to_json())


# ── less memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def names(context: Context) -> list[str]:
    return [part.name for part in context.parts]


def asked(world: World, change: Callable[[OpenRelease], object] = lambda _: None, **more: Any) -> Context:
    """The context of a question that words and meaning both find, from the release as it is now."""
    release = opened(world, world.settings(**more))
    try:
        change(release)
        return assembled(PromptRequest("9912", "When did the heron come to the pond?"), world.settings(**more), release)
    finally:
        release.close()


def test_without_its_keywords_the_summary_remains_and_then_nothing(world: World) -> None:
    for number in range(8):
        world.say(f"t{number}", f"The heron came to the pond at {number} in the morning.", timestamp=1.7e9 + number)
    world.night()
    context = asked(world)
    assert (names(context), context.degraded) == (["recalled"], [])
    assert all(hit.meaning is not None and hit.scores["bm25"] for hit in context.used)

    shutil.rmtree(world.memory_dir / "current" / "vectors")
    context = asked(world)
    assert names(context) == ["summary", "recalled"]
    assert context.degraded[0].startswith("no vector search:")
    assert all(hit.meaning is None for hit in context.used)

    def damage(release: OpenRelease) -> None:
        assert release._lexical
        release._lexical.close()
        (path,) = part_files(world.memory_dir / "current" / "lexical")
        whole = path.read_bytes()
        path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
        release._lexical = LexicalIndex(path)

    context = asked(world, damage)
    assert names(context) == ["summary"]
    assert any(reason.startswith("no recalled text:") for reason in context.degraded)
    assert json.loads(json.dumps(context.to_json()))["degraded"] == context.degraded

    current = current_release(world.memory_dir)
    assert current is not None
    (current / "chats.sqlite").unlink()
    release = OpenRelease(world.settings(), current)
    nothing = assembled(PromptRequest("9912", "When did the heron come?"), world.settings(), release)
    assert (nothing.text, names(nothing)) == ("", [])
    assert nothing.degraded
    release.close()
