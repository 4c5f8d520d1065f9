"""What the bot hears and what it does not: groups, commands, edits, pictures, strangers, and input that means it ill."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatcher.bots.telegram.arrivals import Arriving
from dispatcher.bots.telegram.messages import MESSAGE_CHARACTERS
from dispatcher.bots.telegram.state import BotState, Queue
from dispatcher.queue.chat_commands import dispatcher_commands
from shared.turns.records import Task
from shared.turns.signed import sign_record
from shared.wire.client import open_async_redis
from tests.dispatcher.bots.telegram.conftest import one_bot
from tests.servers.telegram_api import BOT
from tests.servers.telegram_messages import mention
from tests.support.day.telegram_bot import GROUP, Stage, says, wait_until
from tests.support.machine import slowness, wait_for
from tests.support.world import SECRET

PERSON = {"id": 8, "is_bot": False, "first_name": "Bea"}
STRANGERS_GROUP = -555


stage = one_bot(OWNERS="7")


def silent(stage: Stage, chat: int, update: int) -> None:
    """The update is confirmed and left nothing behind."""
    stage.confirmed(update)
    stage.quiet()
    assert stage.queued() == []
    assert not stage.api.called("sendMessage", chat)


# Groups.


@pytest.mark.parametrize("chatter", [
    {"text": "hello all"},
    {"text": "@other_bot help", "entities": [{"type": "mention", "offset": 0, "length": 10}]},
    {"text": "/help@other_bot"},
    {"text": "/unknown"},
    {"text": "me again", "user": BOT | {"id": 99}, "entities": []},
    {"text": "from the channel", "sender_chat": {"id": -1009, "type": "channel", "title": "News"}},
    {"text": "in a topic of the bot's", "reply_to_message": {"message_id": 1, "date": 1, "chat": {"id": GROUP, "type": "supergroup"},
     "from": BOT, "forum_topic_created": {"name": "t", "icon_color": 1}}},
    {"text": None, "photo": [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]},
    {"text": None, "new_chat_title": "New title"},
])  # fmt: skip
def test_what_is_not_said_to_the_bot_is_not_heard(stage: Stage, group: int, chatter: dict[str, Any]) -> None:
    stage.redis.delete("hcli:tasks")
    before = len(stage.api.called("sendMessage", group))
    stage.confirmed(stage.api.say(group, **chatter))
    stage.quiet()
    assert stage.queued() == []
    assert len(stage.api.called("sendMessage", group)) == before


@pytest.mark.parametrize(("said", "heard"), [
    ("@memory_bot: what now?", "what now?"),
    ("what now, @Memory_Bot?", "what now, ?"),
    ("🦊🦊 @memory_bot what?", "🦊🦊 what?"),
    ("‏@memory_bot مرحبا", "‏ مرحبا"),
])  # fmt: skip
def test_the_bots_name_is_taken_out(stage: Stage, group: int, said: str, heard: str) -> None:
    name = next(word for word in ("@memory_bot", "@Memory_Bot") if word in said)
    task = stage.api.say(group, said, entities=mention(said, name))
    found = stage.pop()
    assert Task.parse(json.dumps(found).encode()).message == heard
    assert found["task_id"] == f"tg-4242-{task}"
    stage.answer(found["task_id"], "yes")
    stage.quiet()


def test_a_reply_to_the_bot_and_an_administrator_in_the_groups_name_are_heard(stage: Stage, group: int) -> None:
    earlier = {"message_id": 1, "date": 1, "chat": {"id": group, "type": "supergroup"}, "from": BOT, "text": "x"}
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    own_name = {"id": group, "type": "supergroup", "title": "The‮ group"}
    stage.api.say(group, "and then?", user=anonymous, reply_to_message=earlier, sender_chat=own_name)
    task = stage.pop()
    assert (task["message"], task["name"], task["user_id"]) == ("and then?", "The group", group)
    stage.answer(task["task_id"], "x")
    stage.quiet()


# Commands.


@pytest.mark.parametrize(("command", "words"), [
    ("/start", "I remember"), ("/help", "/cancel - cancel messages"), ("/nonsense", "/help lists"), ("/etc/passwd", "/help lists"),
    ("/cancel", "nothing to cancel"), ("/model", "default"), ("/model gpt", "Choose one of opus"), ("/status", "Queued: 0"),
])  # fmt: skip
def test_commands_are_answered_by_the_bot(stage: Stage, chat: int, command: str, words: str) -> None:
    stage.api.say(chat, command)
    says(stage, chat, words)
    assert stage.queued() == []


def test_the_menu_is_registered(stage: Stage) -> None:
    wait_for(lambda: len(stage.api.called("setMyCommands")) == 6, "the menus")
    given = [one.params for one in stage.api.called("setMyCommands")]
    menus = {one.get("language_code"): json.loads(one["commands"]) for one in given}
    names = ["help", "new", *dispatcher_commands(), "status", "language", "cancel", "model"]
    assert set(menus) == {None, "de", "es", "fr", "pt", "ru"}
    assert all([one["command"] for one in menu] == names for menu in menus.values())


def test_new_ends_the_conversation_and_memory_is_a_task(stage: Stage, chat: int) -> None:
    for name in ("session", "session_history", "session_size"):
        stage.redis.set(f"hcli:{name}:{chat}", "x")
    stage.api.say(chat, "/new")
    says(stage, chat, "I started a new conversation")
    assert not stage.redis.exists(f"hcli:session:{chat}")
    kept = stage.redis.exists(f"hcli:session_history:{chat}", f"hcli:session_size:{chat}")
    assert kept == 2, "the dispatcher's to end"
    assert 0 < stage.redis.ttl(f"hcli:mem:bot:new:{chat}") <= 86_400
    stage.api.say(chat, "/memory@memory_bot  forget 3")
    task = stage.pop()
    assert task["message"] == "/memory forget 3"
    stage.answer(task["task_id"], "Forgotten.")
    says(stage, chat, "Forgotten.")


def test_cancel_takes_back_what_is_queued_and_asks_what_runs_to_stop(stage: Stage, chat: int) -> None:
    running = stage.ask(chat, "runs")
    other = stage.redis.rpush("hcli:tasks", json.dumps({"task_id": "other", "message": "x", "chat_id": 1}))
    queued = f"tg-4242-{stage.api.say(chat, 'queued')}"
    stage.placeholder_of(queued)
    stage.api.say(chat, "/cancel")
    wait_until(lambda: "Cancelled before processing" in str(stage.api.texts(chat)), lambda: str(stage.api.texts(chat)))
    text = next(one for one in stage.api.texts(chat) if "Cancelled before processing" in one)
    assert text == "Cancelled before processing: 1. In progress and asked to stop: 1."
    wait_until(lambda: stage.api.texts(chat)[1] == "Cancelled.", lambda: str(stage.api.texts(chat)))
    assert (other, [one["task_id"] for one in stage.queued()]) == (1, ["other"])
    assert 0 < stage.redis.ttl(f"hcli:mem:cancel:{running}") <= 3600
    assert not stage.redis.exists(f"hcli:mem:cancel:{queued}")
    stage.answer(running, "Cancelled.")
    stage.shows(chat, "Cancelled.", "Cancelled.", text)
    stage.quiet()


def test_what_is_put_back_before_it_was_asked_to_stop_is_taken_back(
    stage: Stage, chat: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dispatcher postpones a question (postpone.lua) between the bot's look at the queue and its request."""
    held = stage.ask(chat, "runs")
    ask = Queue.cancel_running

    async def too_late(queue: Queue, task_id: str) -> None:
        stage.redis.lpush("hcli:tasks", json.dumps({"task_id": held, "chat_id": chat, "message": "runs"}))
        await ask(queue, task_id)

    async def cancel() -> tuple[int, int, int]:
        async with open_async_redis(stage.world.settings().redis_url) as redis:
            return await BotState(redis, SECRET).cancel(str(chat), lambda *_: True)

    monkeypatch.setattr(Queue, "cancel_running", too_late)
    assert asyncio.run(cancel()) == (1, 0, 0)
    stage.shows(chat, "Cancelled.")
    assert stage.queued() == []
    stage.quiet()


