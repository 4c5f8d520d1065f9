"""Telegram in trouble: floods, lost connections, conflicts, blocked and moved chats; and too much to do."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.day.telegram_bot import GROUP, Stage, staged, wait_until
from tests.support.machine import wait_for


@pytest.fixture(scope="module")
def stage(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One bot for the tests that need no other."""
    with staged(redis_url, tmp_path_factory.mktemp("trouble")) as made:
        made.bot(CHAT_QUEUE_LIMIT="3", QUEUE_LIMIT="5")
        yield made


@pytest.fixture
def chat(stage: Stage) -> int:
    stage.api.heal()
    stage.redis.delete("hcli:tasks")
    return stage.new_chat()


def log_of(stage: Stage) -> str:
    return "".join(path.read_text() for path in stage.world.root.glob("bot-*.log"))


@pytest.mark.slow
def test_a_chat_that_is_to_wait_holds_up_no_other(stage: Stage, chat: int) -> None:
    other = stage.new_chat()
    slow, quick = stage.ask(chat, "x"), stage.ask(other, "y")
    stage.api.flood("editMessageText", 3, chat=chat)
    began = time.monotonic()
    stage.answer(slow, "slow")
    wait_for(lambda: stage.api.called("editMessageText", chat), "the first try")
    stage.answer(quick, "quick")
    stage.shows(other, "quick")
    stage.shows(chat, "slow")
    first, second = stage.api.called("editMessageText", chat)
    assert (first.status, second.status) == (429, 200)
    assert second.at - first.at >= 3
    assert time.monotonic() - began >= 3
    stage.quiet()


@pytest.mark.parametrize(("drop", "times"), [("before", 2), ("after", 1), ("", 3)])
def test_lost_connections_and_broken_servers_are_tried_again(stage: Stage, chat: int, drop: str, times: int) -> None:
    task = stage.ask(chat, "x")
    stage.api.fail("editMessageText", 502, "Bad Gateway", chat=chat, times=times, drop=drop)
    stage.answer(task, "here")
    stage.shows(chat, "here")
    stage.quiet()
    assert len(stage.api.called("editMessageText", chat)) == times + 1


@pytest.mark.slow
def test_a_conflict_is_named_and_polling_goes_on(stage: Stage, chat: int) -> None:
    stage.api.fail("getUpdates", 409, "Conflict: terminated by other getUpdates request")
    stage.confirmed(stage.api.say(chat, "wakes the poll that waits"))
    wait_for(lambda: "another process polls with this token" in log_of(stage), "the sentence")
    stage.answer(stage.pop()["task_id"], "still here")
    stage.shows(chat, "still here")
    stage.answer(stage.ask(chat, "and now?"), "again")
    stage.shows(chat, "still here", "again")
    stage.quiet()


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
    old, new = GROUP - 3, GROUP - 4
    task = stage.ask(old, "/memory")
    for method in ("editMessageText", "sendMessage"):
        stage.api.fail(method, 400, "Bad Request: group chat was upgraded to a supergroup chat", chat=old, times=9,
                       parameters={"migrate_to_chat_id": new})  # fmt: skip
    stage.answer(task, "moved along")
    stage.shows(new, "moved along")
    stage.quiet()
    assert "add it to ALLOWED_CHATS" in log_of(stage)
    assert not stage.redis.exists(f"hcli:pending:{old}")


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
    for task in stage.queued():
        stage.answer(task["task_id"], "done")
    stage.quiet()
