"""`/remind`, `/every`, `/timezone` and the tag REMIND, by a running dispatcher, and by a bot in front of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from dispatcher.features.schedules.table import Schedule, ScheduleKind, Schedules
from shared.turns.records import dumps, loads_object
from tests.support.day.talking import CHAT, Talk, quick_talk, store
from tests.support.day.telegram_bot import Stage, staged
from tests.support.machine import wait_for
from tests.support.world import World

EXACT = r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day \d{1,2} \w+ 20\d\d, \d\d:\d\d \(UTC\)"


@pytest.fixture
def talk(light: World) -> Talk:
    return quick_talk(light)


def schedules(world: World, chat: str = CHAT) -> list[Schedule]:
    with closing(store(world)) as database:
        return list(Schedules(database).every(chat))


def buttons(talk: Talk, task_id: str) -> list[str]:
    talk.reply(task_id)
    raw: Any = talk.world.redis.get(f"hcli:results:{task_id}")
    return [one["command"] for row in loads_object(raw).get("buttons", []) for one in row]


def test_a_reminder_is_set_listed_put_off_and_deleted(talk: Talk) -> None:
    dispatcher = talk.world.start_dispatcher()
    assert re.fullmatch(rf"Reminder 1: {EXACT}", talk.say("/remind tomorrow 9:00 buy bread"))
    said = talk.say("/remind every monday 8:00 standup")
    assert re.fullmatch(rf"Reminder 2: {EXACT}, then every Monday at 08:00", said)
    listing = talk.send("/remind")
    shown = talk.reply(listing)
    assert "1. buy bread (" in shown
    assert "2. standup (" in shown
    assert set(buttons(talk, listing)) == {"/remind delete 1", "/remind delete 2"}
    assert re.fullmatch(rf"Reminder 1 comes again {EXACT}: buy bread", talk.say("/remind snooze 1 10m"))
    assert talk.say("/remind done 1") == "Done: buy bread"
    assert talk.say("/remind done 2").startswith("Done: standup\nNext: Monday ")
    assert talk.say("/remind delete 2") == "Deleted: standup"
    assert talk.say("/remind delete 2") == "There is no number 2. /remind shows the numbers."
    assert talk.say("/remind").startswith("There are none.")
    assert "is in the past" in talk.say("/remind today 0:00 x")
    assert "I do not understand the date" in talk.say("/remind @/etc/passwd")
    assert schedules(talk.world) == []
    assert talk.requests() == [], "none of it reached Claude"
    assert dispatcher.stop() == 0


def test_a_date_that_may_be_two_days_is_asked_about_with_two_buttons(talk: Talk) -> None:
    talk.world.start_dispatcher()
    asked = talk.send("/remind 12/01 9:00 tea")
    assert talk.reply(asked) == "Which day do you mean?"
    january, december = sorted(buttons(talk, asked), key=lambda one: one[13:])
    assert re.fullmatch(r"/remind 20\d\d-01-12 9:00 tea", january)
    assert re.fullmatch(r"/remind 20\d\d-12-01 9:00 tea", december)
    assert "December" in talk.say(december)
    assert "means one day in America" in talk.say("/remind 12/01 9:00 " + "tea " * 20), "no button carries that"


def test_a_tag_sets_a_reminder_and_a_wrong_one_is_answered_with_a_sentence(talk: Talk) -> None:
    dispatcher = talk.world.start_dispatcher()
    answer = talk.say("Remind me of the bread.", "Gladly.\n[REMIND CODE: buy bread | WHEN: tomorrow 9:00]")
    assert re.fullmatch(rf"Gladly\.\n\nReminder 1: {EXACT}", answer)
    assert "\n`[REMIND CODE: text | WHEN: 2026-11-14T07:00 | EVERY: mon]` (or: " in talk.requests()[0].system
    answer = talk.say("And yesterday?", "Hm.\n[REMIND CODE: x | WHEN: yesterday 9:00]")
    assert answer.startswith('Hm.\n\nI did not set a reminder: "yesterday 9:00" is in the past')
    answer = talk.say("And at some time?", "Hm.\n[REMIND CODE: x | WHEN: when pigs fly]\n[REMIND CODE: y]")
    assert 'I did not set a reminder: I do not understand the date "when pigs fly"' in answer
    assert "I did not set a reminder: it has no date (WHEN)." in answer
    assert [(one.text, one.source_turn) for one in schedules(talk.world)] == [("buy bread", f"{CHAT}-1:user")]
    assert dispatcher.stop() == 0


def test_the_time_zone_of_a_chat_is_in_the_header_and_in_reminders(talk: Talk) -> None:
    dispatcher = talk.world.start_dispatcher()
    assert talk.say("/timezone").startswith("This chat uses the time zone UTC; it is now ")
    assert "the time zone Asia/Kathmandu" in talk.say("/timezone Asia/Kathmandu")
    assert "(Asia/Kathmandu)" in talk.asked("hello", "hi").message
    assert talk.say("/remind tomorrow 9:00 tea").endswith(", 09:00 (Asia/Kathmandu)")
    talk.say("A goal", "Noted.\n[GOAL CODE: pay | DEADLINE: 2031-12-24 18:00]")
    assert "24 December 2031, 18:00" in talk.say("/memory")
    for wrong in ("../../etc/passwd", "Mars/Olympus", "Europe/Berlin x"):
        assert talk.say(f"/timezone {wrong}").startswith("I do not know the time zone"), wrong
    for city, zone in (("berlin", "Europe/Berlin"), ("New York", "America/New_York"), ("istanbul", "Europe/Istanbul")):
        assert f"the time zone {zone}; " in talk.say(f"/timezone {city}")
    assert talk.say("/timezone west").startswith("Which one do you mean: Australia/West, Brazil/West?")
    assert "the time zone UTC" in talk.say("/timezone default")
    assert dispatcher.stop() == 0


def test_in_a_group_only_owners_schedule_questions_and_change_the_zone(talk: Talk) -> None:
    world = talk.world
    dispatcher = world.start_dispatcher(OWNERS="7")

    def say(text: str, user: str) -> str:
        task = f"g-{user}-{time.time_ns()}"
        world.redis.rpush("hcli:tasks", dumps({"task_id": task, "chat_id": "-100", "message": text, "user_id": user}))
        return talk.reply(task)

    assert say("/every day 8:00 news", "8").startswith("In a group only an owner may schedule questions.")
    assert say("/timezone Europe/Paris", "8").startswith("In a group only an owner may change the time zone.")
    assert say("/every day 8:00 news", "7").startswith("Question 1: ")
    assert say("/remind tomorrow 9:00 x", "8").startswith("Reminder 2: ")
    assert say("/remind tomorrow 9:00 y", "9").startswith("Reminder 3: ")
    assert say("/remind delete 2", "9").startswith("In a group only an owner may change what somebody else has set.")
    assert say("/remind delete 2", "8") == "Deleted: x"
    assert say("/remind delete 3", "7") == "Deleted: y"
    assert say("/remind delete 1", "7") == "There is no number 1. /remind shows the numbers."
    assert say("/every delete 1", "7") == "Deleted: news"
    assert dispatcher.stop() == 0


@pytest.fixture
def stage(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(redis_url, tmp_path_factory.mktemp("schedules")) as stage:
        yield stage


def test_a_scheduled_question_is_answered_in_the_chat_and_a_reminder_has_buttons(stage: Stage) -> None:
    talk, chat = quick_talk(stage.world), stage.new_chat()
    talk.will_answer("What is new?", "Nothing.")
    with closing(store(stage.world)) as database:
        now = time.time()
        for kind, text in ((ScheduleKind.QUESTION, "What is new?"), (ScheduleKind.REMINDER, "tea")):
            new = Schedule(str(chat), kind, text, "UTC", now - 5, now - 600, user_id=str(chat), name="Ada")
            Schedules(database).add(new)
    stage.bot()
    stage.world.start_dispatcher()
    wait_for(lambda: sorted(stage.api.texts(chat)) == ["Nothing.", "Reminder 2: tea"], "both")
    (request,) = talk.requests()
    assert f"The words of Ada (user id {chat}), asked now by a schedule that they set" in request.message
    talk.consolidated()
    names: Any = stage.redis.keys("hcli:memory:*:user")
    raws: Any = stage.redis.mget(names)
    (turn,) = map(loads_object, raws)
    assert (turn["content"], turn["scheduled"]) == ("What is new?", True)
    stage.api.press(chat, "Done", {"id": chat, "is_bot": False, "first_name": "Ada"})
    wait_for(lambda: "Done: tea" in stage.api.texts(chat), "the answer in place of the reminder")
    assert "Reminder 2: tea" not in stage.api.texts(chat)