def test_status_in_words(stage: Stage, chat: int) -> None:
    stage.redis.hset("hcli:mem:release", "w", 3)
    stage.api.say(chat, "/status")
    says(stage, chat, "No dispatcher of hcli-memory is running, so answers will be delayed")
    stage.redis.set("hcli:mem:lease:w", "1")
    stage.redis.set("hcli:mem:night:last", json.dumps({"run": 3, "finished_at": datetime.now(UTC).timestamp() - 7200}))
    waiting = stage.ask(chat, "x")
    stage.api.say(chat, "/status")
    wait_until(lambda: "2 hours ago" in str(stage.api.texts(chat)), lambda: str(stage.api.texts(chat)))
    assert "The dispatcher is running. Queued: 0, waiting in this chat: 1." in stage.api.texts(chat)[-1]
    stage.answer(waiting, "x")
    stage.quiet()


# Edits.


def test_an_edit_reaches_the_task_while_it_is_queued(stage: Stage, chat: int) -> None:
    update = stage.api.say(chat, "waht?")
    wait_for(stage.queued, "the task")
    stage.placeholder_of(f"tg-4242-{update}")
    stage.api.edit(chat, stage.api.messages(chat)[0].id, "what?")
    wait_until(lambda: [one["message"] for one in stage.queued()] == ["what?"], lambda: str(stage.queued()))
    task = stage.pop()
    assert task["task_id"] == f"tg-4242-{update}"
    stage.answer(task["task_id"], "that")
    stage.shows(chat, "that")


