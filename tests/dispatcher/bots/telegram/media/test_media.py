"""What the bot makes of pictures, voice messages and albums: fetched, stored by hash, one task each, in the order of the chat."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from shared.wire import keys
from tests.dispatcher.bots.telegram.conftest import done, one_bot
from tests.servers.telegram_messages import mention
from tests.support.day.telegram_bot import GROUP, Stage, wait_until
from tests.support.machine import wait_for

JPEG = b"\xff\xd8\xff\xe0 a picture" + bytes(range(256)) * 50
OGG = b"OggS a voice" + bytes(range(256)) * 30


stage = one_bot(MEDIA_BYTES="100000")


@pytest.fixture
def chat(stage: Stage) -> Iterator[int]:
    chat = stage.new_chat()
    yield chat
    stage.redis.delete("hcli:tasks", "hcli:mem:bot:waiting:main")
    assert stage.redis.hlen(keys.bot_arriving("main")) == 0


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def kept(stage: Stage, entry: dict[str, Any]) -> bytes | None:
    content = stage.redis.get(keys.media(entry["sha256"]))
    assert content is None or isinstance(content, bytes)
    return content


def test_the_largest_size_of_a_picture_is_fetched(stage: Stage, chat: int) -> None:
    stage.api.say(chat, None, caption="what is this?", **stage.api.files.photo(JPEG))
    task = done(stage)
    (entry,) = task["media"]
    assert task["message"] == "what is this?"
    assert "no_text" not in task
    assert entry == {"kind": "photo", "sha256": digest(JPEG), "size": len(JPEG), "mime": "image/jpeg"}
    assert kept(stage, entry) == JPEG


def test_an_album_is_one_task_with_its_caption(stage: Stage, chat: int) -> None:
    pictures = [JPEG + bytes([number]) for number in range(3)]
    files = [stage.api.files.photo(one) | {"media_group_id": "a"} for one in pictures]
    files[1]["caption"] = "our holiday"
    stage.api.album(chat, files)
    task = done(stage)
    assert task["message"] == "our holiday"
    assert [one["sha256"] for one in task["media"]] == [digest(one) for one in pictures]
    assert stage.queued() == []


def test_an_album_in_a_group_belongs_together(stage: Stage, chat: int) -> None:
    pictures = [JPEG + bytes([number, 1]) for number in range(2)]
    files = [stage.api.files.photo(one) | {"media_group_id": "g"} for one in pictures]
    files[0] |= {"caption": "@memory_bot look", "caption_entities": mention("@memory_bot look")}
    stage.api.album(GROUP, files)
    task = done(stage)
    assert task["message"] == "look"
    assert len(task["media"]) == 2


def test_what_comes_behind_a_picture_waits_for_it(stage: Stage, chat: int) -> None:
    slow = stage.api.files.photo(JPEG + b"slow")
    stage.api.files.status[slow["photo"][1]["file_id"]] = [502, 502]
    stage.api.say(chat, None, **slow)
    stage.api.say(chat, "and now?")
    stage.api.say(chat + 0, "and then?")
    assert [stage.pop()["message"] for _ in range(3)] == ["(picture)", "and now?", "and then?"]


@pytest.mark.parametrize("said", [None, 10, -1])
def test_a_file_that_is_too_large_is_refused_whatever_is_said_of_its_size(stage: Stage, chat: int, said: int) -> None:
    large = b"\xff\xd8\xff" + bytes(100_001)
    stage.api.say(chat, None, **stage.api.files.photo(large, size=said))
    wait_until(lambda: stage.api.texts(chat) != [], lambda: "a sentence")
    assert "too large for me: I read files of up to 0.1 MB" in stage.api.texts(chat)[-1]
    assert stage.queued() == []


def test_a_file_that_telegram_has_lost_is_told(stage: Stage, chat: int) -> None:
    fields = stage.api.files.voice(OGG)
    stage.api.files.forget(fields["voice"]["file_id"])
    stage.api.say(chat, None, **fields)
    wait_until(lambda: stage.api.texts(chat) != [], lambda: "a sentence")
    assert "does not have this file any more" in stage.api.texts(chat)[-1]


def test_a_caption_is_edited_while_its_task_waits(stage: Stage, chat: int) -> None:
    fields = stage.api.files.photo(JPEG)
    update = stage.api.say(chat, None, **fields)
    wait_for(stage.queued, "the task")
    stage.placeholder_of(f"tg-4242-{update}")
    stage.api.edit(chat, stage.api.newest(chat), None, caption="a boat", **fields)
    wait_until(lambda: [one["message"] for one in stage.queued()] == ["a boat"], lambda: str(stage.queued()))
    assert "no_text" not in done(stage)


def test_a_download_that_breaks_off_is_repeated(stage: Stage, chat: int) -> None:
    fields = stage.api.files.photo(JPEG + b"broken")
    stage.api.files.broken[fields["photo"][1]["file_id"]] = 2
    stage.api.say(chat, None, **fields)
    entry = done(stage)["media"][0]
    assert kept(stage, entry) == JPEG + b"broken"
