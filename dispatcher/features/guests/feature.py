"""Chats that owners allow from a chat: invitations, guests, and groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

    from dispatcher.bots.telegram.core import BotCore
    from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader
    from dispatcher.chat_data.forget.request import Scope
    from dispatcher.health.findings import Check


@hook
def checks() -> Sequence[Check]:
    from dispatcher.features.guests.records import check_guests
    from dispatcher.health.findings import Check

    return [Check("guests", check_guests, needs=("redis",))]


@hook
def redis_entries(scope: Scope, reader: RedisReader) -> Iterable[RedisEntry]:
    from dispatcher.features.guests.records import invitations_of

    return invitations_of(scope.whole_chat, reader) if scope.whole_chat else ()


@hook
async def admits(chat: str, redis: AsyncRedis, secret: str) -> bool:
    from dispatcher.features.guests.records import is_guest

    return await is_guest(chat, redis, secret)


@hook
def admitted_chats(redis: Redis, secret: str) -> Collection[str]:
    from dispatcher.features.guests.records import guest_chats

    return guest_chats(redis, secret)


@hook
def telegram_bot(core: BotCore) -> object:
    from dispatcher.features.guests.commands import GuestCommands

    return GuestCommands(core)
