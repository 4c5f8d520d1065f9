"""What memory makes of replies and forwards: found by what they reply to, never told as the sender's own words, and forgotten with it."""

from __future__ import annotations

import json
import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from shared.ranking.extractive_summary import summarise
from shared.turns.chunk import Chunk
from shared.turns.chunking import PASSAGE_CHARACTERS, QUOTE_CHARACTERS, chunks_of, indexed_text
from shared.turns.records import Turn
from tests.support.day.talking import quick_talk
from tests.support.night.archives import places
from tests.support.world import World

UTC = ZoneInfo("UTC")
AT = 1_700_000_000.0
TRAIN = {"quote": {"text": "The train leaves at 7:40 from platform 9", "from": "Bob", "user_id": "9"}}
DORA = {"forward": {"from": "Dora", "kind": "hidden_user", "date": AT - 60}}


def chunks(text: str, **extra: Any) -> list[Chunk]:
    return chunks_of(Turn("t", "user", "1", text, AT, "Ann", extra=extra, user_id="8"))


def test_a_turn_without_origin_is_indexed_as_before() -> None:
    for extra in ({}, {"chat_type": "group", "attachment": {"kind": "photo"}}):
        (chunk,) = chunks("I am vegetarian", **extra)
        assert indexed_text(chunk, UTC) == "Ann, 14 November 2023: I am vegetarian"
        assert chunk.who() == "Ann"


def test_a_reply_is_indexed_with_what_it_replies_to_and_a_forward_with_its_source() -> None:
    (reply,) = chunks("please remember this", **TRAIN)
    assert reply.text == "please remember this"
    assert indexed_text(reply, UTC) == (
        "Ann, 14 November 2023, replying to Bob: The train leaves at 7:40 from platform 9: please remember this"
    )
    (forward,) = chunks("I am vegetarian", **DORA)
    assert indexed_text(forward, UTC) == "Ann (forwarded from Dora), 14 November 2023: I am vegetarian"
    assert forward.who() == "Ann (forwarded from Dora)"
    long = {"quote": TRAIN["quote"] | {"text": "word " * 200}}
    first, second, *_ = chunks("A sentence of mine. " * 100, **long)
    assert first.origin.quote is None, "no room beside a long passage"
    assert second.origin.quote is None
    (short,) = chunks("A sentence. " * 20, **long)
    assert len(short.origin.quote.text if short.origin.quote else "") <= QUOTE_CHARACTERS
    assert len(short.text) + QUOTE_CHARACTERS < PASSAGE_CHARACTERS


def test_a_summary_says_whose_words_a_forward_holds_and_nothing_of_a_quote() -> None:
    turns = [
        Turn("a", "user", "1", "My brother has been a vegetarian since 2019", AT, "Ann", extra=DORA, user_id="8"),
        Turn("b", "user", "1", "That is what we decided yesterday evening", AT + 1, "Ann", extra=TRAIN, user_id="8"),
    ]
    chosen = summarise([chunk for turn in turns for chunk in chunks_of(turn)])
    assert {(one.speaker, one.text) for one in chosen} == {("Ann (forwarded from Dora)", turns[0].content), ("Ann", turns[1].content)}  # fmt: skip


