"""Places, contacts, polls, dice, lists and games as words, and what of them reaches the queue."""

from __future__ import annotations

from typing import Any

import pytest
from aiogram.types import Message

from dispatcher.bots.telegram.contents import words_of
from tests.dispatcher.bots.telegram.conftest import done, one_bot
from tests.support.day.telegram_bot import Stage

BERLIN = {"latitude": 52.52, "longitude": 13.405}


def message(**fields: Any) -> Message:
    return Message.model_validate({"message_id": 1, "date": 1, "chat": {"id": 1, "type": "private"}, **fields})


def poll(*options: str, **more: Any) -> dict[str, Any]:
    listed = [{"text": one, "voter_count": 0, "persistent_id": one} for one in options]
    base = {
        "id": "1", "question": "Where to eat?", "options": listed, "total_voter_count": 0, "is_closed": False, "is_anonymous": True,
        "type": "regular", "allows_multiple_answers": False, "allows_revoting": False, "members_only": False,
    }  # fmt: skip
    return base | more


SAID: list[tuple[dict[str, Any], str]] = [
    ({"location": BERLIN}, "Location: 52.520000, 13.405000"),
    ({"location": BERLIN | {"horizontal_accuracy": 12.4}}, "Location: 52.520000, 13.405000 (accurate to 12 m)"),
    ({"location": BERLIN | {"live_period": 900}}, "Location: 52.520000, 13.405000 (shared live: this is where it began)"),
    (
        {"venue": {"location": BERLIN, "title": "Café X", "address": "Street 1"}, "location": BERLIN},
        "Location: 52.520000, 13.405000 (Café X, Street 1)",
    ),
    ({"contact": {"first_name": "Ann", "last_name": "Lee", "phone_number": "+49 30 1"}}, "Contact: Ann Lee, +49 30 1"),
    ({"poll": poll("Here", "There")}, "Poll: Where to eat?\n- Here\n- There"),
    ({"poll": poll("Here", type="quiz", is_closed=True)}, "Quiz (closed): Where to eat?\n- Here"),
    ({"poll": poll("Here", allows_multiple_answers=True, is_closed=True)}, "Poll (several answers allowed, closed): Where to eat?\n- Here"),
    ({"dice": {"emoji": "🎲", "value": 4}}, "Throw: 🎲 4"),
    (
        {"checklist": {"title": "Shopping", "tasks": [{"id": 1, "text": "milk"}, {"id": 2, "text": "tea", "completion_date": 5}]}},
        "Checklist: Shopping\n- [ ] milk\n- [x] tea",
    ),
    ({"game": {"title": "Chess", "description": "For two", "photo": []}}, "Game: Chess. For two"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "said"), SAID, ids=lambda value: next(iter(value)) if isinstance(value, dict) else ""
)
def test_each_kind_has_its_words(fields: dict[str, Any], said: str) -> None:
    assert words_of(message(**fields)) == said


# Through the bot.


stage = one_bot()


def test_a_place_is_a_message_and_not_an_attachment(stage: Stage) -> None:
    stage.api.say(stage.new_chat(), None, location=BERLIN)
    task = done(stage)
    assert task["message"] == "Location: 52.520000, 13.405000"
    assert "attachment" not in task
    assert "no_text" not in task


def test_a_live_location_that_moves_asks_nothing_more(stage: Stage) -> None:
    chat = stage.new_chat()
    live = BERLIN | {"live_period": 900}
    stage.api.say(chat, None, location=live)
    place = stage.api.newest(chat)
    done(stage)
    update = 0
    for step in range(3):
        update = stage.api.edit(chat, place, None, location=live | {"latitude": 52.53 + step / 100})
    stage.confirmed(update)
    stage.quiet()
    assert stage.api.texts(chat) == ["yes"]
    assert stage.queued() == []
