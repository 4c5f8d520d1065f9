"""kill -9 of the bot at its named points, and at any moment: nothing is lost, and what may be there twice is what delivery.py says."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.dispatcher.bots.telegram.media.test_sent_files import REPORT, documents, stored
from tests.support.day.telegram_bot import Bot, Stage, labels, last, person, say, sees, talking, wait_until
from tests.support.machine import wait_for
from tests.support.processes.talk import png


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


# Files.


@pytest.mark.parametrize("point", ["media-stored", "after-arrival"])
def test_an_album_is_fetched_once_and_what_comes_behind_it_waits(stage: Stage, chat: int, point: str) -> None:
    stage.api.album(chat, [stage.api.files.photo(png(number)) | {"media_group_id": "c"} for number in range(3)])
    stage.api.say(chat, "and then?")
    dies_at(stage, point)
    stage.bot_again()
    first, second = stage.pop(), stage.pop()
    assert (len(first["media"]), first["message"], second["message"]) == (3, "(picture)", "and then?")
    for task, said in ((first, "yes"), (second, "no")):
        stage.answer(task["task_id"], said)
        wait_until(lambda: said in stage.api.texts(chat), lambda: str(stage.api.texts(chat)))  # noqa: B023
    stage.quiet()
    assert stage.api.texts(chat) == ["yes", "no"]
    assert stage.queued() == []


@pytest.mark.parametrize(("point", "sent"), [("file-0-sent", 2), ("all-sent", 1)])
def test_of_the_files_of_an_answer_one_is_sent_twice_at_most(stage: Stage, chat: int, point: str, sent: int) -> None:
    bot = stage.bot(HMEM_CRASH_AT=f"telegram:{point}")
    task = stage.ask(chat, "make a report")
    stage.result(task, "Here it is.", files=(stored(stage, REPORT, "a.csv"), stored(stage, b"more", "b.txt")))
    bot.died()
    stage.bot_again()
    stage.quiet()
    assert [text for text in stage.api.texts(chat) if text] == ["Here it is."]
    assert sorted(name for name, _ in documents(stage, chat)) == ["a.csv"] * sent + ["b.txt"]


# Buttons.


def test_a_death_in_the_middle_leaves_it_forgotten_once(redis_url: str, tmp_path: Path) -> None:
    with talking(redis_url, tmp_path) as stage:
        chat = stage.new_chat()
        say(stage, chat, "the pin is 5566", "All right.")
        shown = say(stage, chat, "/forget 5566", "1 message")
        digest = shown.buttons[0][0]["callback_data"].rpartition(" ")[2]
        (first,) = stage.world.dispatchers
        first.stop()
        dying = stage.world.start_dispatcher(HMEM_CRASH_AT="answering:forgotten")
        stage.api.say(chat, f"/forget yes {digest}", person(chat))
        wait_for(lambda: dying.process.poll() is not None, "its death")
        stage.world.start_dispatcher()
        wait_for(lambda: "Forgotten: 1 message" in "".join(stage.api.texts(chat)), "the answer")
        stones = (stage.world.root / "state" / "forgotten.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(stones) == 1
        assert "5566" not in stage.world.command("hmem", "history", str(chat), check=False).stdout


@pytest.mark.parametrize("point", ["press-marked", "update-taken"])
def test_a_press_is_carried_out_once_when_the_bot_dies_over_it(stage: Stage, chat: int, point: str) -> None:
    first = stage.bot()
    say(stage, chat, "/model", "Model of this chat: default")
    assert first.stop(signal.SIGKILL) == -signal.SIGKILL
    stage.api.press(chat, "opus", person(chat))
    dies_at(stage, point)
    stage.bot_again()
    assert labels(sees(stage, chat, "Model of this chat: opus"))[0] == "✓ opus"
    assert len(stage.api.texts(chat)) == 1, "the choice replaced the message"
    assert stage.api.called("answerCallbackQuery"), "the waiting sign ended"


@pytest.mark.parametrize("point", ["answer-edited", "all-sent"])
def test_the_row_of_the_answer_before_is_removed_also_after_a_death(redis_url: str, tmp_path: Path, point: str) -> None:
    with talking(redis_url, tmp_path) as stage:
        chat = stage.new_chat()
        say(stage, chat, "one", "All right.")
        hold = stage.world.root / "hold"
        hold.touch()
        stage.api.say(chat, "two", person(chat))
        wait_until(lambda: stage.api.texts(chat)[1:] == ["…"], lambda: str(stage.api.texts(chat)))
        waiting: Any = stage.redis.hkeys("hcli:mem:bot:waiting:main")
        stage.placeholder_of(waiting[0].decode())
        stage.close()
        hold.unlink()
        dies_at(stage, point)
        stage.bot_again()
        sees(stage, chat, "All right.")
        wait_until(lambda: not stage.api.messages(chat)[1].buttons, lambda: "the first row to go")
        assert stage.api.texts(chat) == ["All right.", "All right."], "each answer is there once"
        assert labels(last(stage, chat)) == ["Why?", "Retry"]
