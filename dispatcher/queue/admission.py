"""Which chats our bot answers: the ones in ALLOWED_CHATS, and any that features let in."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from shared.hooks import features, specification

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

    from shared.config.settings import Settings


@specification(fails="closed")
async def admits(chat: str, redis: AsyncRedis, secret: str) -> bool | None:
    """Whether a chat that ALLOWED_CHATS does not list is answered all the same; `secret` has signed what says so (shared/turns/signed.py).
    RedisError while Redis does not answer: it is asked again."""


@specification(fails="closed")
def admitted_chats(redis: Redis, secret: str) -> Collection[str] | None:
    """All of these chats, for `hmem doctor` and `hmem status`."""


async def is_answered(chat: str, listed: frozenset[str], redis: AsyncRedis, secret: str, also: str = "") -> bool:
    """Whether a chat is listed, under this id or `also`, or let in. RedisError while Redis does not answer."""
    found = not listed.isdisjoint((chat, also))
    return found or any(await features().ask_async(admits, chat=chat, redis=redis, secret=secret))


def chats_let_in(redis: Redis, settings: Settings) -> set[str]:
    """Those that are answered beside the ones of ALLOWED_CHATS."""
    from shared.turns.signed import secret_in  # pydantic, late: `hmem --help` asks features, too

    return {chat for found in features().ask(admitted_chats, redis=redis, secret=secret_in(settings)) for chat in found}
