"""Which chat a command means: by its id, by its name, or none that is stored."""

from __future__ import annotations

import json
import time

import pytest

from shared.turns.records import Turn
from tests.dispatcher.cli.test_history import said_today
from tests.support.world import World

HELLO = time.time() - 900


@pytest.fixture
def talked(light: World) -> World:
    """Noor, a group in which she writes, too, and two chats of a Sam."""
    people = {"4471": ["Noor"], "-100": ["Noor", "Marta"], "12": ["Sam"], "13": ["Sam"]}
    names = [(chat, name) for chat, some in people.items() for name in some]
    said_today(
        light,
        *(Turn(f"t{n}", "user", chat, "hello", HELLO + n, name, user_id=name) for n, (chat, name) in enumerate(names)),
    )
    return light


def answer(world: World, *command: str) -> tuple[int, str]:
    done = world.command("hmem", *command, check=False)
    return done.returncode, done.stderr if done.returncode else done.stdout


def test_an_unknown_chat_is_an_error_wherever_a_chat_is_read(talked: World) -> None:
    for command in ("search 555 hello", "context 555 hello", "history 555", "memory list 555", "memory done 555 1"):
        code, told = answer(talked, *command.split())
        assert (code, told.partition("The chats are ")[0]) == (24, "There is no chat 555. "), command
        assert "4471 (Noor)" in told


def test_a_chat_may_be_named_and_a_missing_one_is_said_to_be_missing(talked: World) -> None:
    assert answer(talked, "history", "noor") == answer(talked, "history", "4471")
    assert answer(talked, "search", "hello")[1].endswith(". Put one before your words.\n")
    assert "12, 13" in answer(talked, "memory", "add", "Sam", "x")[1].replace("13, 12", "12, 13")
    assert answer(talked, "memory", "add", "Nor", "x")[1].startswith("There is no chat Nor. The chats are ")
    for command in ("search hello", "context hello", "history", "memory list", "export"):
        assert answer(talked, *command.split())[1].startswith("CHAT is missing. The chats are "), command
    assert "No such option: --limit" in answer(talked, "search", "-100", "-k3", "hello", "--limit", "3")[1]
    assert answer(talked, "search", "-k", "3", "-100", "hello")[0] == 0
    assert answer(talked, "search", "Noor")[1].endswith("QUERY is missing. Write what you want to ask.\n")


def test_a_first_name_is_enough_but_not_to_forget_or_export(talked: World) -> None:
    said_today(talked, Turn("t9", "user", "14", "hello", HELLO - 5, "Ada Byron", user_id="ada"))
    assert answer(talked, "history", "ada") == answer(talked, "history", "14")
    assert "There is no chat" in answer(talked, "history", "byr")[1]
    assert "of chat ada" in answer(talked, "forget", "--chat=ada")[1]
    assert "ada is chat 14" not in answer(talked, "export", "ada")[1]


def test_a_mistyped_number_gets_no_memories_unasked_and_is_said_to_be_new(talked: World) -> None:
    code, told = answer(talked, "memory", "add", "9913", "likes tea")
    assert (code, told.partition(": ")[0], "4471 (Noor)" in told) == (24, "Chat 9913 is new", True)
    assert told.endswith("Store it for this new chat? Nothing was changed. Run it again with --yes.\n")
    (talked.root / "facts.jsonl").write_text('"likes tea"\n')
    imported = talked.command("hmem", "memory", "import", "9915", str(talked.root / "facts.jsonl"))
    assert "note: Chat 9915 is new: " in imported.stderr
    late = talked.command("hmem", "talk", "9913", "--say", "hello", "--timeout", "0.1", check=False).stderr
    assert late.startswith("note: Chat 9913 is new: nothing is stored of it, and no bot answers it. The chats are ")
    for chat in ("4471", "9914", "console"):
        said = talked.command(
            "hmem", "talk", chat, "--say", "hello", "--timeout", "0.1", check=False, ALLOWED_CHATS="9914"
        )
        assert "is new" not in said.stderr
    assert answer(talked, "memory", "add", "9913", "likes tea", "--yes")[0] == 0
    assert answer(talked, "memory", "add", "9913", "likes coffee")[0] == 0, "it is known now"


def test_the_chats_are_listed_with_names_and_counts(talked: World) -> None:
    lines = answer(talked, "chats")[1].splitlines()
    assert [line.split()[0] for line in lines] == ["13", "12", "-100", "4471"]
    assert lines[2].endswith("Marta, Noor: 0 turns in long-term memory, 2 of the last days")
    told = json.loads(answer(talked, "chats", "--json")[1])["chats"]
    assert [(one["name"], one["today"], round(one["newest"] - HELLO)) for one in told[2:]] == [
        ("Marta, Noor", 2, 2),
        ("Noor", 1, 0),
    ]
