"""kill -9 of the bot at its named points, and at any moment: nothing is lost, and what may be there twice is what delivery.py says."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter

import pytest

from tests.support.day.telegram_bot import Bot, Stage, wait_until
from tests.support.processes.forked import constant


def dies_at(stage: Stage, point: str, **more: str) -> Bot:
    """A bot that kills itself at a point which it is about to reach."""
    bot = stage.bot_again(wait=False, HMEM_CRASH_AT=f"telegram:{point}", **more)
    assert bot.died() == -signal.SIGKILL
    return bot


def answered(stage: Stage, chat: int, update: int, text: str, *answer: str) -> None:
    """Take the only task with a bot that lives, answer it, and see the chat."""
    bot = stage.bot_again()
    task = stage.pop()
    assert task["message"] == text
    stage.confirmed(update)
    assert stage.queued() == [], "it came again and made no second task"
    stage.answer(task["task_id"], "\n".join(answer))
    stage.shows(chat, *answer)
    stage.quiet()
    assert bot.stop() == 0


@pytest.mark.parametrize("point", ["updates-received", "after-intake", "update-taken"])
def test_an_update_is_neither_lost_nor_taken_twice(stage: Stage, chat: int, point: str) -> None:
    update = stage.api.say(chat, "hello")
    dies_at(stage, point)
    assert stage.api.offset <= update, "Telegram was not told that it is taken"
    assert len(stage.queued()) == (0 if point == "updates-received" else 1)
    answered(stage, chat, update, "hello", "hello yourself")


def test_a_long_text_in_parts_is_one_message_whatever_dies(stage: Stage, chat: int) -> None:
    sent = int(time.time())  # both: on a slow machine the bot's death takes longer than Telegram between two parts
    stage.api.say(chat, "a" * 4096, date=sent)
    dies_at(stage, "after-intake")
    update = stage.api.say(chat, "b" * 700, date=sent)
    answered(stage, chat, update, "a" * 4096 + "b" * 700, "read")


@pytest.mark.slow
def test_the_points_of_a_delivery_and_what_each_leaves_twice(stage: Stage, chat: int) -> None:
    """One answer of three messages, and a death at every point on its way."""
    stage.api.say(chat, "tell me")
    dies_at(stage, "placeholder-sent")
    stage.shows(chat, "…")
    dies_at(stage, "placeholder-sent")
    stage.shows(chat, "…", "…")
    task = stage.bot_again()
    taken = stage.pop()["task_id"]
    stage.placeholder_of(taken)
    assert task.stop() == 0
    first, second, third = (f"{number} " * 1900 for number in ("first"[:1], "s", "t"))
    stage.answer(taken, f"{first}\n{second}\n{third}")
    dies_at(stage, "answer-edited")
    dies_at(stage, "part-1-sent")
    dies_at(stage, "part-2-sent")
    dies_at(stage, "all-sent")
    last = stage.bot_again()
    stage.quiet()
    begins = Counter(text.strip()[:1] for text in stage.api.texts(chat))
    # Three deaths before a placeholder was noted left two that stay; each part that was sent and not noted is there twice.
    assert begins == {"…": 2, "f": 1, "s": 2, "t": 2}
    edits = [one.status for one in stage.api.called("editMessageText", chat)]
    assert edits == [200, 400], "the repeated edit changed nothing"
    assert last.stop() == 0


def test_a_message_of_the_outbox_is_there_at_most_twice(stage: Stage, chat: int) -> None:
    stage.push({"id": "a", "chat_id": chat, "text": "Reminder"})
    dies_at(stage, "part-0-sent")
    bot = stage.bot_again()
    stage.quiet()
    assert bot.stop() == 0
    assert stage.api.texts(chat) == ["Reminder", "Reminder"]


@pytest.mark.slow
def test_killed_at_any_moment_every_question_is_answered_once(stage: Stage, chat: int) -> None:
    """Eight bots are killed while questions and answers go through; the dispatcher here answers whatever comes."""
    choice, asked, answers = random.Random(7), 0, 0
    bot = stage.bot()
    for _ in range(8):
        for _ in range(choice.randint(1, 4)):
            asked += 1
            stage.api.say(chat, f"question {asked}")
        target = answers + choice.randint(0, 3)
        while answers < min(target, asked - 1):
            task = stage.pop()
            stage.answer(task["task_id"], f"answer to {task['message']}")
            answers += 1
        bot.stop(signal.SIGKILL)
        with constant("dispatcher.bots.telegram.state:QUEUED_OF_CHAT", 100):
            bot = stage.bot_again()
    while answers < asked:
        task = stage.pop()
        stage.answer(task["task_id"], f"answer to {task['message']}")
        answers += 1
    stage.quiet()
    assert stage.queued() == []
    counted = Counter(text for text in stage.api.texts(chat) if text != "…")
    assert set(counted) == {f"answer to question {number + 1}" for number in range(asked)}
    assert sum(counted.values()) <= asked + 8, "at most one message again for each death"
    wait_until(lambda: not stage.redis.keys("hcli:results:*"), lambda: "no result to be left")
