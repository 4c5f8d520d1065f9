"""Whether messages are answered: which dispatchers are alive, what waits, and whether they take it.

Our dispatchers send a heartbeat (`hcli:mem:lease:…`, 30 s); another one, such as h-cli's, is not visible here. An idle dispatcher takes a queued
task within a fraction of a second, so a queue from which nothing is taken for some seconds, although nothing is being answered, is stalled: the
process is stopped, or its claim loop hangs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast
from zoneinfo import ZoneInfo

from redis import Redis, RedisError
from redis.asyncio import Redis as AsyncRedis

from dispatcher.claude.reply import REASONS
from dispatcher.queue.scripts import script_text
from shared.errors import HmemError, NoDispatcher, QueueStalled
from shared.text.format import zoned_text
from shared.text.translations import tr
from shared.turns.records import MOST_TASK_BYTES, RecordRefused, Task, loads_object
from shared.wire import keys
from shared.wire.values import living, shown

#: Seconds for which a queue that seems stalled is watched, and between two looks. A dispatcher that has lost Redis pauses for 3.2 s.
WATCH_SECONDS, LOOK_SECONDS = 5.0, 0.2
#: Seconds that a question waits for Claude in all: a hold that ends later is of a wrong clock.
LONGEST_WAIT_SECONDS = 12 * 3600
#: For so many seconds after a hold, and a try in vain, the trouble counts as the same.
SAME_TROUBLE_SECONDS = 900
LOG = "journalctl -u hmem-dispatcher"


@dataclass(frozen=True)
class Hold:
    """Why questions wait in the queue (postpone.lua): `why` is not translated; `resets`: when a limit ends, if that is known. POSIX seconds."""

    why: str
    since: float
    next_try: float
    resets: float | None

    def reason(self, zone: ZoneInfo) -> str:
        """In the current language, as the middle of a sentence."""
        if self.resets is None:
            return tr(self.why)
        return tr("{reason} until {time}").format(reason=tr(self.why), time=zoned_text(self.resets, zone))


def holds_of(fields: Mapping[bytes, bytes], now: float) -> dict[str, Hold]:
    """Chat id, "" for all chats → its hold, from the hash; without ended ones, and without what another program may have written there."""
    found: dict[str, Hold] = {}
    for chat, raw in fields.items():
        with suppress(RecordRefused, KeyError, ValueError, TypeError):
            record = loads_object(raw)
            since, next_try, resets = (float(record.get(name) or 0.0) for name in ("since", "next", "resets"))
            ahead = next_try - now if math.isfinite(since + next_try + resets) else 0.0
            if record["why"] in REASONS and 0 < ahead <= LONGEST_WAIT_SECONDS + SAME_TROUBLE_SECONDS:
                found[chat.decode("utf-8", "replace")] = Hold(record["why"], since, next_try, resets or None)
    return found


def read_holds(client: Redis, now: float) -> dict[str, Hold]:
    """Chat id, "" for all chats → why and until when its questions wait."""
    return holds_of(cast(Any, client.hgetall(keys.HOLDS)), now)


async def held_now(redis: AsyncRedis) -> dict[str, Hold]:
    """Those whose next try has not come yet."""
    return holds_of(await cast(Awaitable[dict[bytes, bytes]], redis.hgetall(keys.HOLDS)), time.time())


@dataclass(frozen=True)
class QueueState:
    """`answering`: tasks that living dispatchers hold. `oldest_seconds`: age of the head by the bot's clock, None if it has no time."""

    dispatchers: tuple[str, ...]
    queued: int
    answering: int
    oldest_seconds: float | None = None

    @property
    def waiting(self) -> str:
        """`10 messages wait, the first for 12 minutes`"""
        text = f"{self.queued} message{' waits' if self.queued == 1 else 's wait'}"
        if not self.queued or self.oldest_seconds is None:
            return text
        minutes = self.oldest_seconds / 60
        age = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"
        return f"{text}, the first for {age}" if minutes >= 1 else text


def read_queue(client: Redis, now: float | None = None) -> QueueState:
    """The state of the queue at this moment."""
    dispatchers = tuple(living(client))
    answering = sum(client.hlen(keys.inflight(name)) for name in dispatchers)
    queued = client.llen(keys.TASKS)
    oldest = oldest_seconds(client, now or time.time()) if queued else None
    return QueueState(dispatchers, queued, answering, oldest)


def running_dispatchers(client: Redis) -> list[str]:
    """The dispatchers that renew their leases; NoDispatcher if there is none. It reads no release, which a dispatcher's Redis user may not."""
    names = [raw.decode("utf-8", "replace") for raw in cast(set[bytes], client.smembers(keys.WORKERS))]
    alive = sorted(shown(name) for name in names if client.exists(keys.lease(name)))
    if not alive:
        raise NoDispatcher(
            "No dispatcher renews its lease in Redis, so messages wait. Start hmem run and check its log."
        )
    return alive


def oldest_seconds(client: Redis, now: float) -> float | None:
    """Age of the head of the queue by its bot's clock; None if it has no time, or this user may not read it."""
    try:
        head = client.register_script(script_text("queue/peek_head"))(keys=[keys.TASKS], args=[MOST_TASK_BYTES])
        at = Task.parse(head).submitted_at if isinstance(head, bytes) else None
    except (RecordRefused, RedisError):  # not every user may run scripts
        return None
    return None if at is None else max(0.0, now - at)


def queue_error(client: Redis, state: QueueState) -> HmemError | None:
    """Why messages are not answered, or None. A queue that seems stalled is watched for WATCH_SECONDS first."""
    if not state.dispatchers:
        waits = f"{state.waiting}, and no dispatcher answers" if state.queued else "messages would wait unanswered"
        return NoDispatcher(
            f"No dispatcher of hcli-memory is running (others, such as h-cli's, are not visible here): {waits}. "
            f"Start it (systemctl start hmem-dispatcher, or hmem run); if it stops again, its log says why ({LOG})."
        )
    if state.queued and not state.answering and not read_holds(client, time.time()) and _stalled(client, state):
        names = ", ".join(state.dispatchers)
        return QueueStalled(
            f"The dispatcher {names} is alive but takes nothing from the queue: {state.waiting}. "
            f"Restart it (systemctl restart hmem-dispatcher) and check its log ({LOG})."
        )
    return None


def _stalled(client: Redis, first: QueueState) -> bool:
    """Whether nothing is taken or answered until the time is up; any progress ends the watch."""
    deadline = time.monotonic() + WATCH_SECONDS
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        now = read_queue(client)
        if now.answering or now.queued < first.queued or not now.queued:
            return False
    return True
