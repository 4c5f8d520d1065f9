"""`/memory` as a message: answered by the dispatcher itself, never sent to Claude, never stored as said."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from dispatcher.answering.commands.command import CommandRegistry, read_command
from dispatcher.answering.commands.explanation import CHARACTERS, LINES, why_text
from dispatcher.answering.commands.memory import MemoryRequest, parse
from shared.turns.media import Media
from shared.turns.message_origin import Origin
from shared.turns.records import Task, dumps
from tests.support.world import Dispatcher, World


@pytest.mark.parametrize(("message", "command"), [
    ("/memory", MemoryRequest("show")),
    ("/memory@hcli_bot", MemoryRequest("show")),
    ("/memory add The code is\n7731", MemoryRequest("add", "The code is\n7731")),
    ("/memory forget 12", MemoryRequest("forget", number=12)),
    ("/memory why", MemoryRequest("usage")),
    ("/memory add", MemoryRequest("usage")),
    ("/memory forget -1", MemoryRequest("usage")),
    ("/memory forget 1234567890", MemoryRequest("usage")),
    ("/MEMORY ADD x", MemoryRequest("add", "x")),
    ("/memory add\nlikes tea", MemoryRequest("add", "likes tea")),
    ("/memoryless", None),
    ("what does /memory do?", None),
    ("/memory@", None),
])  # fmt: skip
def test_what_is_a_command(message: str, command: MemoryRequest | None) -> None:
    read = read_command(message)
    assert (parse(read[1]) if read and read[0] == "memory" else None) == command


def test_a_command_that_is_forwarded_or_scheduled_or_a_caption_is_a_question() -> None:
    handler: Any = object()
    known = CommandRegistry(handler, {"memory": handler})
    task = Task("t", "9912", "/memory add Ann is vegetarian")
    assert known.of(task) == (handler, "add Ann is vegetarian")
    forwarded = Origin.parse({"forward": {"from": "Dora"}})
    for change in ({"origin": forwarded}, {"scheduled": True}, {"media": (Media("photo", "0" * 64, 9),)}):
        assert known.of(replace(task, **change)) is None


def test_why_is_told_in_sentences() -> None:
    assert "within the last day" in why_text(None)
    odd_parts = b'{"parts": [1], "tokens": 1, "hits": [], "degraded": []}'
    for odd in (b"", b"{}", b"\xff", b'{"parts": 7, "tokens": []}', odd_parts):
        assert "I cannot read the explanation of my last answer" in why_text(odd)
    hit = {"date": "2026-11-20T00:30:00+13:00", "score": 0.5, "speaker": "anna", "because": "words and meaning"}
    hit["text"] = "word " * 100
    record = {
        "tokens": 40, "parts": [{"name": "facts", "tokens": 9}, {"name": "summary", "tokens": 9}],
        "facts": ["the dog is called Alba", *map(str, range(LINES + 1))], "summary_at": "2026-11-22T03:00:00+01:00",
        "hits": [hit] * (LINES + 3), "nothing_plain": None, "missing": ["vectors", "day"], "degraded": ["no vector search: /srv/x is gone"],
    }  # fmt: skip
    lines = why_text(dumps(record)).splitlines()
    given = "For my last answer I was given this from memory."
    assert lines[:3] == [given, "Facts and goals:", "- the dog is called Alba"]
    assert lines[2 + LINES] == "… and 2 more"
    assert lines[3 + LINES] == "Summary of earlier conversations: as of 22 November 2026."
    assert lines[5 + LINES].startswith("- 20 November 2026, anna: word word")
    assert lines[5 + LINES].endswith("… (words and meaning)")
    gone = "the search by meaning, so I searched by words only; notes and messages since last night."
    assert lines[-2:] == ["… and 3 more", f"Not available at that time: {gone}"]
    assert all(len(line) < CHARACTERS + 60 for line in lines)
    empty: dict[str, object] = {name: [] for name in ("parts", "facts", "hits", "missing")}
    bare = empty | {"summary_at": None, "nothing_plain": "nothing is near"}
    nothing = "Facts and goals: none.", "Summary of earlier conversations: none."
    assert why_text(dumps(bare)).splitlines() == [given, *nothing, "Earlier messages: none, because nothing is near."]


def ask(world: World, message: str, chat: str = "9912") -> str:
    return world.command("hmem", "talk", chat, "--say", message).stdout.rstrip("\n")


@pytest.mark.slow
def test_why_tells_the_facts_the_summary_and_what_was_recalled_in_plain_words(light: World) -> None:
    light.environment["CHAT_TIMEZONE"] = "Pacific/Auckland"
    light.say("t1", "The boiler stopped, its display shows F28.", timestamp=1_795_000_000.0)
    for number in range(45):
        light.say(f"n{number}", f"Errand {number} took us to street {number * 7}.", timestamp=1_795_000_100.0 + number)
    light.night(memory_summary=True)
    running = light.start_dispatcher()
    ask(light, "/memory add The garage code is 7731")
    ask(light, "What does the display of the boiler show?")
    told = ask(light, "/why").splitlines()
    ask(light, "Hello!")
    bare = ask(light, "/why")
    assert running.stop() == 0
    given = "For my last answer I was given this from memory."
    assert told[:2] == [given, "Facts and goals:"]
    assert re.fullmatch(r"- \d+ \w+ \d{4}: The garage code is 7731", told[2]), "with the day when it was noted"
    assert re.fullmatch(r"Summary of earlier conversations: as of \d+ \w+ \d{4}\.", told[3])
    assert told[4] == "Earlier messages, and what each was found by:"
    assert any(line.startswith("- 19 November 2026, ") and "shows F28. (words" in line for line in told[5:]), told
    assert "Earlier messages: none, because your message has no word that I could search for." in bare
    for text in ("\n".join(told), bare):
        assert str(light.root) not in text
        assert not re.search(r"token|release|MEMORY_|strength|\b0\.\d", text)


@pytest.mark.slow
def test_forgetting_ends_the_conversation_that_knows_it(light: World, dispatcher: Dispatcher) -> None:
    ask(light, "/memory add The garage code is 7731")
    ask(light, "/memory add The user likes tea")
    assert "The garage code is 7731" in ask(light, "hello")
    told = ask(light, "/why")
    assert told.splitlines()[1] == "Facts and goals:"
    facts = [line.partition(": ")[2] for line in told.splitlines() if line.startswith("- ")]
    assert {"The garage code is 7731", "The user likes tea"} <= set(facts)
    conversation = [f"hcli:{name}:9912" for name in ("session", "session_history", "session_size", "mem:why")]
    assert light.redis.exists(*conversation) == 4
    assert ask(light, "/memory forget 1") == "Forgotten. I will not mention it again."
    assert light.redis.exists(*conversation) == 0
    answer = ask(light, "hello again")
    assert "7731" not in answer
    assert "The user likes tea" in answer
    assert len(list(light.root.rglob(".claude/projects/*/*.jsonl"))) == 2, "another session"
    assert ask(light, "/memory forget 1").startswith("There is no memory number 1")
