"""A message of the outbox with the picture of the nights: by multipart over a real socket, and as a text wherever the picture cannot be sent."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.servers.telegram_messages import PICTURE
from tests.support.day.telegram_bot import Stage, staged, wait_until
from tests.support.machine import wait_for


@pytest.fixture(scope="module")
def stage(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(redis_url, tmp_path_factory.mktemp("pictures")) as made:
        made.bot()
        yield made


@pytest.fixture
def chat(stage: Stage) -> int:
    stage.redis.set("hcli:mem:night:picture", PICTURE)
    return stage.new_chat()


def send(stage: Stage, chat: int, text: str, photo: object = "night") -> None:
    message = {"id": "report-1", "chat_id": str(chat), "text": text, "created_at": 1.0, "photo": photo}
    stage.redis.rpush("hcli:mem:outbox", json.dumps(message))
    wait_for(lambda: not stage.redis.exists("hcli:mem:outbox"), "the outbox to be taken")
    stage.quiet()


def test_a_short_text_is_the_caption(stage: Stage, chat: int) -> None:
    send(stage, chat, "Good morning.\nNight: run 42")
    (shown,) = stage.api.messages(chat)
    assert (shown.text, shown.photo) == ("Good morning.\nNight: run 42", PICTURE)


def test_a_long_text_goes_on_behind_the_picture(stage: Stage, chat: int) -> None:
    lines = [f"line {number} 🦊" for number in range(120)]
    send(stage, chat, "\n".join(lines))
    first, second = stage.api.messages(chat)
    assert (first.photo, second.photo, second.reply_to) == (PICTURE, None, first.id)
    assert f"{first.text}\n{second.text}".splitlines() == lines


@pytest.mark.parametrize("picture", [None, b"", b"x" * 10_000_001])
def test_without_a_picture_that_telegram_takes_it_is_one_text(stage: Stage, chat: int, picture: bytes | None) -> None:
    stage.redis.delete("hcli:mem:night:picture")
    if picture:
        stage.redis.set("hcli:mem:night:picture", picture)
    text = "word " * 400
    send(stage, chat, text)
    assert stage.api.texts(chat) == [text]
    assert not stage.api.called("sendPhoto", chat)


def test_a_picture_that_telegram_refuses_leaves_the_text(stage: Stage, chat: int) -> None:
    stage.redis.set("hcli:mem:night:picture", b"no PNG at all")
    send(stage, chat, "Good morning.")
    (shown,) = stage.api.messages(chat)
    assert (shown.text, shown.photo) == ("Good morning.", None)
    assert [one.status for one in stage.api.called("sendPhoto", chat)] == [400]


@pytest.mark.parametrize("photo", ["hcli:mem:tasks", 5, None, ["night"]])
def test_no_other_key_can_be_sent_as_a_picture(stage: Stage, chat: int, photo: object) -> None:
    send(stage, chat, "Good morning.", photo)
    assert (stage.api.texts(chat), stage.api.called("sendPhoto", chat)) == (["Good morning."], [])


def test_an_outage_of_telegram_is_waited_for_and_the_picture_is_sent_once(stage: Stage, chat: int) -> None:
    stage.api.flood("sendPhoto", 1, chat=chat)
    stage.api.fail("sendPhoto", 502, "Bad Gateway", chat=chat)
    send(stage, chat, "Good morning.")
    assert [one.photo for one in stage.api.messages(chat)] == [PICTURE]


def test_a_picture_that_goes_meanwhile_leaves_its_caption(stage: Stage, chat: int) -> None:
    stage.api.flood("sendPhoto", 2, chat=chat)
    message = {"id": "report-1", "chat_id": str(chat), "text": "Good morning.", "photo": "night"}
    stage.redis.rpush("hcli:mem:outbox", json.dumps(message))
    wait_until(lambda: stage.api.called("sendPhoto", chat), lambda: "the first try")
    stage.redis.hset(
        "hcli:mem:bot:waiting", "x", json.dumps({"chat": str(chat + 1), "at": 1.0, "text": "other", "picture": True})
    )
    stage.redis.delete("hcli:mem:night:picture")
    stage.quiet()
    assert [one.photo for one in stage.api.messages(chat)] == [PICTURE], "what was read is sent"
    assert [(one.text, one.photo) for one in stage.api.messages(chat + 1)] == [("other", None)]
