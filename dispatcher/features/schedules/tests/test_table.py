"""Schedules in the store, on both engines: numbers, what is due, going on once, isolation of chats."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from dispatcher.features.schedules.table import Schedule, ScheduleKind, Schedules
from tests.support.stores import Stores

NOW = 1_800_000_000.0


def reminder(chat: str, text: str, due: float | None, **more: object) -> Schedule:
    made = Schedule(chat, ScheduleKind.REMINDER, text, "Europe/Berlin", due, NOW, "7")
    return replace(made, **more)  # type: ignore[arg-type]


def test_numbers_are_of_the_chat_and_never_used_again(stores: Stores) -> None:
    table = Schedules(stores.open())
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: table.add(reminder("1", f"text {n}", NOW + n)).number, range(24)))
    assert sorted(made) == list(range(1, 25))
    assert table.add(reminder("2", "other", NOW)).number == 1
    assert table.remove("1", 24)
    assert not table.remove("1", 24)
    assert table.add(reminder("1", "next", NOW)).number == 25
    assert [one.text for one in table.of_chat("2")] == ["other"]
    assert table.by_number("2", 3) is None


def test_what_is_due_goes_on_once(stores: Stores) -> None:
    table = Schedules(stores.open())
    once = table.add(reminder("1", "once \x00 \U0001f600", NOW))
    daily = table.add(reminder("1", "daily", NOW - 1, rule="daily", clock="07:30"))
    table.add(reminder("1", "later", NOW + 60))
    assert "\x00" not in once.text
    assert table.due(NOW, 9) == [daily, once]
    assert table.next_due() == NOW - 1
    assert table.advance(once, NOW)
    assert table.advance(daily, NOW)
    assert not table.advance(once, NOW)
    assert not table.advance(daily, NOW)
    assert table.due(NOW, 9) == []
    assert [one.text for one in table.of_chat("1")] == ["later", "daily"]
    assert table.snooze("1", once.number, NOW + 30)
    assert table.next_due() == NOW + 30
    (snoozed,) = table.due(NOW + 30, 9)
    assert (snoozed.number, snoozed.waits_for) == (once.number, NOW + 30)
    assert table.advance(snoozed, NOW + 30)
    assert table.prune(NOW) == 0
    assert table.prune(NOW + 31) == 1
    assert table.by_number("1", once.number) is None
