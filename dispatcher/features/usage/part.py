"""This feature's part of a dispatcher: `/usage`, the refusal beyond DAILY_LIMIT, and the counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog

from dispatcher.answering.commands.command import Handler
from dispatcher.answering.hooks import Core
from dispatcher.answering.retry import keep_trying
from dispatcher.features.usage import keys
from dispatcher.features.usage.chat_command import UsageCommand, reached_text
from dispatcher.features.usage.counts import ChatUsage
from dispatcher.features.usage.limits import DailyLimits
from dispatcher.features.usage.settings import UsageSettings
from dispatcher.queue.tasks import Counters, Finished
from shared.hooks import hook
from shared.turns.records import Task

log = structlog.get_logger()


class UsagePart:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        limits = DailyLimits.parse(core.settings.of(UsageSettings).daily_limit)
        self._usage, self._rights = ChatUsage(core.redis, core.settings.timezone, limits), core.rights
        self._zone = core.settings.timezone

    @hook
    def chat_commands(self) -> Mapping[str, Handler]:
        return {"usage": UsageCommand(self._usage, self._rights, self._zone.key)}

    @hook
    async def decline(self, task: Task, now: float) -> str | None:
        """What a chat beyond its limit is told."""
        reached = await keep_trying(lambda: self._usage.reached(task.chat_id, now))
        if reached is None:
            return None
        log.warning("a message is not answered: DAILY_LIMIT is reached", limit=reached[0].text)
        return reached_text(*reached, self._zone.key)

    @hook
    def counters(self, finished: Finished) -> Sequence[Counters]:
        day = datetime.now(self._zone).strftime("%Y-%m-%d")
        of_day = keys.of_day(day, finished.task.chat_id)
        return [Counters(key, keys.TTL_SECONDS, finished.stats) for key in of_day]
