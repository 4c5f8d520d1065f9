"""A day with the real dispatcher and encryption at rest: which files below HMEM_STATE_DIR hold words of the conversation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.system.keys import copies, sealing
from shared.system.keys.sealing import Sealing
from tests.support.day.talking import Talk, quick_talk
from tests.support.machine import wait_for
from tests.support.world import World

#: Words of the message, the answer, a memory, a reminder and what was hidden; none is part of an id.
WORDS = ("zanzibar", "quokka", "vermilion", "obelisk", "tangerine", "Marzipan")


@pytest.fixture(params=[True, False], ids=["encrypted", "plain"])
def day(light: World, request: pytest.FixtureRequest) -> Iterator[tuple[World, bool]]:
    if request.param:
        key_file = light.root / "keys" / "encrypt.key"
        copies.make_key(key_file)
        light.environment["ENCRYPT_KEY_FILE"] = str(key_file)
        sealing.use(lambda: Sealing(key_file, "day"))
    yield light, request.param
    sealing.use(None)


def talked(world: World) -> Talk:
    """A day: talk, a memory, a reminder, one that is forgotten again, a summary of a long session."""
    world.environment["SESSION_TOKENS"] = "60"
    talk = quick_talk(world)
    talk.say(
        "the zanzibar lighthouse is closed",
        "Noted, the quokka said so. [REMEMBER CODE: the vermilion bicycle is in the cellar]",
    )
    talk.say("remind me", "I will. [REMIND CODE: in 3 days: feed the obelisk]")
    talk.say("forget the bicycle, and eat a tangerine", "Done. [FORGET CODE: the vermilion bicycle is in the cellar]")
    talk.say("more of it " + "marzipan " * 40, "Marzipan " * 40)
    talk.consolidated()
    wait_for(lambda: not world.redis.exists(f"hcli:session:{talk.chat_id}"), "the end of the long session")
    return talk


def files_with_words(world: World) -> dict[str, set[str]]:
    """File below the state directory → the words that are in it."""
    state = world.root / "state"
    found = {}
    for path in state.rglob("*"):
        if path.is_file():
            content = path.read_bytes().lower()
            if words := {one for one in WORDS if one.lower().encode() in content}:
                found[str(path.relative_to(state))] = words
    return found


def test_no_file_of_the_state_directory_holds_a_word(day: tuple[World, bool]) -> None:
    world, encrypted = day
    dispatcher = world.start_dispatcher(CONSOLIDATION_INTERVAL="0.1", SESSION_TOKENS="60", CLAUDE_BIN=_scripted())
    talk = talked(world)
    assert "zanzibar" in talk.requests()[-1].whole or "quokka" in talk.requests()[1].whole
    running = files_with_words(world)
    world.command("hmem", "memory", "add", talk.chat_id, "the zanzibar ferry is late")
    forget = ["hmem", "forget", f"--chat={talk.chat_id}", "--matching=quokka", "--yes", "--later"]
    world.command(*forget, check=False, HMEM_CRASH_AT="forget:announced")
    forgetting = files_with_words(world)
    assert list((world.root / "state" / "forgetting").glob("*.json")), "its journal is there"
    world.command("hmem", "forget", "--resume", check=False)
    assert list((world.root / "state" / "receipts").glob("*.json"))
    dispatcher.stop()
    stopped = files_with_words(world)
    shown = world.command("hmem", "memory", "list", talk.chat_id).stdout
    assert "zanzibar ferry" in shown
    if encrypted:
        assert (running, forgetting, stopped) == ({}, {}, {})
    else:
        assert any(name.startswith("day-store.sqlite") for name in running)
        assert any(name.startswith("forgetting/") for name in forgetting), forgetting


def _scripted() -> str:
    from tests.support.day.talking import CLAUDE
    from tests.support.world import REPOSITORY

    return str(REPOSITORY / CLAUDE)


def test_a_missing_key_stops_the_dispatcher_at_its_start(light: World) -> None:
    done = light.command("hmem", "run", check=False, ENCRYPT_KEY_FILE=str(Path(light.root) / "missing.key"))
    assert done.returncode == 53, done.stderr
    assert "cannot be read" in done.stderr
