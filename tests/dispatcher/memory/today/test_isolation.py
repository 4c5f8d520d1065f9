"""Recall on the same day: a chat's day and its release are its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.search.lookup import look_up
from shared.search.types import Query
from shared.turns.records import Turn
from tests.support.day.day_recall import NOON, Index, holding, said, turn, vector_of

#: Chats that look like each other, like patterns and like pieces of a query, each with a word of its own.
ODD = ["9912", "991", "-9912", "*", "9912*", "%", "a' OR 1=1 --", '"', "OR", "ключ", "\u0430", "a", '{"$ne": ""}']
CANARY = {chat: f"canary{number:02d}{'qxz'[number % 3]}" for number, chat in enumerate(ODD)}


def test_two_chats_never_meet() -> None:
    foreign = [turn("x1", "user", "The boiler canary is amber00.", -1.0, chat="77")]
    with holding([*said(), *[turn("x2", "user", "boiler canary basalt01", -9.0, chat="77")]]) as side:
        day = side.day(foreign, chat="77")
        with pytest.raises(ValueError, match="asked with the day's turns of chat '77'"):
            side.ask("boiler canary", day)
        with pytest.raises(ValueError, match="x1:user#1 belongs to another chat than '9912'"):
            side.day(foreign)
        with pytest.raises(ValueError, match="day's turns of chat '77'"):
            side.ask("boiler canary", side.day([], chat="77"))
        # Rows of another chat, behind every check but the last; one is the question to an answer of ours.
        taken = side.day([*foreign, turn("h2", "user", "Shall we buy amber00?", -1.0, chat="77")], chat="77")
        answer = side.day([turn("h2", "asst", "Yes, the boiler.", -0.9)])
        for wrong in (
            replace(taken, chat_id="9912"),
            replace(taken, chat_id="9912", turns=(taken.turns[0], *answer.turns)),
        ):
            found = side.hits("boiler canary amber00", wrong)
            assert {hit.chunk.chat_id for hit in found} == {"9912"}
            assert not [hit for hit in found if "amber00" in f"{hit.chunk.text} {hit.question}"]


def test_no_chat_is_told_the_canary_of_another() -> None:
    def secrets(task: str, hours: float) -> dict[str, list[Turn]]:
        text = "My secret word is {}, keep it."
        return {
            chat: [
                turn(f"{task}{n}", "user", text.format(canary), hours, chat),
                turn(f"{task}{n}", "asst", f"I keep {canary}.", hours, chat),
            ]
            for n, (chat, canary) in enumerate(CANARY.items())
        }

    old, new = secrets("o", -30.0), secrets("n", -1.0)
    every = [*old.values(), *new.values()]
    alike = {f"{one.turn_id}#1": vector_of(1) for turns in every for one in turns}
    with holding([one for turns in old.values() for one in turns], Index(alike, vector_of(1))) as side:
        days = {chat: side.day(turns, alike, chat) for chat, turns in new.items()}
        for at, (chat, own) in enumerate(CANARY.items()):
            for other, canary in CANARY.items():
                ways = [
                    canary,
                    f"My secret word is {canary}, keep it.",
                    f'x OR chat_id:"{other}" OR {canary}*',
                    f"' OR chat_id = '{other}' --",
                ]
                for query in (ways[0], ways[at % len(ways)]):
                    found = look_up(side.sources, Query(chat, query, 50, now=NOON, day=days[chat])).hits
                    assert {hit.chunk.chat_id for hit in found} <= {chat}
                    told = " ".join(f"{hit.chunk.text} {hit.question}" for hit in found).replace(own, "")
                    assert not [word for word in CANARY.values() if word in told], (chat, other, query)
            assert any(
                own in hit.chunk.text
                for hit in look_up(side.sources, Query(chat, own, 50, now=NOON, day=days[chat])).hits
            )
