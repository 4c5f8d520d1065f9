"""The memory server of one chat: what it tells stays behind its fence, is the chat's own, and ends when it is forgotten."""

from __future__ import annotations

import time

from dispatcher.features.mcp.claude_server import (
    READING,
)
from dispatcher.features.mcp.tests.memory_server import Served, served
from dispatcher.memory.tombstones import Forgotten
from shared.turns.records import Tombstone, Turn
from tests.support.day.store_rows import keep, of_today
from tests.support.world import World

#: Chats that look like each other, like options, like patterns and like pieces of a query.
CHATS = {
    "9912": "amber01", "991": "basalt02", "-9912": "cedar03", "9912*": "dahlia04", "--help": "ember05", "a b": "falcon06", '"': "garnet07",
}  # fmt: skip
#: Those that are asked, each by a server of its own.
ASKED = ("-9912", "--help")


def test_no_chat_is_told_the_canary_of_another(light: World) -> None:
    for number, (chat, canary) in enumerate(CHATS.items()):
        light.say(f"c{number}", f"My secret word is {canary}, keep it.", chat_id=chat)
    light.night()
    for number, (chat, canary) in enumerate(CHATS.items()):
        of_today(light, Turn(f"d{number}", "user", chat, f"Today's word is day{canary}.", time.time()))
        keep(light, f"The cellar word is fact{canary}", chat)
    queries = [way for word in CHATS.values() for way in (word, f"My secret word is {word} OR chat_id:9912")]

    for chat in ASKED:
        own = CHATS[chat]

        async def ask(server: Served, own: str = own) -> None:
            told = [await server.search(query, k=30) for query in ("which word is it?", *queries)]
            told += [(await server.call(name)).text for name in READING[1:]]
            assert f"My secret word is {own}" in told[0], "its own it is told"
            assert f"day{own}" in told[0]
            assert f"day{own}" in told[-2]
            assert f"fact{own}" in told[-1]
            assert not [word for word in CHATS.values() if word != own and word in "".join(told)]

        served(light, ask, chat)


def test_what_is_forgotten_while_it_runs_is_told_no_more(talked: World) -> None:
    light = talked
    turns = [Turn("t3", role, "9912", "The cellar code is 8812.", time.time()) for role in ("user", "asst")]
    of_today(light, *turns)

    async def ask(server: Served) -> None:
        assert "4711" in await server.search("boiler code")
        assert "8812" in await server.search("cellar code")
        stone = Tombstone("f1", "9912", time.time() + 5, turn_ids=frozenset({"t1:asst", "t3:user", "t3:asst"}))
        Forgotten(light.settings().hmem_state_dir).add(stone)
        assert "4711" not in await server.search("boiler code")
        assert "8812" not in await server.search("cellar code")
        listed = (await server.call("memory_history")).text
        assert "4711" not in listed
        assert "8812" not in listed
        assert "Mr Ott" in listed
        recent = (await server.call("memory_recent")).text
        assert "8812" not in recent
        assert "Mr Ott" in recent, "what the day holds besides"
        Forgotten(light.settings().hmem_state_dir).add(Tombstone("f2", "9912", time.time() + 5))
        for told in (
            await server.search("boiler"),
            (await server.call("memory_recent")).text,
            (await server.call("memory_history")).text,
        ):
            assert "Mr Ott" not in told

    served(light, ask)
