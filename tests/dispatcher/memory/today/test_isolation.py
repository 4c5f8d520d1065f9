"""Recall on the same day: a chat's day and its release are its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.day.day_recall import holding, said, turn


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
