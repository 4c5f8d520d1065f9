"""What is kept of schedules beside the chat: events for the archive, an export, what a prompt is told, and a store that the feature comes to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from redis import Redis

from dispatcher.features.schedules.table import Schedule, ScheduleKind, Schedules
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.memory.store import events
from dispatcher.memory.store.event_outbox import EventOutbox
from dispatcher.prompt.assemble import assemble
from shared.turns.events import Event, EventChange
from shared.wire import keys
from tests.support.day.acting import BERLIN
from tests.support.stores import Stores
from tests.support.world import World

CHAT = "9912"
MONDAY, THURSDAY = (datetime(2026, 11, day, 7, tzinfo=BERLIN).timestamp() for day in (9, 12))


def bin_day() -> Schedule:
    return Schedule(CHAT, ScheduleKind.REMINDER, "put out the bin", BERLIN.key, THURSDAY, MONDAY, "7", "Bob")


@pytest.fixture
def day(light: World) -> Iterator[DayMemory]:
    settings = light.settings(embedding_backend="none", chat_timezone=BERLIN.key)
    with closing(DayMemory(settings, nullcontext)) as opened:
        opened.open()
        yield opened


def taken(redis: Redis) -> list[Event]:
    """The events in Redis, as the night takes them."""
    raws: Any = {key: redis.getdel(key) for key in redis.scan_iter(match=f"{keys.EVENT_PREFIX}*")}
    return [Event.parse(key, raw) for key, raw in raws.items()]


def test_each_effect_is_an_event_with_its_state_and_an_empty_store_becomes_what_it_was(
    stores: Stores, redis: Redis
) -> None:
    database = stores.open()
    table, outbox = Schedules(database), EventOutbox(database)

    def told() -> dict[str, Event]:
        events.hand_over(outbox, redis)
        return {one.id: one for one in taken(redis)}

    one, other = table.add(bin_day()), table.add(bin_day())
    table.snooze(CHAT, 1, 900.0)
    table.remove(CHAT, 2)
    found = told()
    assert (found[one.uid].what, (found[one.uid].state or {})["snoozed"]) == (EventChange.CHANGED, 900.0)
    assert (found[other.uid].what, found[other.uid].state) == (EventChange.HIDDEN, None)
    kept = table.every(CHAT)
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM schedules"))
        connection.execute(sa.text("DELETE FROM chats"))
    assert events.put_back(outbox, redis, found.values(), []) == {"schedule": 1}
    assert [vars(one) | {"schedule_id": 0} for one in table.every(CHAT)] == [
        vars(one) | {"schedule_id": 0} for one in kept
    ]
    assert events.put_back(outbox, redis, found.values(), []) == {"schedule": 0}
    assert table.add(bin_day()).number == 3, "the number of one that is gone is not used again"
    assert table.advance(table.every(CHAT)[0], THURSDAY)
    assert told()[one.uid].what is EventChange.DUE
    assert table.prune(THURSDAY + 1)
    assert told()[one.uid].state is None


def test_the_table_is_made_in_a_store_that_lacks_it_and_left_alone_in_one_that_has_it(stores: Stores) -> None:
    first = stores.open()
    Schedules(first).add(bin_day())
    assert [one.text for one in Schedules(stores.open()).every()] == ["put out the bin"]
    with first.begin() as connection:
        connection.execute(sa.text("DROP TABLE schedules"))
    assert Schedules(stores.open()).add(bin_day()).number == 2


def test_a_question_about_days_to_come_is_told_of_reminders(day: DayMemory) -> None:
    Schedules(day.database).add(bin_day())
    assert [(one.at, one.kind) for one in day.coming(None, THURSDAY)] == [(THURSDAY, "reminder")]
    assert day.coming(["another chat"], THURSDAY) == day.coming(None, THURSDAY - 1) == []

    def given(message: str) -> str:
        request = PromptRequest(CHAT, message, session="s", now=MONDAY, count_access=False)
        return assemble(request, day.settings, None, day).text

    line = "- 9 November 2026, reminder, set by Bob: put out the bin (Thursday 12 November 2026, 07:00)"
    assert line in given("What do I have to do this week?")
    assert "bin" not in given("What did I do last week?")


def test_an_export_has_them_and_a_restore_brings_them_back(light: World, day: DayMemory, tmp_path: Path) -> None:
    Schedules(day.database).add(bin_day())
    events.hand_over(day.event_outbox, light.redis)
    light.command("hmem", "export", CHAT, "--out", str(tmp_path / "out"))
    text = (tmp_path / "out" / "schedules.json").read_text()
    assert json.loads(text) == [
        {"kind": "reminder", "text": "put out the bin", "zone": "Europe/Berlin", "due": "2026-11-12T07:00:00+01:00",
         "created": "2026-11-09T07:00:00+01:00", "user_id": "7", "name": "Bob", "rule": "", "clock": "", "snoozed": None,
         "last_due": None, "source_turn": None, "number": 1}
    ]  # fmt: skip
    assert "\nschedules.json       reminders and scheduled questions (1)\n" in (tmp_path / "out/README.txt").read_text()
    light.night()
    shutil.copytree(light.night_dir / "archive", copy := tmp_path / "copy")
    light.redis.flushall()
    (host := World(tmp_path / "host", light.redis, light.url)).root.mkdir()
    host.environment = dict(light.environment)
    assert host.command("hmem", "restore", str(copy)).stdout.startswith("Restored: 1 reminder. ")
    assert "1 reminder" not in host.command("hmem", "restore", str(copy)).stdout
