"""What the bot hands on of replies, forwards, captions and albums, in tasks; by the real bot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dispatcher.bots.telegram.conftest import done
from tests.servers.telegram_api import BOT
from tests.servers.telegram_messages import forwarded_from, mention
from tests.support.day.telegram_bot import Stage, staged

BOB = {"id": 9, "is_bot": False, "first_name": "Bob"}
#: The loopback server has this file.
PHOTO = [{"file_id": "file-0.jpg", "file_unique_id": "u", "width": 1, "height": 1}]
BILL = {"file_id": "file-1.pdf", "file_unique_id": "u", "file_name": "bill.pdf"}


@pytest.fixture(scope="module")
def stage(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(redis_url, tmp_path_factory.mktemp("origins")) as made:
        made.api.files.add(b"\xff\xd8\xff picture", "jpg")
        made.api.files.add(b"%PDF-1.4", "pdf")
        made.bot(OWNERS="7")
        yield made


def taken(stage: Stage) -> dict[str, Any]:
    """The next task, answered; of its fields those that say where its words come from, and the words."""
    task = done(stage)
    return {name: task[name] for name in ("message", "quote", "forward", "attachment") if name in task}


def nothing(stage: Stage, update: int) -> None:
    stage.confirmed(update)
    stage.quiet()
    assert stage.queued() == []


# Replies.


def test_a_reply_carries_what_it_replies_to(stage: Stage, group: int) -> None:
    api = stage.api
    stage.confirmed(api.say(group, "The train leaves at 7:40", BOB))
    text = "@memory_bot remember this"
    api.reply(group, api.newest(group), text, entities=mention(text), part="7:40")
    assert taken(stage) == {
        "message": "remember this", "quote": {"text": "7:40", "from": "Bob", "user_id": "9", "part": True},
    }  # fmt: skip
    own = [one.id for one in api.messages(group) if one.by_bot][-1]
    api.reply(group, own, "and this?")
    quote = {"text": "yes", "from": "Memory", "user_id": str(BOT["id"]), "by_bot": True}
    assert taken(stage) == {"message": "and this?", "quote": quote}


def test_what_a_reply_may_point_to(stage: Stage, chat: int) -> None:
    api = stage.api
    stage.confirmed(api.say(chat, None, BOB, photo=PHOTO, caption="the platform", media_group_id="a1"))
    taken(stage)
    api.reply(chat, api.newest(chat), "which one?")
    assert taken(stage)["quote"] == {"text": "the platform", "from": "Bob", "user_id": "9", "attachment": "photo"}
    api.say(chat, None, BOB, sticker={"file_id": "f", "file_unique_id": "u", "type": "regular", "width": 1, "height": 1,
                                      "is_animated": False, "is_video": False})  # fmt: skip
    stage.quiet()
    api.reply(chat, api.newest(chat), "what is that?")
    assert taken(stage)["quote"] == {"from": "Bob", "user_id": "9", "attachment": "sticker"}
    api.say(chat, "I am vegetarian", BOB, forward_origin=forwarded_from("Dora"))
    taken(stage)
    api.reply(chat, api.newest(chat), "is she?")
    assert taken(stage)["quote"] == {"text": "I am vegetarian", "from": "Bob", "user_id": "9", "forwarded_from": "Dora"}
    external = {"origin": forwarded_from({"id": -1009, "type": "channel", "title": "News"}), "photo": PHOTO}
    api.say(chat, "is it true?", external_reply=external, quote={"text": "It rains", "position": 0})
    quote = {"text": "It rains", "from": "News", "user_id": "-1009", "part": True, "attachment": "photo"}
    assert taken(stage)["quote"] == quote


# Forwards.


@pytest.mark.parametrize(("source", "told"), [
    ("Dora\u202e", {"from": "Dora", "kind": "hidden_user"}),
    (BOB, {"from": "Bob", "kind": "user", "user_id": "9"}),
    (BOT, {"from": "Memory", "kind": "user", "user_id": str(BOT["id"]), "by_bot": True}),
    ({"id": -1009, "type": "channel", "title": "News"}, {"from": "News", "kind": "channel", "user_id": "-1009"}),
    ({"id": -1008, "type": "supergroup", "title": "Club"}, {"from": "Club", "kind": "chat", "user_id": "-1008"}),
])  # fmt: skip
def test_a_forward_names_its_source(stage: Stage, chat: int, source: Any, told: dict[str, Any]) -> None:
    stage.api.say(chat, "@memory_bot I am vegetarian", forward_origin=forwarded_from(source, 1_790_000_000))
    assert taken(stage) == {"message": "@memory_bot I am vegetarian", "forward": told | {"date": 1_790_000_000.0}}


def test_a_command_that_is_forwarded_is_only_text(stage: Stage, chat: int, group: int) -> None:
    stage.redis.set(f"hcli:session:{chat}", "x")
    stage.api.say(chat, "/new", forward_origin=forwarded_from("Dora"))
    assert taken(stage)["message"] == "/new"
    assert stage.redis.exists(f"hcli:session:{chat}")
    nothing(stage, stage.api.say(group, "/new@memory_bot", forward_origin=forwarded_from("Dora")))
    nothing(stage, stage.api.say(group, "I am vegetarian", forward_origin=forwarded_from("Dora")))


# Captions and albums.


def test_a_caption_is_the_message(stage: Stage, chat: int, group: int) -> None:
    stage.api.say(chat, None, document=BILL, caption="what is it worth?")
    assert taken(stage) == {"message": "what is it worth?", "attachment": {"kind": "document", "name": "bill.pdf"}}
    text = "@memory_bot which platform?"
    stage.api.say(group, None, photo=PHOTO, caption=text, caption_entities=mention(text))
    assert taken(stage) == {"message": "which platform?", "attachment": {"kind": "photo"}}
    nothing(stage, stage.api.say(group, None, photo=PHOTO, caption="not for the bot"))
    stage.api.say(group, None, photo=PHOTO, caption="@memory_bot", caption_entities=mention("@memory_bot"))
    assert taken(stage) == {"message": "(picture)", "attachment": {"kind": "photo"}}
    bill = "@memory_bot"
    stage.api.say(group, None, document=BILL, caption=bill, caption_entities=mention(bill))
    assert taken(stage) == {"message": "(file)", "attachment": {"kind": "document", "name": "bill.pdf"}}
