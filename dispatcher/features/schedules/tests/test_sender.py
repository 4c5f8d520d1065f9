"""What is due is sent once, to the minute: over the changes of the clocks, restarts, dispatchers that were down, and several at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dispatcher.features.schedules import sender as module
from dispatcher.features.schedules.schedule_dates import read_repeating, read_request
from dispatcher.features.schedules.sender import ScheduleSender
from dispatcher.features.schedules.table import Schedule, ScheduleKind, Schedules
from dispatcher.features.schedules.wording import MOST, add_schedule, confirmed_text, new_schedule
from dispatcher.memory.day.memory import DayMemory
from shared.errors import StoreUnavailable
from shared.turns.records import Task
from shared.wire import keys
from tests.support.day.talking import CHAT, outbox
from tests.support.world import REPOSITORY, World

BERLIN = ZoneInfo("Europe/Berlin")
RECORDING = REPOSITORY / "docs/recordings/telegram-reminders.txt"


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@dataclass
class Clock:
    now: float
    running: list[tuple[DayMemory, ScheduleSender]] = field(default_factory=list)

    def start(self, world: World, count: int = 1) -> None:
        for _ in range(count):
            day = DayMemory(world.settings(), nullcontext)
            self.running.append((day, ScheduleSender(day, world.redis, lambda: self.now)))

    def stop(self) -> None:
        for day, _ in self.running:
            day.close()
        self.running = []


def remember(day: DayMemory, text: str, now: float, chat: str = CHAT, *, question: bool = False) -> Schedule:
    kind = ScheduleKind.QUESTION if question else ScheduleKind.REMINDER
    due, words = (read_repeating if question else read_request)(text, now, BERLIN)
    return Schedules(day.database).add(new_schedule(Task("t", chat, text, "7"), kind, words, due, now, BERLIN))


@pytest.fixture
def clock() -> Iterator[Clock]:
    made = Clock(at("2026-11-26 08:00"))
    yield made
    made.stop()


@pytest.fixture
def day(light: World) -> Iterator[DayMemory]:
    with closing(DayMemory(light.settings(), nullcontext)) as opened:
        yield opened


def test_what_is_due_comes_in_the_language_that_the_chat_has_chosen(light: World, day: DayMemory) -> None:
    light.redis.hset(keys.chat_settings(CHAT), "language", "de")
    now = at("2026-11-20 12:00")
    remember(day, "in 20 minutes tea", now)
    remember(day, "every day 12:10 news", now, question=True)
    ScheduleSender(day, light.redis, lambda: now + 1_200).round()
    (sent,) = outbox(light)
    assert sent["text"] == "Erinnerung 1: tea"
    task = json.loads(light.redis.lrange(keys.TASKS, 0, -1)[0])
    assert task["language"] == "de", "the answer is given in it, too"


def test_a_reminder_does_not_wait_for_who_writes_to_the_store(
    light: World, day: DayMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        raise StoreUnavailable("database is locked")

    monkeypatch.setattr(Schedules, "prune", locked)
    now = at("2026-11-20 12:00")
    remember(day, "in 20 minutes tea", now)
    ScheduleSender(day, light.redis, lambda: now + 1_200).round()
    assert len(outbox(light)) == 1


SIX = [
    "in 20 minutes tea", "tomorrow 2:30 look at the moon", "tomorrow 3:30 feed the cat", "every day 7:30 pills", "every sunday 2:30 backup",
    "25 october 18:00 call Ann",
]  # fmt: skip
#: From, to, and how many dispatchers run.
TIMES = [
    ("2026-10-24 20:00", "2026-10-25 02:45", 2),
    ("2026-10-25 02:45", "2026-10-25 17:50", 1),  # restarted in the hour that comes twice
    ("2026-10-25 17:50", "2026-10-25 18:10", 0),  # down
    ("2026-10-25 18:10", "2026-10-26 09:00", 2),
    ("2026-10-26 09:00", "2027-03-27 20:00", 0),  # down for a winter
    ("2027-03-27 20:00", "2027-03-28 09:00", 2),
]


def test_six_reminders_over_the_changes_of_the_clocks_and_a_restart(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_WAIT", 3_600.0)
    clock = Clock(at(TIMES[0][0]))
    lines = ["Six reminders over the changes of the clocks in Berlin: what the chat shows, and when it came.", ""]
    clock.start(light)
    for text in SIX:
        made = remember(clock.running[0][0], text, clock.now)
        lines.append(f"/remind {text}\n    {confirmed_text(made)}")
    clock.stop()
    for begin, end, dispatchers in TIMES:
        lines.append(f"\n{begin} to {end}: {dispatchers or 'no'} dispatcher{'s' * (dispatchers != 1)}")
        clock.now = at(begin)
        clock.start(light, dispatchers)
        while clock.now < at(end) and dispatchers:
            wait = min(sender.round() for _, sender in clock.running)
            moment = datetime.fromtimestamp(clock.now, BERLIN)
            texts = [" ".join(str(one["text"]).split()) for one in outbox(light)]
            lines += [f"    {moment:%Y-%m-%d %H:%M %Z}  {one}" for one in texts]
            light.redis.delete(keys.outbox("main"))
            clock.now += wait
        clock.stop()
    text = "\n".join(lines) + "\n"
    print(text)
    assert text == RECORDING.read_text(encoding="utf-8")


def test_of_dispatchers_at_once_one_sends(light: World, day: DayMemory, clock: Clock) -> None:
    for number in range(20):
        remember(day, f"every day 9:0{number % 10} number {number}", clock.now)
    clock.start(light, 4)
    clock.now = at("2026-11-26 09:30")
    threads = [threading.Thread(target=sender.round) for _, sender in clock.running]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [one["text"] for one in outbox(light)]
    assert len(texts) == len(set(texts)) == 20
    assert {one.due for one in Schedules(day.database).of_chat(CHAT)} == {at(f"2026-11-27 09:0{n}") for n in range(10)}


class Killed(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("question", [False, True])
def test_a_death_between_sending_and_the_store_sends_nothing_twice(
    light: World, day: DayMemory, clock: Clock, monkeypatch: pytest.MonkeyPatch, question: bool
) -> None:
    remember(day, "every day 9:00 news", clock.now, question=question)
    clock.start(light)
    (_, sender), clock.now = clock.running[0], at("2026-11-26 09:00")

    def die(_: str) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(module, "crash_point", die)
        with pytest.raises(Killed):
            sender.round()
    sent: Any = light.redis.lrange("hcli:tasks" if question else "hcli:mem:outbox:main", 0, -1)
    sender.round()
    assert light.redis.lrange("hcli:tasks" if question else "hcli:mem:outbox:main", 0, -1) == sent
    assert len(sent) == 1
    (one,) = Schedules(day.database).of_chat(CHAT)
    assert one.due == at("2026-11-27 09:00")


def test_a_late_one_says_so_and_comes_once(light: World, day: DayMemory, clock: Clock) -> None:
    remember(day, "every day 9:00 pills", clock.now)
    clock.start(light)
    clock.now = at("2026-11-29 12:00")
    clock.running[0][1].round()
    clock.running[0][1].round()
    (message,) = outbox(light)
    assert message["text"] == "Reminder 1: pills\n(It was due Thursday 26 November 2026, 09:00 (Europe/Berlin).)"
    assert message["user_id"] == "7"
    assert [button["command"] for row in message["buttons"] for button in row] == [
        "/remind done 1", "/remind snooze 1 10m", "/remind snooze 1 1h", "/remind snooze 1 tomorrow",
    ]  # fmt: skip
    assert Schedules(day.database).of_chat(CHAT)[0].due == at("2026-11-30 09:00")


def test_scheduled_questions_are_tasks_in_their_order_and_wait_behind_what_is_held(light: World, clock: Clock) -> None:
    clock.start(light)
    day, sender = clock.running[0]
    for hour in (9, 10):
        remember(day, f"day {hour}:00 What is new at {hour}?", clock.now, question=True)
    clock.now = at("2026-11-26 12:00")
    hold = {"since": clock.now, "next": clock.now + 60, "why": "I am over my usage limit"}
    light.redis.hset("hcli:mem:holds", CHAT, json.dumps(hold))
    assert sender.round() >= 1
    assert not light.redis.llen("hcli:tasks"), "they would overtake what waits"
    light.redis.hset("hcli:mem:holds", CHAT, json.dumps(hold | {"next": clock.now + 20 * 3600}))  # of a wrong clock
    sender.round()
    tasks = [json.loads(raw) for raw in reversed(light.redis.lrange("hcli:tasks", 0, -1))]
    assert [(one["message"], one["scheduled"], one["user_id"]) for one in tasks] == [
        ("What is new at 9?", True, "7"), ("What is new at 10?", True, "7"),
    ]  # fmt: skip
    assert all(light.redis.hexists("hcli:mem:bot:waiting:main", one["task_id"]) for one in tasks)
    clock.now = at("2026-11-27 09:00")
    sender.round()
    assert light.redis.llen("hcli:tasks") == 3


def test_a_chat_has_so_many_questions_as_it_may_ask_in_a_day_and_reminders_beside_them(
    light: World, day: DayMemory
) -> None:
    now, table = at("2026-11-26 08:00"), Schedules(day.database)
    for _ in range(MOST[ScheduleKind.QUESTION]):
        remember(day, "day 9:00 What is new?", now, question=True)
    due, words = read_repeating("day 9:00 One more?", now, BERLIN)
    for kind, said in ((ScheduleKind.QUESTION, "This chat has 10 of these"), (ScheduleKind.REMINDER, "Reminder 11: ")):
        new = new_schedule(Task("t", CHAT, words, "7"), kind, words, due, now, BERLIN)
        with day.database.begin() as connection:
            assert add_schedule(table, new, connection).startswith(said)