@pytest.mark.slow
def test_two_replies_of_the_same_words_are_two_hits_by_day_and_by_night(light: World) -> None:
    talk = quick_talk(light)
    light.start_dispatcher()
    for number, said in enumerate(("The train leaves at 7:40", "The ferry leaves at 9:15"), start=1):
        more: dict[str, Any] = {"name": "Ann", "user_id": 8, "chat_type": "group", "quote": {"text": said, "from": "Bob"}}  # fmt: skip
        light.enqueue(f"q{number}", "please remember this", **more)
        talk.reply(f"q{number}")
    talk.consolidated()

    def hits() -> list[dict[str, Any]]:
        told = json.loads(light.command("hmem", "search", "9912", "when do train and ferry leave", "--json").stdout)
        return [hit for hit in told["hits"] if hit["kind"] == "turn" and hit["speaker"] == "Ann"]

    by_day = hits()
    assert [hit["quote"]["text"] for hit in by_day] in (
        ["The train leaves at 7:40", "The ferry leaves at 9:15"], ["The ferry leaves at 9:15", "The train leaves at 7:40"],
    )  # fmt: skip
    light.night()
    by_night = hits()
    assert [(hit["turn_ids"], hit["quote"]) for hit in by_night] == [(hit["turn_ids"], hit["quote"]) for hit in by_day]
    shown = light.command("hmem", "search", "9912", "ferry").stdout
    assert 'Ann (replying to Bob: "The ferry leaves at 9:15"): please remember this' in shown
    talk.new_session()
    told = light.command("hmem", "context", "9912", "when does the ferry leave?").stdout
    assert 'Ann (replying to Bob: "The ferry leaves at 9:15"): please remember this' in told


@pytest.mark.slow
def test_a_text_is_forgotten_where_it_is_quoted_too(light: World) -> None:
    light.say(
        "t1", "please remember this", name="Ann", extra={"quote": {"text": "the safe opens with 471199", "from": "Bob"}}
    )
    light.say("t2", "the boiler is warm again", name="Ann", timestamp=1_707_500_600.0)
    light.night()
    done = light.command("hmem", "forget", "--matching", "471199", "--yes")
    assert "complete" in done.stdout
    assert json.loads(light.command("hmem", "search", "9912", "safe remember boiler", "--json").stdout)["hits"][0][
        "turn_ids"
    ] == ["t2:user"]
    assert places(light, "471199") == []


@pytest.mark.slow
def test_a_wish_to_forget_hides_what_only_a_quote_says(light: World) -> None:
    talk = quick_talk(light)
    light.start_dispatcher()
    talk.say("/memory add Ann parks her bicycle behind the Lindenhof")
    quote = {"text": "Ann parks her bicycle behind the Lindenhof", "from": "Bob"}
    light.enqueue("q1", "please remember this, and buy milk", name="Ann", quote=quote)
    talk.reply("q1")
    talk.consolidated()
    assert "Lindenhof" in talk.asked("where is the bicycle parked behind?").system
    talk.say("/memory forget 1")
    talk.new_session()
    request = talk.asked("where is the bicycle parked behind?")
    assert "Lindenhof" not in request.system
    assert "buy milk" not in light.command("hmem", "search", "9912", "milk").stdout, "the message is hidden whole"


def test_a_namesake_has_the_same_mark_ahead_of_a_message_as_in_memory(light: World) -> None:
    talk = quick_talk(light)
    light.start_dispatcher()
    for number, user in enumerate((1, 2)):
        light.enqueue(f"n{number}", f"I park my bicycle behind house {user}", name="Alex", user_id=user)
        talk.reply(f"n{number}")
    talk.consolidated()
    talk.new_session()
    light.enqueue("n3", "where do I park my bicycle?", name="Alex", user_id=1)
    talk.reply("n3")
    asked = talk.requests()[-1]
    (mark,) = re.findall(r"The words of Alex (#[0-9a-f]{4}) \(user id 1\), to the end", asked.message)
    assert f"- Alex {mark}: I park my bicycle behind house 1" in asked.system


def test_the_base_prompt_may_be_replaced_or_left_out(light: World) -> None:
    talk, rules = quick_talk(light), light.root / "rules.md"
    for text in (None, "Speak like a pirate.", ""):
        rules.write_text(text or "")
        running = light.start_dispatcher(**({} if text is None else {"CLAUDE_BASE_PROMPT_FILE": str(rules)}))
        told = talk.asked("hello").system
        running.stop()
        assert ("You take part in a Telegram chat" in told) == (text is None)
        assert ("pirate" in told, "# What to keep" in told) == (bool(text), True)
