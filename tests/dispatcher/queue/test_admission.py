"""Which chats are answered, and with which tools: whatever features do, or where they are gone, it is never more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from dispatcher.queue import admission
from dispatcher.queue.chats import is_closed, tools_of
from shared.config.settings import load_settings
from shared.hooks import Hooks, hook
from shared.wire import keys

T = TypeVar("T")
SETTINGS = {
    "allowed_chats": "9912",
    "claude_allowed_tools": "Bash",
    "chat_tools": "7=WebFetch",
    "approve_tools": "Write",
}


class Broken:
    @hook
    async def admits(self) -> bool:
        raise ValueError("broken")


class Hospitable:
    @hook
    async def admits(self, chat: str) -> bool:
        return chat == "discord:7"


def run(url: str, call: Callable[[AsyncRedis], Awaitable[T]]) -> T:
    async def called() -> T:
        async with AsyncRedis.from_url(url) as client:
            return await call(client)

    return asyncio.run(called())


def has(url: str, chat: str) -> bool:
    return run(url, lambda client: admission.is_answered(chat, frozenset({"9912"}), client, ""))


def test_a_stranger_is_let_in_by_a_feature_alone_and_by_none_that_raises(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for plugins, answered in (([], ["9912"]), ([("a", Hospitable())], ["9912", "discord:7"])):
        monkeypatch.setattr(admission, "features", lambda plugins=plugins: Hooks(plugins))
        assert [chat for chat in ("9912", "discord:7", "8") if has(redis_url, chat)] == answered
    monkeypatch.setattr(admission, "features", lambda: Hooks([("a", Hospitable()), ("b", Broken())]))
    assert has(redis_url, "9912")
    with pytest.raises(ValueError, match="broken"):
        has(redis_url, "discord:7")


def test_a_limited_chat_and_one_of_which_nothing_is_known_have_their_own_tools_alone(
    redis: Redis, redis_url: str
) -> None:
    def tools(chat: str) -> tuple[str, tuple[str, ...]]:
        found = run(redis_url, lambda client: tools_of(load_settings(**SETTINGS), client, chat))
        return found.allowed, found.asked

    assert tools("8") == ("Bash", ("Write",))
    for value in ("limited", "closed", "whatever"):
        redis.hset(keys.chat_settings("7"), "access", value)
        redis.hset(keys.chat_settings("9912"), "access", value)
        assert (tools("7"), tools("9912")) == (("WebFetch", ()), ("Bash", ("Write",)))
        assert is_closed(redis, "7") == (value == "closed")
    redis.set(keys.chat_settings("8"), "of another type")
    assert tools("8") == ("", ())