def test_an_edit_reaches_a_question_that_was_put_back_and_the_edit_before_it(stage: Stage, chat: int) -> None:
    """Else that would be remembered last, though it is older."""
    update = stage.api.say(chat, "first")
    question = stage.pop()
    stage.placeholder_of(f"tg-4242-{update}")
    message = stage.api.messages(chat)[0].id
    stage.api.edit(chat, message, "second")
    wait_until(
        lambda: [one.get("corrects") for one in stage.queued()] == [question["task_id"]], lambda: str(stage.queued())
    )
    stage.redis.lpush("hcli:tasks", json.dumps(question))  # as the dispatcher does it when Claude cannot answer now
    stage.api.edit(chat, message, "third")
    wait_until(lambda: [one["message"] for one in stage.queued()] == ["third", "third"], lambda: str(stage.queued()))
    for _ in range(2):
        stage.answer(stage.pop()["task_id"], "that")
    stage.shows(chat, "that", "that")
    stage.quiet()


# Long texts, which Telegram cuts into messages.


def test_a_long_text_in_three_messages_is_one_question(stage: Stage, chat: int) -> None:
    first, second, third = "a" * 4096, "b" * 4095, "c" * 700
    stage.api.say(chat, first)
    wait_for(lambda: stage.redis.hlen("hcli:mem:bot:arriving:main"), "the first batch")
    stage.api.say(chat, second)
    stage.api.say(chat, third)
    wait_for(stage.queued, "the task")
    ids = [one.id for one in stage.api.messages(chat) if not one.by_bot]
    stage.confirmed(stage.api.edit(chat, ids[1], "bb"))
    stage.confirmed(stage.api.edit(chat, ids[1], "bbb"))
    task = stage.pop()
    assert task["message"] == f"{first}bbb\n{third}", "a full message was cut inside a line, another one at its end"
    stage.answer(task["task_id"], "read")
    stage.quiet()
    stage.api.edit(chat, ids[2], "cc")
    says(stage, chat, "earlier text")
    assert stage.queued() == []


def test_what_is_edited_while_its_parts_arrive_is_changed_in_its_place() -> None:
    def part(label: str, text: str, cut: int | None) -> Arriving:
        return Arriving(1, "7", 0.0, label, {"task_id": "t", "message": text}, {}, cut=cut)

    whole = part("a", "first", MESSAGE_CHARACTERS).edited("a", "1st").with_part(part("b", "second", 4_000))
    whole = whole.with_part(part("c", "third", None))
    assert whole.text == "1stsecond\nthird"
    for label, text, shown in (("b", "2", "1st2\nthird"), ("c", "3rd", "1st2\n3rd"), ("a", "one", "one2\n3rd")):
        whole = whole.edited(label, text)
        assert whole.text == shown
    marks = whole.marks
    assert [marks[label].put("x", whole.text) for label in "abc"] == ["x2\n3rd", "onex\n3rd", "one2\nx"]
    assert marks["c"].put("x", "one, and more\n3rd") is None, "another part was edited meanwhile"


