"""What `/forget` finds: in the release alone, in whatever writing, and never more than a tombstone should name."""

from __future__ import annotations

import re

import pytest

from dispatcher.chat_data.forget.in_chat import ChatSelection, select
from dispatcher.memory.day.open_memory import open_memory
from shared.turns.records import Turn
from tests.support.world import World


def ask(world: World, message: str) -> str:
    return world.command("hmem", "talk", "9912", "--say", message).stdout.rstrip("\n")


def selected(world: World, kind: str, words: str = "", waiting: list[Turn] | None = None) -> ChatSelection:
    settings = world.settings()
    with open_memory(settings) as memory:
        return select(settings, memory.day, waiting or [], "9912", ChatSelection(kind, "7"), words=words)


@pytest.mark.slow
def test_turns_of_the_release_are_found_and_no_later_night_has_them(light: World) -> None:
    for number, text in enumerate(("Our parrot Coco is green", "The boiler was repaired", "COCO likes nuts")):
        light.say(f"t{number}", text)
    light.say("t9", "Coco in another chat", chat_id="77")
    light.night()
    assert light.redis.keys("hcli:memory:*") == []
    light.environment["DAY_STORE_URL"] = "none"
    dispatcher = light.start_dispatcher()
    shown = ask(light, "/forget coco")
    assert "2 messages" in shown, "both of this chat, and none of another one"
    (digest,) = re.findall(r"/forget yes ([0-9a-f]{16})", shown)
    assert "Forgotten: 2 messages" in ask(light, f"/forget yes {digest}")
    assert "found nothing" in ask(light, "/forget coco")
    history = light.command("hmem", "history", "9912").stdout
    assert ("boiler" in history, "oco" in history) == (True, False)
    dispatcher.stop()
    light.say("t10", "A new day")
    light.night()
    assert "oco" not in light.command("hmem", "history", "9912").stdout
    assert "oco" in light.command("hmem", "history", "77").stdout


def turns(number: int) -> list[Turn]:
    return [Turn(f"t{at}", "user", "9912", f"message {at}", 1_790_000_000.0 + at, "Ada") for at in range(number)]


def test_a_selection_names_exactly_what_was_shown(light: World) -> None:
    found = selected(light, "words", "MESSAGE  1", turns(12))
    assert found.turn_ids == tuple(sorted(("t1:user", "t10:user", "t11:user")))
    assert [turn.content for turn in found.shown] == ["message 1", "message 10", "message 11"]
    again = ChatSelection.parse(found.to_json())
    assert again.digest("9912") == found.digest("9912")
    assert again.digest("77") != found.digest("9912")
    (tombstone,) = again.tombstones("9912", 5.0)
    assert tombstone.turn_ids == frozenset(found.turn_ids)
    assert "message" not in str(found.to_json().values()).replace("messages", "")


def test_the_whole_chat_is_what_was_shown_and_not_what_is_said_in_the_same_second(light: World) -> None:
    settings, shown = light.settings(), turns(3)
    answer = Turn("t2", "asst", "9912", "yes", 1_790_000_002.4)
    with open_memory(settings) as memory:
        asked = ChatSelection("all", "7", before=1_790_000_002.5)
        found = select(settings, memory.day, [*shown, answer], "9912", asked)
    assert (found.messages, found.turn_ids) == (4, ("t2:asst", "t2:user"))
    stones = found.tombstones("9912", 1_790_000_009.0)
    assert all(any(stone.covers(turn) for stone in stones) for turn in (*shown, answer))
    later = Turn("t3", "user", "9912", "after the preview, with the time of a whole second", 1_790_000_002.0)
    assert not any(stone.covers(later) for stone in stones)
