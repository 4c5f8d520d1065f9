"""`hmem memory`: the same store and the same words as `/memory`, while no dispatcher runs."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from typing import Any, cast

import pytest

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.store.memories import MemoryType
from dispatcher.memory.tombstones import Forgotten
from shared.turns.records import Tombstone, Turn
from tests.support.world import World


def memory(world: World, *arguments: str, code: int = 0) -> str:
    """What `hmem memory …` says: standard output, or the error's sentence."""
    done = world.command("hmem", "memory", *arguments, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def listed(world: World, chat: str = "9912") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(memory(world, "list", chat, "--json"))["memories"]
    return found


@pytest.mark.slow
def test_what_is_added_is_listed_done_and_forgotten(light: World) -> None:
    assert memory(light, "list", "-100123", code=24).startswith("There is no chat -100123.")
    saved = memory(light, "add", "-100123", " The boiler is a Vaillant ")
    assert saved == "Saved as number 1: The boiler is a Vaillant\n"
    goal = ("--type", "goal", "--deadline", "2031-12-01", "--importance", "5")
    memory(light, "add", "-100123", "paint the kitchen", *goal)
    said = json.loads(memory(light, "add", "-100123", "short answers", "--type", "preference", "--json"))
    assert (said["new"], said["said"]) == (True, "Saved as number 3: short answers")
    again = json.loads(memory(light, "add", "-100123", "the boiler is a Vaillant", "--json"))
    assert (again["new"], again["said"]) == (False, "Already saved as number 1: The boiler is a Vaillant")
    assert memory(light, "list", "-100123") == (
        "Facts:\n1. The boiler is a Vaillant\n\nActive Goals:\n2. paint the kitchen (by Monday 1 December 2031)\n\n"
        "Preferences:\n3. short answers\n"
    )
    found = {one["number"]: one for one in listed(light, "-100123")}
    kinds = [(found[number]["type"], found[number]["importance"]) for number in (1, 2, 3)]
    assert kinds == [("fact", 4), ("goal", 5), ("preference", 3)]
    assert memory(light, "done", "-100123", "2") == "Done: paint the kitchen\n"
    assert "Completed goals:\n2. paint the kitchen (done" in memory(light, "list", "-100123")
    assert memory(light, "forget", "-100123", "3").startswith("Forgotten.")
    assert [one["number"] for one in listed(light, "-100123")] == [1, 2]
    assert "There is no chat 100123." in memory(light, "list", "100123", code=24), "another chat"


@pytest.mark.slow
def test_a_corrected_memory_is_replaced_and_a_goal_keeps_its_deadline(light: World) -> None:
    memory(light, "add", "9912", "The boiler is a Vaillant")
    memory(light, "add", "9912", "paint the kitchen", "--type", "goal", "--deadline", "2031-12-01", "--importance", "5")
    said = memory(light, "correct", "9912", "1", "It is a Viessmann")
    assert said == "Saved as number 3: It is a Viessmann. This replaces number 1.\n"
    memory(light, "correct", "9912", "2", "paint the kitchen blue")
    found = {one["number"]: one for one in listed(light)}
    assert [(n, found[n]["valid"], found[n]["superseded_by"]) for n in (1, 2, 3, 4)] == [
        (1, False, 3), (2, False, 4), (3, True, None), (4, True, None),
    ]  # fmt: skip
    assert (found[4]["deadline"], found[4]["importance"]) == (found[2]["deadline"], 5)
    prompt = light.command("hmem", "context", "9912", "what is the boiler?").stdout
    assert "Viessmann" in prompt
    assert "Vaillant" not in prompt
    assert "no memory number 1" in memory(light, "correct", "9912", "1", "x", code=24)
    assert "TEXT is empty" in memory(light, "correct", "9912", "3", " ", code=24)


@pytest.mark.slow
def test_what_cannot_be_done_says_why_and_changes_nothing(light: World) -> None:
    memory(light, "add", "9912", "The garage code is 7731")
    memory(light, "add", "9912", "The cellar code is 1234")
    before = listed(light)
    assert "Invalid value" in memory(light, "forget", "9912", "the dog", code=2)
    for arguments, reason in [
        (("forget", "9912", "7"), "no memory number 7"),
        (("forget", "77", "1"), "There is no chat 77."),
        (("done", "9912", "1"), "no open goal number 1"),
        (("add", "9912", " "), "TEXT is empty"),
        (("add", "9912", "x", "--deadline", "Friday"), "A fact has no deadline"),
        (("add", "9912", "x", "--type", "goal", "--deadline", "when it suits"), 'understand the date "when it suits"'),
        (("list", "0"), "cannot be a chat id"),
    ]:
        assert reason in memory(light, *arguments, code=24)
    assert listed(light) == before
    light.environment["DAY_STORE_URL"] = "none"
    assert "no memories are stored" in memory(light, "list", "9912", code=10)


def test_forgetting_reaches_every_copy_of_the_day(light: World) -> None:
    """The turn it came from, turns that repeat it, the conversation under way, and the night's list; other chats keep theirs."""
    day = DayMemory(light.settings(), nullcontext)
    said = [Turn("t1", "user", "9912", "Remember that the garage code is 7731", time.time() - 900),
            Turn("t1", "asst", "9912", "Noted.", time.time() - 899),
            Turn("t2", "user", "9912", "so the garage code is 7731, right?", time.time() - 60),
            Turn("t3", "user", "9912", "the weather is nice", time.time() - 30),
            Turn("t4", "user", "77", "the garage code is 7731", time.time() - 30)]  # fmt: skip
    day.upkeep.store_turns(said)
    day.remembering.add("9912", MemoryType.FACT, "The garage code is 7731", now=time.time(), source_turn="t1:user")
    for name in ("session", "session_history", "session_size", "mem:spent", "mem:why"):
        for chat in ("9912", "77"):
            light.redis.set(f"hcli:{name}:{chat}", "x")
    told = json.loads(memory(light, "forget", "9912", "1", "--json"))
    assert (told["number"], set(told["forgotten_turns"]) >= {"t1:user", "t1:asst", "t2:user"}) == (1, True)
    assert not any(turn in told["forgotten_turns"] for turn in ("t3:user", "t4:user"))
    assert listed(light) == []
    assert {turn for chat in ("9912", "77") for turn in day.turns.ids(chat)} == {"t3:user", "t4:user"}
    assert sorted(key for key in light.redis.scan_iter() if b"9912" in key) == []
    assert len([key for key in light.redis.scan_iter() if key.endswith(b":77")]) == 5
    (stone,) = Forgotten(light.root / "state").of("9912")
    assert [Tombstone.parse(cast(bytes, raw)) for raw in light.redis.lrange("hcli:mem:tombstones", 0, -1)] == [stone]
    assert stone.turn_ids == frozenset(told["forgotten_turns"])
    day.close()


@pytest.mark.slow
def test_why_tells_what_the_last_answer_was_given(light: World) -> None:
    memory(light, "add", "9912", "The garage code is 7731")
    assert "There is nothing to explain" in light.command("hmem", "context", "9912").stdout
    assert light.command("hmem", "context", "9912", "--json").stdout.strip() == "null"
    dispatcher = light.start_dispatcher()
    light.command("hmem", "talk", "9912", "--say", "hello")
    assert "For my last answer I was given" in light.command("hmem", "context", "9912").stdout
    record = json.loads(light.command("hmem", "context", "9912", "--json").stdout)
    assert "profile" in [part["name"] for part in record["parts"]]
    assert light.command("hmem", "talk", "9912", "--say", "/memory").stdout == memory(light, "list", "9912")
    assert (
        light.command("hmem", "talk", "9912", "--say", "/why").stdout == light.command("hmem", "context", "9912").stdout
    )
    assert dispatcher.stop() == 0


@pytest.mark.slow
def test_an_old_list_of_facts_is_taken_over_once(world: World) -> None:
    memory(world, "add", "9912", "The user has a cat called Mishka")
    file = world.root / "facts.jsonl"
    lines = [
        '"The user lives in Ghent"', '{"fact": "The garage code is 7731", "created": 1700000000, "chat_id": "77"}',
        '{"text": "The user has a cat named Mishka"}', "", '{"content": "The user plays the cello", "timestamp": "2024-02-09T12:00:00Z"}',
        '"The garage code is 7732"', '{"note": "no fact"}', "plain words", '{"fact": "x", "created": "soon"}', '"User lives in Ghent"',
    ]  # fmt: skip
    file.write_text("\n".join(lines), encoding="utf-8")
    done = world.command("hmem", "memory", "import", "9912", str(file), "--json", check=False)
    assert done.returncode == 24
    told = json.loads(done.stdout)
    assert (told["added"], told["known"]) == (5, 1), "the cat is known in other words"
    assert [one["line"] for one in told["refused"]] == [7, 8, 9]
    assert f"3 lines of {file} cannot be read (" in done.stderr
    assert "line 8: not JSON" in done.stderr
    found = {one["text"]: one for one in listed(world)}
    assert len(found) == 6
    assert {one["type"] for one in found.values()} == {"fact"}
    assert found["The garage code is 7731"]["created"] == 1_700_000_000.0
    assert found["The user plays the cello"]["created"] == 1_707_480_000.0
    assert all(one["embedding_model"] for one in found.values())
    file.write_text("\n".join(line for number, line in enumerate(lines, start=1) if number not in (7, 8, 9)))
    assert memory(world, "import", "9912", str(file)).splitlines()[-1] == "New memories: 0, already known: 6."
    assert {one["text"]: one for one in listed(world)} == found, "what is known is left as it is"
    assert "There is no chat 77." in memory(world, "list", "77", code=24), "the chat is the one that is named"
    assert "cannot be read" in memory(world, "import", "9912", str(world.root / "none"), code=24)


def test_the_rows_of_relay_keep_their_times(light: World) -> None:
    """Its rows have `content`, `type`, `priority`, `created_at` and `completed_at`."""
    rows = [
        {"type": "completed_goal", "content": "paint the kitchen", "created_at": "2024-02-09T12:00:00+00:00",
         "completed_at": "2024-03-01T08:30:00+00:00", "deadline": None, "priority": 0, "metadata": {}},
        {"type": "goal", "content": "run a marathon", "created_at": "2024-02-10T12:00:00+00:00", "completed_at": None, "priority": 2},
        {"type": "fact", "content": "favourite colour is green", "created_at": "2024-02-12T12:00:00+00:00"},
        {"type": "fact", "content": "favourite colour is blue", "created_at": "2024-02-11T12:00:00+00:00"},
        {"type": "goal", "content": "x", "priority": "high"},
    ]  # fmt: skip
    file = light.root / "relay.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert "priority" in memory(light, "import", "9912", str(file), code=24)
    found = {one["text"]: one for one in listed(light)}
    done = found["paint the kitchen"]
    assert (done["created"], done["completed_at"]) == (1_707_480_000.0, 1_709_281_800.0)
    assert (found["run a marathon"]["priority"], found["run a marathon"]["completed_at"]) == (2, None)
    blue, green = found["favourite colour is blue"], found["favourite colour is green"]
    assert blue["valid"], "a list replaces nothing"
    assert green["valid"]
    memory(light, "correct", "9912", str(blue["number"]), "favourite colour is red")
    found = {one["text"]: one for one in listed(light)}
    out = light.root / "out"
    light.command("hmem", "export", "9912", "--out", str(out))
    exported = {one["text"]: one for one in map(json.loads, (out / "memories.jsonl").read_text().splitlines())}
    assert exported["run a marathon"]["priority"] == 2
    older = exported["favourite colour is blue"]
    assert older["superseded_by"] == found["favourite colour is red"]["number"]
    memory(light, "import", "77", str(out / "memories.jsonl"))
    again = {one["text"]: (one["valid"], one["priority"], round(one["created"])) for one in listed(light, "77")}
    assert again == {one["text"]: (one["valid"], one["priority"], round(one["created"])) for one in found.values()}
    assert "A fact has no priority" in memory(light, "add", "9912", "x", "--priority", "2", code=24)
    memory(light, "add", "9912", "learn to sail", "--type", "goal", "--priority", "3")
    assert "learn to sail [priority 3]" in memory(light, "list", "9912")
