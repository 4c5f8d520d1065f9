"""What the answers of a day took, from the figures that the Claude CLI reports: of one chat, and of all chats together.

The counters are those of finish.lua. A day begins at midnight in CHAT_TIMEZONE; the counters of 32 days are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from typing import Any, Self, cast
from zoneinfo import ZoneInfo

import redis
from redis.asyncio import Redis

from dispatcher.features.usage import keys
from dispatcher.features.usage.limits import Limit
from shared.errors import RedisUnavailable
from shared.wire.values import amount_of, shown


@dataclass(frozen=True)
class UsageCounts:
    """Counters of one day or several. `input_tokens` were in no cache; `cost_usd` is the CLI's own calculation, by list prices."""

    tasks: float = 0
    commands: float = 0
    errors: float = 0
    input_tokens: float = 0
    output_tokens: float = 0
    cache_read: float = 0
    cache_write: float = 0
    cost_usd: float = 0

    @classmethod
    def parse(cls, counters: dict[bytes, bytes]) -> Self:
        """A value that is not a number counts as 0."""
        return cls(**{one.name: amount_of(counters.get(one.name.encode())) for one in fields(cls)})

    @property
    def messages(self) -> float:
        """Tasks that were for Claude."""
        return max(0.0, self.tasks - self.commands)

    @property
    def tokens(self) -> float:
        """Those that a limit counts: without what came from the cache, which costs a tenth."""
        return self.input_tokens + self.output_tokens + self.cache_write

    def of(self, limit: Limit) -> float:
        return self.cost_usd if limit.unit == "USD" else self.tokens


def total(usages: Iterable[UsageCounts]) -> UsageCounts:
    rows = list(usages)
    return UsageCounts(**{one.name: sum(getattr(row, one.name) for row in rows) for one in fields(UsageCounts)})


async def last_days(
    redis: Redis, zone: ZoneInfo, chat_id: str, now: float, count: int
) -> tuple[list[UsageCounts], list[UsageCounts]]:
    """The last days of the chat, and of all chats; today first. RedisUnavailable if they cannot be read, so that no limit is passed by that."""
    today = datetime.fromtimestamp(now, zone).date()
    async with redis.pipeline(transaction=False) as pipe:
        for back in range(count):
            for key in keys.of_day((today - timedelta(days=back)).isoformat(), chat_id):
                pipe.hgetall(key)
        raws = await pipe.execute(raise_on_error=False)
    if wrong := next((raw for raw in raws if isinstance(raw, Exception)), None):
        raise RedisUnavailable(
            f"What a chat has used cannot be read: {wrong}. Load deploy/redis-users.acl again (docs/redis-keys.md)."
        )
    rows = [UsageCounts.parse(raw) for raw in raws]
    return rows[0::2], rows[1::2]


def add_usage(client: redis.Redis, zone: ZoneInfo, chat_id: str, usage: Mapping[str, Any]) -> None:
    """Count what was written beside the messages; of no known chat among all chats alone."""
    day = datetime.now(zone).date().isoformat()
    for key in dict.fromkeys(keys.of_day(day, chat_id or keys.EVERY_CHAT)):
        for one in fields(UsageCounts):
            if isinstance(amount := usage.get(one.name), int | float):
                client.hincrbyfloat(key, one.name, amount)
        client.expire(key, keys.TTL_SECONDS)


def read_usage(client: redis.Redis, today: date, days: int) -> dict[str, UsageCounts]:
    """Chat id → what it used in these days, today included; most expensive first. The chats' sum is under keys.EVERY_CHAT."""
    wanted = {(today - timedelta(days=back)).isoformat() for back in range(days)}
    rows = defaultdict[str, list[UsageCounts]](list)
    for key in client.scan_iter(match=f"{keys.PREFIX}*", count=1000):
        day, _, chat_id = shown(cast(bytes, key).removeprefix(keys.PREFIX.encode())).partition(":")
        if day in wanted and chat_id and client.type(key) == b"hash":
            rows[chat_id].append(UsageCounts.parse(cast(dict[bytes, bytes], client.hgetall(key))))
    sums = {chat_id: total(usages) for chat_id, usages in rows.items()}
    return dict(sorted(sums.items(), key=lambda one: (-one[1].cost_usd, -one[1].tokens, one[0])))
