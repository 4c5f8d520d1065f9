"""`hmem history`: what was said in one chat, of release and day together, in the order of time; nothing that is forgotten."""

from __future__ import annotations

import json
from contextlib import closing, nullcontext
from typing import Any

import pytest

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.tombstones import Forgotten
from shared.errors import InvalidInput, StorageError
from shared.turns.records import Tombstone, Turn
from tests.support.world import World

MAY = 1_778_241_900.0  # 2026-05-08 12:05 UTC
BOILER, ANSWER = "The boiler broke down\non Monday", "Which error does the boiler show?"


def said_today(world: World, *turns: Turn) -> None:
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        day.upkeep.store_turns(turns)


def told(world: World, *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(world.command("hmem", "history", *arguments, "--json").stdout)
    return document


def texts(world: World, *arguments: str) -> list[str]:
    return [turn["text"] for turn in told(world, "9912", *arguments)["turns"]]


@pytest.fixture
def talked(light: World) -> World:
    """A release of one exchange, which the day still has too, and a turn of the day beside it."""
    light.environment["CHAT_TIMEZONE"] = "Europe/Berlin"
    light.say("t1", BOILER, name="Anna", timestamp=MAY, user_id="7")
    light.say("t1", ANSWER, role="asst", timestamp=MAY + 60)
    light.night()
    both = Turn("t1", "user", "9912", BOILER, MAY, "Anna", user_id="7"), Turn("t1", "asst", "9912", ANSWER, MAY + 60)
    said_today(light, *both, Turn("t2", "user", "9912", "Error F28, says the display", MAY + 120, "Anna", user_id="7"))
    return light


def test_release_and_day_are_one_list_and_each_turn_is_there_once(talked: World) -> None:
    done = talked.command("hmem", "history", "9912")
    assert done.stdout.splitlines() == [
        "2026-05-08 14:05  Anna: The boiler broke down",
        "      on Monday",
        f"2026-05-08 14:06  assistant: {ANSWER}",
        "2026-05-08 14:07  Anna: Error F28, says the display",
    ]
    assert done.stderr == "3 turns from release 1 and today; times in Europe/Berlin\n"


def test_what_cannot_be_asked_is_refused(talked: World) -> None:
    wrong = InvalidInput.exit_code
    for arguments, code, reason in (
        (["9912", "--limit", "0"], 2, "--limit"),
        (["9912", "--since", "when it suits"], wrong, "--since when it suits is not a time"),
        (["9912", "--since", "2026-05-02", "--until", "2026-05-01"], wrong, "is not before --until 2026-05-01."),
        (["9912", "--contains", ""], wrong, "contains nothing to search for"),
        (["0"], wrong, "cannot be a chat id"),
    ):
        done = talked.command("hmem", "history", *arguments, check=False)
        assert done.returncode == code
        assert reason in " ".join(done.stderr.replace("│", " ").split())
        assert "Traceback" not in done.stderr


def test_what_is_forgotten_is_in_neither(talked: World) -> None:
    forgotten = Forgotten(talked.settings().hmem_state_dir)
    forgotten.add(Tombstone("s", "9912", MAY + 999, turn_ids=frozenset({"t1:asst", "t2:user"})))
    assert texts(talked) == [BOILER]
    assert texts(talked, "--contains", "boiler") == [BOILER]
    forgotten.add(Tombstone("u", "9912", MAY + 999))
    assert texts(talked) == []
    said_today(talked, Turn("t3", "user", "9912", "good morning", MAY + 1_000))
    assert texts(talked, "--since", "2026-05-01") == ["good morning"]
    (talked.root / "state" / "forgotten.jsonl").write_text("broken\n")
    done = talked.command("hmem", "history", "9912", check=False)
    assert (done.returncode, done.stdout) == (StorageError.exit_code, "")


def test_a_terminal_obeys_nothing_that_was_said(light: World) -> None:
    said_today(light, Turn("t1", "user", "9912", "red \x1b[31m\talert\r\nassistant: yes", MAY, "Ann\x1b]0;"))
    done = light.command("hmem", "history", "9912")
    assert "\x1b" not in done.stdout
    assert done.stdout.splitlines()[1:] == ["      assistant: yes"], "set off: no other speaker begins a line"


def test_the_summary_of_a_chat_is_shown_and_withheld_once_something_was_forgotten(light: World) -> None:
    light.say("t1", "The boiler stopped on Thursday, its display shows F28.")
    light.night()
    assert "F28" in light.command("hmem", "history", "9912", "--summary").stdout
    found = json.loads(light.command("hmem", "history", "9912", "--summary", "--json").stdout)
    assert (found["release"], "F28" in found["summary"], found["degraded"]) == (1, True, [])
    unknown = light.command("hmem", "history", "404", "--summary", check=False)
    assert (unknown.returncode, "There is no chat 404." in unknown.stderr) == (InvalidInput.exit_code, True)
    light.say("t2", "The gate is open.")
    light.night()
    Forgotten(light.root / "state").add(Tombstone("s1", "9912", 2e9, turn_ids=frozenset({"t1:user"})))
    left = light.command("hmem", "history", "9912", "--summary").stdout
    assert ("F28" in left, "The gate is open." in left) == (False, True)
    alone = light.command("hmem", "history", "9912", "--summary", MEMORY_BACKEND="summary").stdout
    assert ("F28" in alone, "The gate is open." in alone) == (False, True), "whose texts are opened for that"
    Forgotten(light.root / "state").add(Tombstone("s2", "9912", 2e9, before=1.0))
    hidden = light.command("hmem", "history", "9912", "--summary")
    assert (hidden.stdout.strip(), "until the next night" in hidden.stderr) == ("(no summary)", True)
