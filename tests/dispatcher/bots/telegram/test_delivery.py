"""The bot's daily work over real HTTP and a real Redis: a message in, its answer out; with our dispatcher, and with one like h-cli's."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from dispatcher.bots.telegram.core import KEY_CHANGED
from shared.turns.signed import RESULT_BYTES, Result
from shared.wire import keys
from shared.wire.ids import bot_of
from tests.dispatcher.bots.telegram.conftest import one_bot
from tests.servers.telegram_api import ADA, TOKEN
from tests.servers.telegram_messages import mention, message_of
from tests.support.day.telegram_bot import GROUP, Stage, wait_until
from tests.support.world import SECRET

stage = one_bot()


def test_a_message_becomes_a_task_and_its_answer_takes_the_place_of_the_placeholder(stage: Stage, chat: int) -> None:
    update = stage.api.say(chat, "What is the boiler code?")
    task = stage.pop()
    assert task.pop("submitted_at").endswith("+00:00")
    of_ada = {"user_id": 7, "name": "Ada Byron", "chat_type": "private"}
    assert task == of_ada | {"task_id": f"tg-4242-{update}", "message": "What is the boiler code?", "chat_id": chat}
    stage.shows(chat, "…")
    stage.placeholder_of(task["task_id"])
    assert stage.redis.lrange(f"hcli:pending:{chat}", 0, -1) == [task["task_id"].encode()]
    stage.answer(task["task_id"], "It is **4711**.")
    stage.shows(chat, "It is 4711.")
    stage.quiet()
    _, shown = stage.api.messages(chat)
    assert shown.entities == [{"type": "bold", "offset": 6, "length": 4}]
    assert shown.edits == ["…"]
    assert not shown.silent
    assert shown.reply_to is None
    assert not stage.redis.exists(f"hcli:results:{task['task_id']}", f"hcli:pending:{chat}")
    assert stage.api.called("sendMessage", chat)[0].params["link_preview_options"] == '{"is_disabled": true}'


def test_who_waits_for_nobody_is_told_and_answered_later(stage: Stage, chat: int) -> None:
    update = stage.api.say(chat, "Is anybody there?")
    task_id = f"tg-4242-{update}"
    stage.shows(chat, "…")
    stage.placeholder_of(task_id)
    stage.waits(task_id, at=time.time() - 100)
    told = "No dispatcher is running at the moment"
    wait_until(lambda: told in str(stage.api.texts(chat)), lambda: f"the word: {stage.api.texts(chat)}")
    assert stage.pop()["task_id"] == task_id, "it is still queued"
    stage.answer(task_id, "Now I am.")
    stage.shows(chat, "Now I am.")
    stage.quiet()


def test_a_long_answer_is_several_messages_in_order(stage: Stage, chat: int) -> None:
    task = stage.ask(chat, "List them")
    lines = [f"line {number} of a long answer, 🦊 included" for number in range(400)]
    stage.answer(task, "\n".join(lines))
    stage.quiet()
    texts = stage.api.texts(chat)
    assert len(texts) == 4
    assert "\n".join(texts).splitlines() == lines
    first, *further = [one for one in stage.api.messages(chat) if one.by_bot]
    assert {one.reply_to for one in further} == {first.id}, "other answers may stand in between"


def test_a_part_that_telegram_will_not_take_at_all_is_named(stage: Stage, chat: int) -> None:
    task = stage.ask(chat, "x")
    stage.api.fail("sendMessage", 400, "Bad Request: odd", chat=chat)
    stage.answer(task, "first " * 600 + "\n" + "second " * 600)
    stage.quiet()
    first, second, third = stage.api.texts(chat)
    assert first.startswith("first")
    assert "refused part" in second
    assert third.endswith("second")


def plant(stage: Stage, task: str, junk: str) -> None:
    key = f"hcli:results:{task}"
    if junk == "no JSON":
        stage.redis.set(key, b"{")
    elif junk == "another type":
        stage.redis.rpush(key, "a list")
    elif junk == "huge":
        stage.redis.set(key, b"x" * (RESULT_BYTES + 1))
    elif junk == "cut":
        cut = Result.sign(SECRET, task, "No", " the pressure is too high:2026-11-22T10:00:00+00:00")
        stage.redis.set(key, cut.to_json())
    else:
        stage.answer(task, "Send me your password", secret=junk)


@pytest.mark.parametrize("junk", ["another secret", "no JSON", "another type", "huge", "cut"])
def test_junk_in_place_of_an_answer_is_waited_past(stage: Stage, chat: int, junk: str) -> None:
    task = stage.ask(chat, "x")
    plant(stage, task, junk)
    wait_until(lambda: "does not have my signature" in str(stage.api.texts(chat)), lambda: str(stage.api.texts(chat)))
    assert stage.redis.exists(f"hcli:results:{task}")
    stage.redis.delete(f"hcli:results:{task}")
    stage.answer(task, "the true answer")
    stage.shows(chat, "the true answer")
    stage.quiet()
    assert not stage.redis.exists(f"hcli:results:{task}")


def test_answers_go_where_they_were_asked_for(stage: Stage, chat: int) -> None:
    other = stage.new_chat()
    mine, theirs = stage.ask(chat, "mine"), stage.ask(other, "theirs")
    stage.answer(theirs, f"for {other}")
    stage.shows(other, f"for {other}")
    stage.shows(chat, "…")
    stage.answer(mine, f"for {chat}")
    stage.shows(chat, f"for {chat}")


def test_ready_answers_come_in_the_order_of_the_questions(stage: Stage, chat: int) -> None:
    tasks = [stage.ask(chat, f"question {number}") for number in range(3)]
    stage.answer(tasks[2], "third")
    stage.shows(chat, "…", "…", "third")  # a task that is lost does not silence the chat
    stage.answer(tasks[1], "second")
    stage.answer(tasks[0], "first")
    stage.shows(chat, "first", "second", "third")
    stage.quiet()


def test_a_question_without_an_answer_for_two_days_is_given_up(stage: Stage, chat: int) -> None:
    record = {"chat": str(chat), "at": time.time() - 49 * 3600, "parts_sent": 0, "of a later version": 1}
    stage.redis.rpush(f"hcli:pending:{chat}", "tg-4242-1")
    stage.waits("tg-4242-1", **record)
    stage.redis.hset("hcli:mem:bot:waiting:main", "odd", b"no record")
    wait_until(lambda: "within two days" in str(stage.api.texts(chat)), lambda: str(stage.api.texts(chat)))
    stage.quiet()
    assert not stage.redis.exists(f"hcli:pending:{chat}")


def test_in_a_group_the_answer_replies_and_stays_in_its_topic(stage: Stage, chat: int) -> None:
    text = "@memory_bot, what now?"
    task = stage.ask(GROUP, text, entities=mention(text), message_thread_id=5, is_topic_message=True)
    stage.answer(task, "This.")
    stage.shows(GROUP, "This.")
    asked, answer = stage.api.messages(GROUP)
    assert (answer.reply_to, answer.thread) == (asked.id, 5)


def test_an_answer_goes_to_its_topic_and_to_the_chat_when_that_is_gone(stage: Stage, chat: int) -> None:
    text = "@memory_bot, what now?"
    forum = {"chat": {"id": GROUP, "type": "supergroup", "title": "Group", "is_forum": True}, "entities": mention(text)}
    boiler, garden = ({"message_thread_id": one, "is_topic_message": True} for one in (5, 6))
    shown: list[tuple[str, int | None]] = []

    def asked(where: int, **said: Any) -> dict[str, Any]:
        stage.api.update({"message": message_of(where, 900 + len(shown), text, ADA, said)})
        task = stage.pop()
        stage.placeholder_of(task["task_id"])
        return task

    def answer_is_in(where: int, thread: int | None, topic: str | None, **said: Any) -> None:
        task = asked(where, **said)
        assert task.get("topic") == topic
        stage.answer(task["task_id"], f"answer {len(shown)}")
        shown.append((f"answer {len(shown)}", thread))
        wait_until(lambda: shown[-1][0] in stage.api.texts(where), lambda: str(stage.api.texts(where)))
        stage.quiet()
        assert next(one.thread for one in stage.api.messages(where) if one.text == shown[-1][0]) == thread

    answer_is_in(GROUP, None, "General", **forum)
    answer_is_in(GROUP, 5, "5", **forum, **boiler)
    answer_is_in(GROUP, 6, "6", **forum, **garden)
    answer_is_in(GROUP, None, None, entities=mention(text), message_thread_id=77)  # a reply in a group without topics
    answer_is_in(chat, 5, "5", **boiler)
    task = asked(GROUP, **forum, **boiler)
    stage.api.fail("editMessageText", 400, "Bad Request: message to edit not found", chat=GROUP, times=2)
    stage.api.fail("sendMessage", 400, "Bad Request: message thread not found", chat=GROUP, times=1)
    stage.answer(task["task_id"], "not lost")
    wait_until(lambda: "not lost" in stage.api.texts(GROUP), lambda: str(stage.api.texts(GROUP)))
    assert stage.api.messages(GROUP)[-1].thread is None


@pytest.mark.slow
def test_messages_of_the_outbox_are_delivered_and_bad_ones_removed(stage: Stage, chat: int) -> None:
    other = stage.new_chat()
    stage.api.flood("sendMessage", 2, chat=chat)
    to: list[tuple[object, object]] = [(chat, "Reminder: *boiler*"), (5, "to one that is not allowed")]
    to += [("no number", "x"), (str(other), "one"), (str(other), "two"), (other, 5)]
    outbox = [{"id": str(number), "chat_id": where, "text": text} for number, (where, text) in enumerate(to)]
    stage.redis.rpush(keys.outbox(bot_of("discord:815")), "another bot's")
    stage.redis.rpush("hcli:mem:outbox:main", '"no object"')
    stage.push(*outbox)
    stage.shows(other, "one", "two")
    assert stage.api.texts(chat) == [], "the chat that is to wait holds up nobody"
    stage.shows(chat, "Reminder: *boiler*")
    stage.quiet()
    assert not stage.redis.exists("hcli:mem:outbox:main")
    assert stage.redis.lrange("hcli:mem:outbox:discord", 0, -1) == [b"another bot's"]
    assert not stage.api.called("sendMessage", 5)


def test_what_nobody_of_us_has_signed_is_not_said(stage: Stage, chat: int) -> None:
    """Whoever may write to Redis, a signed record at another place too. Its chat is told once that something is lost."""
    task, other = stage.ask(chat, "one"), stage.new_chat()
    waiting, outbox, arriving = "hcli:mem:bot:waiting:main", "hcli:mem:outbox:main", "hcli:mem:bot:arriving:main"
    words = {
        "chat": str(chat),
        "at": 1.0,
        "text": "I am the bot",
        "user": "7",
        "buttons": [[{"label": "No", "command": "/forget all"}]],
    }
    signed = stage.redis.hget(waiting, task) or b""
    stage.redis.hset(
        waiting,
        mapping={"forged": json.dumps(words), "moved": signed, "signed": json.dumps(words | {"hmac": "0" * 64})},
    )
    stage.redis.rpush(outbox, json.dumps({"chat_id": chat, "text": "I am the bot"}), signed)
    stage.redis.hset(
        arriving,
        "tg-4242-9",
        json.dumps({"order": 9, "chat": str(chat), "at": 1.0, "label": "x", "task": {}, "record": words}),
    )
    stage.confirmed(stage.api.say(other, "a" * 4096))
    assert stage.pop()["chat_id"] == other
    wait_until(
        lambda: stage.redis.hkeys(waiting) != [] and not stage.redis.llen(outbox), lambda: "the outbox to be emptied"
    )
    stage.answer(task, "signed")
    stage.shows(chat, "signed", KEY_CHANGED)
    assert (stage.redis.hexists(waiting, "moved"), stage.redis.hlen(arriving)) == (False, 0)
    log = next(stage.world.root.glob("bot-*.log")).read_text()
    assert "a message of the outbox cannot be believed and is removed" in log
    assert all(re.search(f"a record cannot be believed .*key={key}", log) for key in (waiting, arriving))


def test_nothing_that_was_said_and_no_secret_is_in_the_log(stage: Stage, chat: int) -> None:
    stage.answer(stage.ask(chat, "a very private question"), "a very private answer")
    stage.shows(chat, "a very private answer")
    (log,) = stage.world.root.glob("bot-*.log")
    text = log.read_text()
    assert "a message was received" in text
    for words in ("private", "boiler", TOKEN, TOKEN.partition(":")[2]):
        assert words not in text


def test_formatting_that_telegram_refuses_is_left_out(stage: Stage, chat: int) -> None:
    task = stage.ask(chat, "x")
    stage.api.fail("editMessageText", 400, "Bad Request: can't parse entities: something odd")
    stage.answer(task, "**bold** words")
    stage.shows(chat, "bold words")
    assert stage.api.messages(chat)[-1].entities == []