def test_only_a_long_text_waits_for_more_and_a_second_at_most(stage: Stage, chat: int) -> None:
    arriving = "hcli:mem:bot:arriving:main"
    stage.confirmed(stage.api.say(chat, "a" * 3_999))
    assert (len(stage.queued()), stage.redis.exists(arriving)) == (1, 0)
    stage.api.say(chat, "b" * 3_999)
    assert [stage.pop()["message"][0] for _ in range(2)] == ["a", "b"]
    began = time.monotonic()
    stage.api.say(chat, "c" * 4_000)
    wait_for(lambda: stage.redis.hlen(arriving), "it to wait")
    came = time.monotonic()
    assert stage.pop()["message"][0] == "c"
    assert time.monotonic() - began >= 1
    assert time.monotonic() - came <= 1 + slowness()
    stage.redis.delete("hcli:mem:bot:waiting:main")


def test_a_clock_that_was_set_back_holds_up_nothing(stage: Stage, chat: int) -> None:
    """What arrives is dated in the future then, and what comes later waits behind it."""
    key, name, at = "hcli:mem:bot:arriving:main", "tg-4242-0", datetime.now(UTC).timestamp() + 3600
    task = {"task_id": name, "chat_id": chat, "message": "before"}
    record = {"chat": str(chat), "at": at}
    arriving = {"order": 0, "chat": str(chat), "at": at, "label": "x", "task": task, "record": record, "cut": 4096}
    stage.redis.hset(key, name, sign_record(SECRET, f"{key} {name}", arriving))
    stage.api.say(chat, "after")
    assert [stage.pop()["message"] for _ in range(2)] == ["before", "after"]
    stage.redis.delete("hcli:mem:bot:waiting:main")


def test_of_a_long_text_in_a_group_only_the_first_message_names_the_bot(stage: Stage, group: int) -> None:
    text = "@memory_bot " + "a" * 4084
    stage.api.say(group, "short, and not for the bot")
    stage.api.say(group, text, entities=mention(text))
    stage.api.say(group, "and somebody else", user=PERSON)
    stage.api.say(group, "the rest")
    assert stage.pop()["message"] == "a" * 4084 + "the rest"
    assert stage.queued() == []


# What is no text.


def test_what_is_no_text_is_answered_with_a_sentence(stage: Stage, chat: int) -> None:
    film = {"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1, "duration": 1}  # and no picture of it
    stage.api.say(chat, None, video=film)
    says(stage, chat, "of this kind, so I did not look")
    stage.api.say(chat, None, story={"id": 1, "chat": {"id": chat, "type": "private"}})
    stage.quiet()
    pinned = {"message_id": 1, "date": 0, "chat": {"id": chat, "type": "private"}}
    stage.confirmed(stage.api.say(chat, None, pinned_message=pinned))
    stage.quiet()
    assert len(stage.api.texts(chat)) == 2, "a notice of Telegram's own"


# Strangers, and those who mean it ill.


def test_a_stranger_is_told_once_a_day_and_leaves_no_task(stage: Stage, chat: int) -> None:
    for text in ("hello", "/start", "let me in"):
        last = stage.api.say(5, text)
    stage.confirmed(last)
    wait_until(lambda: stage.api.texts(5), lambda: "the sentence")
    stage.quiet()
    (text,) = stage.api.texts(5)
    assert "chat id 5" in text
    assert 86_000 < stage.redis.ttl("hcli:mem:bot:told:5") <= 86_400
    silent(stage, STRANGERS_GROUP, stage.api.say(STRANGERS_GROUP, "@memory_bot hi", entities=mention("@memory_bot hi")))
    assert not [key for key in stage.redis.scan_iter(match="hcli:*5*") if b"pending:5" in key or b"pending:-5" in key]


@pytest.mark.parametrize("text", ["a\x00b", "‮reversed", "\ud800 alone", "x" * 4096, "{{7*7}}", "\n\n@\n"])
def test_any_text_is_taken_as_it_is(stage: Stage, chat: int, text: str) -> None:
    person = PERSON | {"first_name": "\ud83d", "last_name": "‮\x00evil\n"}
    stage.api.say(chat, text, user=person)
    task = stage.pop()
    assert task["message"] == text.replace("\ud800", "�").strip()
    assert task["name"] == "� evil"
    stage.answer(task["task_id"], f"you said {text}")
    wait_until(lambda: "you said" in str(stage.api.texts(chat)), lambda: str(stage.api.texts(chat)))
    stage.quiet()
