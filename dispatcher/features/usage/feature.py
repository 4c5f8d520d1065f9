"""What Claude's answers cost: `/usage`, `hmem usage`, and DAILY_LIMIT, beyond which a chat is not answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from dispatcher.features.usage import keys
from dispatcher.features.usage.settings import UsageSettings
from shared.hooks import hook
from shared.system.command import CommandEntry
from shared.text.translations import later
from shared.wire.key_table import Key
from shared.wire.rights import Right

if TYPE_CHECKING:
    from dispatcher.answering.commands.command import Handler
    from dispatcher.answering.hooks import Core
    from dispatcher.queue.tasks import Counters as Counted
    from dispatcher.queue.tasks import Finished
    from shared.turns.records import Task

log = structlog.get_logger()


@hook
def settings() -> type[UsageSettings]:
    return UsageSettings


@hook
def redis_keys() -> Sequence[Key]:
    return keys.KEYS


@hook
def redis_rights() -> Mapping[str, Sequence[Right]]:
    return keys.RIGHTS


@hook
def menu() -> Mapping[str, str]:
    return {"usage": later("tokens and cost of the last days")}


@hook
def keys_of_chat(chat_id: str) -> Sequence[str]:
    return [keys.of_day("????-??-??", chat_id)[0]]


@hook
def commands() -> Sequence[CommandEntry]:
    summary = "Messages, tokens and cost of each chat in the last days, most expensive first; and what DAILY_LIMIT allows it a day."
    return [CommandEntry("usage", "dispatcher.features.usage.command", summary)]


@hook
def dispatcher(core: Core) -> UsagePart:
    return UsagePart(core)


class UsagePart:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        from dispatcher.features.usage.counts import ChatUsage
        from dispatcher.features.usage.limits import DailyLimits

        limits = DailyLimits.parse(core.settings.of(UsageSettings).daily_limit)
        self._usage, self._rights = ChatUsage(core.redis, core.settings.timezone, limits), core.rights
        self._zone = core.settings.timezone

    @hook
    def chat_commands(self) -> Mapping[str, Handler]:
        from dispatcher.features.usage.chat_command import UsageCommand

        return {"usage": UsageCommand(self._usage, self._rights, self._zone.key)}

    @hook
    async def decline(self, task: Task, now: float) -> str | None:
        """What a chat beyond its limit is told."""
        from dispatcher.answering.retry import keep_trying
        from dispatcher.features.usage.chat_command import reached_text

        reached = await keep_trying(lambda: self._usage.reached(task.chat_id, now))
        if reached is None:
            return None
        log.warning("a message is not answered: DAILY_LIMIT is reached", limit=reached[0].text)
        return reached_text(*reached, self._zone.key)

    @hook
    def counters(self, finished: Finished) -> Sequence[Counted]:
        from dispatcher.queue.tasks import Counters

        day = datetime.now(self._zone).strftime("%Y-%m-%d")
        of_day = keys.of_day(day, finished.task.chat_id)
        return [Counters(key, keys.TTL_SECONDS, finished.stats) for key in of_day]
