"""Questions in the chat whether Claude may use a tool (APPROVE_TOOLS)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook
from shared.system.command import CommandEntry

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from dispatcher.answering.hooks import Core
    from dispatcher.bots.telegram.core import BotCore
    from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader
    from dispatcher.chat_data.forget.request import Scope


@hook
def commands() -> Sequence[CommandEntry]:
    summary = "Which tools Claude asked for in the chats (APPROVE_TOOLS), with what, and who allowed or denied each; oldest first, the last 1,000."
    return [CommandEntry("approvals", "dispatcher.features.approvals.command", summary)]


@hook
def dispatcher(core: Core) -> object:
    from dispatcher.features.approvals.approvals import Approvals

    return Approvals(core.settings, core.redis)


@hook
def telegram_bot(core: BotCore) -> object:
    from dispatcher.features.approvals.telegram import ApprovalMessages

    return ApprovalMessages(core)


@hook
async def terminal_waits(redis: Redis, secret: str, task_id: str, ask: Callable[[str], bool | None]) -> None:
    from dispatcher.features.approvals.questions import ask_at_terminal

    await ask_at_terminal(redis, secret, task_id, ask)


@hook
def redis_entries(scope: Scope, reader: RedisReader) -> Iterator[RedisEntry]:
    """Records, open questions and answers. The scan does not search for their words, which are Claude's: nothing of them is left."""
    from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, number_of
    from dispatcher.features.approvals import keys
    from shared.wire.json import record_of

    layer = "redis: approvals"
    for raw in reader.entries(keys.RECORDS):
        record, text = record_of(raw), raw.decode("utf-8", "replace")
        chat_id, at = str(record.get("chat_id", "")), number_of(record.get("at"))
        if scope.covers_text(chat_id, str(record.get("task_id", "")), at, text):
            yield RedisEntry(layer, keys.RECORDS.encode(), raw, "entry")
    for name, raw in reader.fields(keys.OPEN):
        if record_of(raw).get("chat_id") in (*scope.chats, None) or scope.asked.holds(raw.decode("utf-8", "replace")):
            yield RedisEntry(layer, keys.OPEN.encode(), raw, "field", name=name)
    for key, raw in reader.scan(keys.decision("*")):
        if record_of(raw).get("chat_id") in (*scope.chats, None):
            yield RedisEntry(layer, key, b"", "key")
