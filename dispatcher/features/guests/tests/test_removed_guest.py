"""A guest who is removed while an answer is written, or a picture is fetched, gets nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dispatcher.bots.telegram.arrivals import ATTEMPTS
from dispatcher.features.guests import keys as own
from dispatcher.features.guests.records import Guest
from shared.wire import keys
from tests.support.day.telegram_bot import CHAT, Stage, staged
from tests.support.machine import wait_for
from tests.support.processes.talk import png
from tests.support.world import SECRET

GUEST = 5151
CY_ALLOWED = Guest(str(GUEST), "Cy", 1.0, "9912")
CY = {"id": GUEST, "is_bot": False, "first_name": "Cy"}


@pytest.fixture
def stage(redis_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(redis_url, tmp_path) as made:
        made.redis.hset(own.GUESTS, str(GUEST), CY_ALLOWED.signed(SECRET))
        made.bot(OWNERS=str(CHAT))
        yield made


def test_nothing_is_answered_any_more(stage: Stage) -> None:
    stage.api.say(GUEST, "what is the code?", CY)
    task = stage.pop()
    stage.redis.hset(own.GUESTS, str(GUEST), replace(CY_ALLOWED, removed=2.0).signed(SECRET))
    stage.answer(task["task_id"], "it is 4711")
    wait_for(lambda: stage.redis.hlen(keys.bot_waiting("main")) == 0, "the end of the delivery")
    stage.confirmed(stage.api.say(GUEST, None, CY, **stage.api.files.photo(png(1))))
    stage.quiet()
    assert not any("4711" in one for one in stage.api.texts(GUEST))
    assert stage.queued() == []
    assert stage.redis.hlen(keys.bot_arriving("main")) == 0


def test_a_picture_that_is_being_fetched_reaches_no_queue(stage: Stage) -> None:
    fields = stage.api.files.photo(png(1))
    file_id = fields["photo"][1]["file_id"]
    stage.api.files.broken[file_id] = ATTEMPTS - 1  # it arrives with the last try, after the guest has gone
    stage.api.say(GUEST, None, CY, **fields)
    wait_for(lambda: f"files/{file_id}" in stage.api.files.fetched, "the first try")
    stage.redis.hset(own.GUESTS, str(GUEST), replace(CY_ALLOWED, removed=2.0).signed(SECRET))
    stage.api.files.broken[file_id] = 0
    wait_for(lambda: stage.redis.hlen(keys.bot_arriving("main")) == 0, "the end of the arrival")
    assert stage.queued() == []
