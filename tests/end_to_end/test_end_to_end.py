"""Thirty messages in three chats, one a group: Telegram (loopback) ↔ bot ↔ Redis ↔ dispatcher ↔ the real Claude CLI ↔ the Messages API (loopback)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.messages_api import MessagesApi
from tests.servers.telegram_api import TelegramApi
from tests.servers.telegram_messages import mention
from tests.support.day.telegram_bot import Bot, wait_until
from tests.support.machine import wait_for
from tests.support.world import World, real_claude

#: Two people and a group.
CHATS = (501, 502, -100503)
MESSAGES = 10
SECRETS = {501: "4711-heron", 502: "0815-stork", -100503: "1234-crane"}


def last_text(request: dict[str, Any]) -> str:
    """What the person said last, as it reached the model."""
    content = next(one["content"] for one in reversed(request["messages"]) if one["role"] == "user")
    text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    return text.replace("\u2060", "")


def reply(request: dict[str, Any]) -> str:
    found = re.search(r"(\d+) of (-?\d+)", last_text(request))
    return f"**Noted**: {found[0]}" if found else "All right."


def message(chat: int, number: int) -> str:
    if number == 0:
        return f"The code of my locker is {SECRETS[chat]}. This is 0 of {chat}"
    if number == MESSAGES - 1:
        return f"What is the code of my locker? This is {number} of {chat}"
    return f"This is {number} of {chat}"


@pytest.fixture
def messages_api() -> Iterator[MessagesApi]:
    with MessagesApi(reply) as server:
        yield server


@pytest.fixture
def telegram() -> Iterator[TelegramApi]:
    with TelegramApi() as server:
        yield server


def say(telegram: TelegramApi, chat: int, number: int) -> None:
    if chat > 0:
        telegram.say(chat, message(chat, number))
    else:
        called = f"@memory_bot {message(chat, number)}"
        telegram.say(chat, called, entities=mention(called))


def answered(telegram: TelegramApi, chat: int) -> list[str]:
    """The numbers in the bot's answers, in the order of the chat."""
    texts = [one.text for one in telegram.messages(chat) if one.by_bot]
    return [found[1] for text in texts if (found := re.fullmatch(r"Noted: (\d+) of -?\d+", text))]


@pytest.mark.slow
def test_thirty_messages_in_three_chats(light: World, messages_api: MessagesApi, telegram: TelegramApi) -> None:
    light.environment |= real_claude(messages_api.url)
    light.start_dispatcher()
    bot = Bot(light, telegram, ALLOWED_CHATS=",".join(map(str, CHATS)), OWNERS="7")
    try:
        for method in ("sendMessage", "editMessageText"):
            telegram.flood(method, 1, times=2)
        for number in range(MESSAGES - 1):
            for chat in CHATS:
                say(telegram, chat, number)
        numbers = [str(number) for number in range(MESSAGES - 1)]
        wait_until(
            lambda: all(answered(telegram, chat) == numbers for chat in CHATS),
            lambda: f"27 answers in order: {[telegram.texts(chat) for chat in CHATS]}",
            seconds=60,
        )

        assert light.night()[-1]["published"]
        for chat in CHATS:
            telegram.say(chat, "/new@memory_bot" if chat < 0 else "/new")
        wait_for(lambda: not light.redis.keys("hcli:session:*"), "three new conversations")
        for chat in CHATS:
            say(telegram, chat, MESSAGES - 1)
        wait_for(lambda: all(len(answered(telegram, chat)) == MESSAGES for chat in CHATS), "the last answers")
    finally:
        bot.stop()

    assert any(call.status == 429 for call in telegram.calls), "flood limits were met"
    for chat in CHATS:
        shown = [one for one in telegram.messages(chat) if one.by_bot and one.text.startswith("Noted")]
        assert len(shown) == MESSAGES, "each answer once"
        assert shown[0].entities[0]["type"] == "bold"
    requests = [request for request in messages_api.requests if re.search(r"of -?\d+$", last_text(request))]
    assert len(requests) == MESSAGES * len(CHATS)
    for request in requests:
        chat = int(re.findall(r"of (-?\d+)$", last_text(request))[-1])
        whole = json.dumps(request)
        assert not [other for other in CHATS if other != chat and SECRETS[other] in whole], "another chat's words"
        if f"{MESSAGES - 1} of " in last_text(request):
            assert SECRETS[chat] in json.dumps(request["system"]), "the night's memory"
            assert "assistant" not in {one["role"] for one in request["messages"]}, "a new conversation"
