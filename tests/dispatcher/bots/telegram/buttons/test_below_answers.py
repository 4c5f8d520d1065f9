"""The row below an answer, `Stop` below a placeholder, and the choices of /model and /digest."""

from __future__ import annotations

import json
from typing import Any

from shared.turns.records import dumps, loads_object
from tests.dispatcher.bots.telegram.conftest import one_talk
from tests.servers.telegram_messages import mention
from tests.support.day.telegram_bot import (
    GROUP,
    Stage,
    keys_of,
    labels,
    last,
    person,
    press,
    requests,
    say,
    sees,
    toasts,
    wait_until,
)

ADA = {"id": 7, "is_bot": False, "first_name": "Ada"}


stage = one_talk(OWNERS="7")


def test_only_the_newest_answer_has_its_row(stage: Stage, chat: int) -> None:
    first = say(stage, chat, "good morning", "All right.")
    assert labels(first) == ["Why?", "Retry"]
    second = say(stage, chat, "and now?", "All right.")
    assert labels(second) == ["Why?", "Retry"]
    assert [labels(one) for one in stage.api.messages(chat) if one.by_bot] == [[], ["Why?", "Retry"]]
    listed = say(stage, chat, "/memory", "Facts:")
    assert labels(listed) == []
    assert labels(second), "the answer of a command leaves the row"


def test_why_is_told_of_exactly_this_answer_in_a_message_of_its_own(stage: Stage, chat: int) -> None:
    answer = say(stage, chat, "what is new?", "All right.")
    told = press(stage, chat, "Why?", "I was given this from memory")
    assert told.id != answer.id
    assert told.reply_to == answer.id
    assert labels(answer) == ["Why?", "Retry"]
    assert "given this from memory" in say(stage, chat, "/why", "given this").text
    assert "nothing to explain" in say(stage, chat, "/why tg-1-1", "nothing").text
    assert "button" in say(stage, chat, "/why is the sky blue?", "/why shows").text


def test_retry_asks_the_same_message_again_and_says_so(stage: Stage, chat: int) -> None:
    (stage.world.root / "answers.json").write_text('{"a riddle please": "What has keys?"}')
    first = say(stage, chat, "a riddle please", "What has keys?")
    (stage.world.root / "answers.json").write_text('{"a riddle please": "What has a neck?"}')
    second = press(stage, chat, "Retry", "What has a neck?")
    assert second.id != first.id
    assert (labels(first), labels(second)) == ([], ["Why?", "Retry"])
    asked = requests(stage)[-1]
    assert asked["message"].endswith("a riddle please")
    assert "This message is asked again" in asked["message"]
    assert "This message is asked again" not in requests(stage)[-2]["message"]
    keys = keys_of(stage.redis, "hcli:memory:*:user")
    raws: Any = stage.redis.mget(keys)
    turns = [loads_object(raw) for raw in raws]
    here = sorted((one for one in turns if one["chat_id"] == str(chat)), key=lambda one: "retries" in one)
    assert [one["content"] for one in here] == ["a riddle please"] * 2
    assert here[1]["retries"] == here[0]["task_id"]
    say(stage, chat, "/retry", "What has a neck?")
    assert "This message is asked again" in requests(stage)[-1]["message"]


def test_what_cannot_be_asked_again(stage: Stage, chat: int) -> None:
    assert "no message of yours" in say(stage, chat, "/retry", "no message").text
    say(stage, chat, "hello", "All right.")
    other = stage.new_chat()
    task = last(stage, chat).buttons[0][1]["callback_data"].rpartition(" ")[2]
    assert "no message of yours" in say(stage, other, f"/retry {task}", "no message").text, "of another chat"
    assert "/retry makes me" in say(stage, chat, "/retry that please", "/retry makes me").text


def test_in_a_group_an_answer_has_no_row_and_others_cannot_have_it_asked_again(stage: Stage) -> None:
    hello = "@memory_bot hello"
    assert labels(say(stage, GROUP, hello, "All right.", user=ADA, entities=mention(hello))) == []
    say(stage, GROUP, "/retry", "no message of yours", user={"id": 8, "is_bot": False, "first_name": "Bea"})
    say(stage, GROUP, "/retry", "All right.", user=ADA)


def test_stop_ends_this_answer_and_no_other(stage: Stage, chat: int) -> None:
    hold = stage.world.root / "hold"
    hold.touch()
    try:
        stage.api.say(chat, "think long", person(chat))
        wait_until(lambda: stage.api.texts(chat) == ["…"], lambda: "the placeholder")
        stage.placeholder_of(sorted(stage.redis.hkeys("hcli:mem:bot:waiting:main"))[0].decode())  # type: ignore[union-attr]
        assert labels(last(stage, chat)) == ["Stop"]
        stage.api.say(chat, "and this after it", person(chat))
        wait_until(lambda: len(stage.queued()) == 1, lambda: "the second message")
        wait_until(lambda: len(stage.api.texts(chat)) == 2, lambda: "its placeholder")
        first = stage.api.messages(chat)[1]
        stage.api.press(chat, "Stop", person(chat), data=first.buttons[0][0]["callback_data"])
        wait_until(lambda: stage.api.texts(chat)[0] == "Cancelled.", lambda: str(stage.api.texts(chat)))
        assert "I will stop as soon as I can." in toasts(stage)
        stage.api.press(chat, "Stop", person(chat))  # whichever waits
    finally:
        hold.unlink()
    wait_until(lambda: "…" not in stage.api.texts(chat), lambda: str(stage.api.texts(chat)))
    stage.quiet()
    assert "answered already" in say(stage, chat, "/stop tg-4242-1", "answered already").text


def test_what_is_edited_after_its_answer_is_remembered_as_corrected(stage: Stage, chat: int) -> None:
    say(stage, chat, "the boiler shows F28", "All right.")
    asked, before = stage.api.newest(chat), len(requests(stage))
    stage.confirmed(
        stage.api.edit(chat, asked, "the boiler shows F28", person(chat))
    )  # nothing changed: a preview was added
    stage.api.edit(chat, asked, "the boiler shows F29", person(chat))
    told = sees(stage, chat, "I remember the new text")
    assert (told.reply_to, len(requests(stage))) == (asked, before), "Claude is not asked again"
    turns = [loads_object(stage.redis.get(key) or b"") for key in keys_of(stage.redis, "hcli:memory:*:user")]  # type: ignore[arg-type]
    (turn,) = [one for one in turns if one["chat_id"] == str(chat)]
    assert (turn["content"], turn["corrected"]) == ("the boiler shows F29", True)
    press(stage, chat, "Retry", "All right.")
    assert requests(stage)[-1]["message"].endswith("the boiler shows F29")
    same = {
        "task_id": "tg-4242-999",
        "chat_id": chat,
        "user_id": chat,
        "message": "the boiler shows F29",
        "corrects": turn["task_id"],
    }
    stage.redis.rpush("hcli:tasks", dumps(same | {"edited": True}))
    wait_until(
        lambda: stage.redis.exists("hcli:results:tg-4242-999"),
        lambda: "the answer to an edit that changes nothing any more",
    )
    assert not json.loads(stage.redis.get("hcli:results:tg-4242-999") or b"").get("buttons"), (
        "it was answered with that"
    )
    stage.api.edit(chat, asked, "/memory", person(chat))
    sees(stage, chat, "Please send the new text as a message")
