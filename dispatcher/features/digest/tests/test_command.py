"""`/digest`: switched on and off by a chat, in a group by an owner alone."""

from __future__ import annotations

from datetime import UTC, date, datetime

from tests.support.day.hcli_bot import Bot
from tests.support.world import World

CHAT, GROUP = "9912", "-1009"


def test_a_chat_switches_its_digest_on_and_off(light: World, bot: Bot) -> None:
    running = light.start_dispatcher(OWNERS="31")
    for message, answer in (
        ("/digest", "The digest is off. With /digest on I send each morning at 08:00 (UTC)"),
        ("/digest on", "The digest is on: each morning at 08:00 (UTC)"),
        ("/digest maybe", "Write /digest on or /digest off"),
    ):
        assert answer in bot.ask(message, CHAT)
    raw = light.redis.hget("hcli:mem:digests", CHAT)
    assert isinstance(raw, bytes)
    assert date.fromisoformat(raw.decode()) <= datetime.now(UTC).date(), "the next one is the first"
    light.redis.hset("hcli:mem:digests", CHAT, "2026-11-20")
    bot.ask("/digest ON", CHAT)
    assert light.redis.hget("hcli:mem:digests", CHAT) == b"2026-11-20", "it was on"
    assert "In a group only an owner may switch the digest on or off." in bot.ask("/digest on", GROUP)
    assert "The digest is off" in bot.ask("/digest", GROUP)
    assert bot.ask("/digest off", CHAT).startswith("The digest is off.")
    assert not light.redis.exists("hcli:mem:digests")
    assert running.stop() == 0
