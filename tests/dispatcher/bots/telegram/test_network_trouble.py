"""Telegram in trouble: floods, lost connections, conflicts, blocked and moved chats, answers that cannot be read; and too much to do."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from shared.turns.signed import keyboard, row_of
from tests.dispatcher.bots.telegram.conftest import one_bot
from tests.support.day.telegram_bot import GROUP, Stage, wait_until

stage = one_bot({"QUEUED": 5, "QUEUED_OF_CHAT": 3})


def log_of(stage: Stage) -> str:
    return "".join(path.read_text() for path in stage.world.root.glob("bot-*.log"))


@pytest.mark.parametrize(("drop", "times"), [("before", 2), ("after", 1), ("", 3)])
def test_lost_connections_and_broken_servers_are_tried_again(stage: Stage, chat: int, drop: str, times: int) -> None:
    task = stage.ask(chat, "x")
    stage.api.fail("editMessageText", 502, "Bad Gateway", chat=chat, times=times, drop=drop)
    stage.answer(task, "here")
    stage.shows(chat, "here")
    stage.quiet()
    assert len(stage.api.called("editMessageText", chat)) == times + 1


@pytest.mark.parametrize(
    "refusal", [(403, "Forbidden: bot was blocked by the user"), (400, "Bad Request: chat not found")]
)
def test_a_chat_that_is_gone_is_given_up(stage: Stage, chat: int, refusal: tuple[int, str]) -> None:
    task = stage.ask(chat, "x")
    for method in ("editMessageText", "sendMessage"):
        stage.api.fail(method, *refusal, chat=chat, times=9)
    stage.answer(task, "nobody sees it")
    stage.quiet()
    assert not stage.redis.exists(f"hcli:results:{task}", f"hcli:pending:{chat}")
    assert "a delivery was abandoned" in log_of(stage)


def test_a_group_that_became_another_chat_gets_its_answer_there(stage: Stage, chat: int) -> None:
    old, new = GROUP - 3, GROUP - 40
    task = stage.ask(old, "/memory")
    for method in ("editMessageText", "sendMessage"):
        stage.api.fail(method, 400, "Bad Request: group chat was upgraded to a supergroup chat", chat=old, times=9,
                       parameters={"migrate_to_chat_id": new})  # fmt: skip
    stage.answer(task, "moved along")
    wait_until(lambda: "moved along" in stage.api.texts(new), lambda: str(stage.api.texts(new)))
    stage.quiet()
    assert "a group has a new chat id" in log_of(stage)
    assert not stage.redis.exists(f"hcli:pending:{old}")


@pytest.mark.parametrize(("old", "new", "own"), [
    (GROUP - 4, GROUP - 5, ""), (GROUP - 6, GROUP - 41, "hcli:session:{}"), (GROUP - 7, GROUP - 42, "hcli:mem:chat:{}"),
])  # fmt: skip
def test_a_chat_that_has_its_own_memory_does_not_lose_it_to_that_of_the_group_it_was(
    stage: Stage, chat: int, old: int, new: int, own: str
) -> None:
    """The group moved unseen, the new id was listed or has been used since; now a reminder of the old one is due."""
    if own.startswith("hcli:mem"):
        stage.redis.hset(own.format(new), "timezone", "Europe/Rome")
    elif own:
        stage.redis.set(own.format(new), "conversation")
    stage.api.fail("sendMessage", 400, "Bad Request: group chat was upgraded to a supergroup chat", chat=old, times=9,
                   parameters={"migrate_to_chat_id": new})  # fmt: skip
    stage.push({"chat_id": str(old), "text": "a reminder"})
    wait_until(lambda: f"hmem forget --chat={new}" in log_of(stage), lambda: log_of(stage)[-3000:])
    stage.quiet()
    assert not stage.redis.hexists("hcli:mem:moved", str(old))
    assert not stage.api.texts(new)


def test_too_much_is_refused_and_said_once(stage: Stage, chat: int) -> None:
    stage.redis.rpush(f"hcli:pending:{chat}", *(f"left by another bot {number}" for number in range(5)))
    for number in range(3):
        stage.api.say(chat, f"m{number}")
    stage.shows(chat, "…", "…", "…")
    stage.api.say(chat, "one too many")
    wait_until(lambda: "Too many messages" in str(stage.api.texts(chat)), lambda: str(stage.api.texts(chat)))
    shown = {one.id: one.text for one in stage.api.messages(chat)}
    (refusal,) = [one for one in stage.api.messages(chat) if one.text.startswith("Too many messages")]
    assert shown[refusal.reply_to or 0] == "one too many"
    other = stage.new_chat()
    for text in ("fits", "fits too", "the queue is full"):
        stage.api.say(other, text)
    wait_until(lambda: "Too many messages" in str(stage.api.texts(other)), lambda: str(stage.api.texts(other)))
    assert [task["message"] for task in stage.queued()] == ["m0", "m1", "m2", "fits", "fits too"]
    stage.api.say(other, "/memory")
    wait_until(
        lambda: len(stage.queued()) == 6, lambda: "what is answered at once, though held questions fill the queue"
    )
    for task in stage.queued():
        stage.answer(task["task_id"], "done")
    stage.quiet()


# Answers that cannot be read.


def ok(result: Any) -> bytes:
    return json.dumps({"ok": True, "result": result}).encode()


def taken(_: Any) -> bytes:
    """Telegram did it, and says nothing more."""
    return b'{"ok": true}'


#: What comes in place of the sent message's fields; and whether its id is still there.
UNREADABLE = {
    "a date in words": (lambda sent: ok(sent | {"date": "soon"}), True),
    "bytes that are no UTF-8": (lambda sent: ok(sent | {"text": "@"}).replace(b"@", b"\xff"), True),
    "an id in words": (lambda sent: ok(sent | {"message_id": "x"}), False),
    "nothing": (taken, False),
    "the end missing": (lambda sent: ok(sent)[:30], False),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_message_that_telegram_took_is_not_sent_again(stage: Stage, chat: int, what: str) -> None:
    reply, has_id = UNREADABLE[what]
    stage.api.fail("sendMessage", 200, chat=chat, reply=reply)
    task = stage.ask(chat, "x")
    stage.answer(task, "here")
    stage.shows(chat, *(["here"] if has_id else ["…", "here"]))
    stage.quiet()
    assert len(stage.api.called("sendMessage", chat)) == (1 if has_id else 2)
    assert not [one for one in stage.api.called("editMessageText", chat) if not int(one.params["message_id"])]


def signed(stage: Stage, task: str, output: str) -> None:
    """An answer with the row of buttons that only the newest one keeps."""
    stage.result(task, output, buttons=keyboard(row_of(("Retry", f"/retry {task}"))))


def test_nothing_that_telegram_did_is_done_again(stage: Stage, chat: int) -> None:
    """Each method that has an effect, with an answer of which only `ok` can be read."""
    signed(stage, stage.ask(chat, "first"), "answer with buttons")
    stage.quiet()
    before = len(stage.api.calls)
    for method in ("editMessageText", "editMessageReplyMarkup", "answerCallbackQuery"):
        stage.api.fail(method, 200, times=99, reply=taken)
    stage.api.press(chat, "Retry")
    signed(stage, stage.pop()["task_id"], "newest")
    stage.quiet()
    stage.api.fail("sendMessage", 200, times=99, reply=taken)
    stage.answer(stage.ask(chat, "and now?"), "a " * 3000)
    stage.quiet()
    texts, calls = stage.api.texts(chat), Counter(one.method for one in stage.api.calls[before:])
    assert texts[:2] == ["answer with buttons", "newest"]
    assert sorted(text[:3] for text in texts[2:]) == ["a a", "a a", "…"]
    assert (calls["editMessageReplyMarkup"], calls["answerCallbackQuery"]) == (1, 1)


@pytest.mark.parametrize("page", [b"<html>Please sign in</html>", b'{"ok": "maybe"}', b'{"ok": false}'])
def test_what_is_no_answer_of_telegrams_is_no_delivery(stage: Stage, chat: int, page: bytes) -> None:
    """For instance the page of a proxy, with status 200: nothing was delivered, so it is sent until it is."""
    for method in ("sendMessage", "editMessageText"):
        stage.api.fail(method, 200, chat=chat, times=2, drop="before", reply=lambda _: page)
    stage.answer(stage.ask(chat, "x"), "here")
    stage.shows(chat, "here")
    stage.quiet()
    assert len(stage.api.called("sendMessage", chat)) == 3
    assert len(stage.api.called("editMessageText", chat)) == 3
