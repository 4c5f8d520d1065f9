"""`/usage`, `hmem usage` and DAILY_LIMIT, with a CLI that reports what its answers cost."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from redis import Redis

from dispatcher.features.usage import keys as usage_keys
from dispatcher.features.usage.counts import add_usage, read_usage
from dispatcher.features.usage.limits import DailyLimits
from shared.errors import SettingsError
from shared.wire import keys
from tests.support.day.forgetting_world import forget_in_redis
from tests.support.day.hcli_bot import SAY, Bot, script
from tests.support.world import World

#: Each answer costs 0.25 USD, 3 + 4 tokens, and 5 from the cache. A new session each time, as the CLI's cost is that of its session.
GROUP = "-1009"


def ask(bot: Bot, message: str, chat: str) -> str:
    bot.new(chat)
    return bot.ask(message, chat)


@pytest.fixture
def limited(light: World) -> World:
    light.environment |= {"CLAUDE_BIN": script(light, f"{SAY} fine"), "OWNERS": "7"}
    return light


def test_usage_adds_up_days_and_an_owner_sees_all_chats(limited: World, bot: Bot) -> None:
    running = limited.start_dispatcher()
    assert ask(bot, "hello", "41") == "fine"
    assert ask(bot, "and?", "41") == "fine"
    assert ask(bot, "from the group", GROUP) == "fine"
    before = datetime.now(ZoneInfo("UTC")).date() - timedelta(days=3)
    here, everywhere = usage_keys.of_day(before.isoformat(), "41")
    for key in (here, everywhere):
        used: Any = {"tasks": 2, "cost_usd": "1.5", "input_tokens": 1000, "output_tokens": "x", "cache_write": 9}
        limited.redis.hset(key, mapping=used)
    said = bot.ask("/usage", "41")
    assert "This chat:\n- today: 2 messages; 0.50 USD; tokens: 6 in, 8 out, 10 from the cache" in said
    assert "- 7 days: 4 messages; 2.00 USD; tokens: 1,015 in, 8 out" in said
    assert "All chats:\n- today: 3 messages; 0.75 USD" in said
    assert "limit of a day" not in said
    assert "- today: 2 messages;" in bot.ask("/usage", "41"), "a command is no message to Claude"
    in_group = bot.ask("/usage", GROUP)
    assert "- today: 1 message; 0.25 USD" in in_group
    assert "All chats" not in in_group
    ttl = limited.redis.ttl(usage_keys.of_day(datetime.now(ZoneInfo("UTC")).date().isoformat(), "41")[0])
    assert 31 * 86_400 < int(ttl) <= 32 * 86_400
    assert 0 < int(limited.redis.ttl(keys.stats(datetime.now(ZoneInfo("UTC")).date().isoformat()))) <= 172_800
    rows = {one["chat_id"]: one for one in json.loads(limited.command("hmem", "usage", "--json").stdout)}
    assert {chat: row["cost_usd"] for chat, row in rows.items()} == {None: 2.25, "41": 2.0, GROUP: 0.25}
    listed = limited.command("hmem", "usage", "--days", "1").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["chat", "all", "41", GROUP]
    forget_in_redis(limited.redis, "41")
    assert limited.redis.exists(here) == 0
    assert running.stop() == 0


def test_a_chat_beyond_its_limit_is_told_and_its_message_is_kept(limited: World, bot: Bot, redis: Redis) -> None:
    running = limited.start_dispatcher(DAILY_LIMIT="0.5 USD, 43 7 tokens, 44 none, all 1.5 USD")
    assert [ask(bot, "x", "42") for _ in range(2)] == ["fine", "fine"]
    late = bot.send("remember the boiler", "42")
    result = bot.receive(late)
    assert result["error"] is True
    assert "this chat has used 0.50 USD, and the limit of a day is 0.50 USD (DAILY_LIMIT)" in result["output"]
    assert bot.turn(late, "user")["content"] == "remember the boiler"
    assert redis.exists(keys.turn(late, "asst")) == 0
    assert "0.00 USD of it are left today" in bot.ask("/usage", "42")
    assert ask(bot, "x", "43") == "fine"
    assert "this chat has used 7 tokens" in ask(bot, "x", "43")
    assert [ask(bot, "x", "44") for _ in range(3)] == ["fine"] * 3, "it has no limit of its own, but all have"
    assert "all chats together have used 1.50 USD" in ask(bot, "x", "44")
    assert running.stop() == 0


@pytest.mark.parametrize("wrong", [
    "1", "1 EUR", "all none", "1 USD, 2 USD", "4 1 USD, 4 none",
])  # fmt: skip
def test_a_limit_that_cannot_be_read_is_refused(wrong: str, light: World) -> None:
    with pytest.raises(ValueError, match="limit"):
        DailyLimits.parse(wrong)
    with pytest.raises(SettingsError, match="DAILY_LIMIT"):
        light.settings(daily_limit=wrong)


def test_what_is_written_for_the_night_counts_as_the_chats(redis: Redis) -> None:
    zone = ZoneInfo("UTC")
    add_usage(redis, zone, "41", {"cost_usd": 0.25, "input_tokens": 3, "model": "haiku"})
    add_usage(redis, zone, "", {"cost_usd": 0.5})
    found = read_usage(redis, datetime.now(zone).date(), 1)
    assert (found["41"].cost_usd, found["41"].input_tokens, found["41"].messages) == (0.25, 3, 0)
    assert found[usage_keys.EVERY_CHAT].cost_usd == 0.75
