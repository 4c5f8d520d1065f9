"""This feature's part of a dispatcher: `/usage`, the refusal beyond DAILY_LIMIT, and the counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from dispatcher.answering.commands.command import CommandReply, Handler
from dispatcher.answering.hooks import Core
from dispatcher.answering.retry import keep_trying
from dispatcher.features.usage import keys
from dispatcher.features.usage.counts import UsageCounts, last_days, total
from dispatcher.features.usage.limits import ALL, DailyLimits, Limit, amount_text, dollars
from dispatcher.features.usage.settings import UsageSettings
from dispatcher.queue.tasks import Counters, Finished
from shared.hooks import hook
from shared.text.logs import Logger
from shared.text.translations import later, tr, tr_count
from shared.turns.records import Task

log = Logger()

#: Days that are added up.
WEEK, MONTH = 7, 30
NOTE = later("Tokens from the cache are not counted against a limit. The cost is what the Claude CLI calculates.")

DAY = later("A day begins at midnight ({zone}).")
LINE = later("{messages}; {cost} USD; tokens: {read} in, {written} out, {cached} from the cache")
LINE_WITH_ERRORS = later(
    "{messages}, {failed} failed; {cost} USD; tokens: {read} in, {written} out, {cached} from the cache"
)
REACHED_HERE = later(
    "I do not answer this today: this chat has used {used}, and the limit of a day is {limit} (DAILY_LIMIT). "
    "I answer again after midnight ({zone}); please send it again then. /usage shows the figures; commands still work."
)
REACHED_BY_ALL = later(
    "I do not answer this today: all chats together have used {used}, and the limit of a day is {limit} (DAILY_LIMIT). "
    "I answer again after midnight ({zone}); please send it again then. /usage shows the figures; commands still work."
)


class UsagePart:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        self._limits = DailyLimits.parse(core.settings.of(UsageSettings).daily_limit)
        self._redis, self._rights, self._zone = core.redis, core.rights, core.settings.timezone

    @hook
    def chat_commands(self) -> Mapping[str, Handler]:
        return {"usage": self}

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:  # noqa: ARG002
        """What the answers of a chat took today and in the last days, and what the limit of the day leaves."""
        here, everywhere = await last_days(self._redis, self._zone, task.chat_id, now, MONTH)
        sees_all = self._rights.counts_all(task.chat_id, task.in_group, task.user_id)
        parts = [_table(tr("This chat:"), here)]
        if sees_all:
            parts.append(_table(tr("All chats:"), everywhere))
        limits = [one for one in self._limits.of(task.chat_id) if one.chat != ALL or sees_all]
        for limit in limits:
            used = (everywhere if limit.chat == ALL else here)[0].of(limit)
            parts.append(limit_text(limit, used))
        parts.append(f"{tr(NOTE)} {tr(DAY).format(zone=self._zone.key)}")
        return CommandReply("\n\n".join(parts))

    @hook
    async def decline(self, task: Task, now: float) -> str | None:
        """What a chat beyond its limit is told."""
        limits = self._limits.of(task.chat_id)
        if not limits:
            return None
        here, everywhere = await keep_trying(lambda: last_days(self._redis, self._zone, task.chat_id, now, 1))
        for limit in limits:
            used = (everywhere if limit.chat == ALL else here)[0].of(limit)
            if used >= limit.amount:
                log.warning("a message is not answered: DAILY_LIMIT is reached", limit=limit.text)
                return reached_text(limit, used, self._zone.key)
        return None

    @hook
    def counters(self, finished: Finished) -> Sequence[Counters]:
        day = datetime.now(self._zone).strftime("%Y-%m-%d")
        of_day = keys.of_day(day, finished.task.chat_id)
        return [Counters(key, keys.TTL_SECONDS, finished.stats) for key in of_day]


def limit_text(limit: Limit, used: float) -> str:
    """How much of a limit is left."""
    text = (
        tr("The limit of a day for all chats together is {limit}; {left} of it are left today.")
        if limit.chat == ALL
        else tr("The limit of a day for this chat is {limit}; {left} of it are left today.")
    )
    return text.format(limit=_amount(limit, limit.amount), left=_amount(limit, max(0.0, limit.amount - used)))


def reached_text(limit: Limit, used: float, zone: str) -> str:
    """The answer to a message beyond a limit."""
    text = tr(REACHED_BY_ALL if limit.chat == ALL else REACHED_HERE)
    return text.format(used=_amount(limit, used), limit=_amount(limit, limit.amount), zone=zone)


def _amount(limit: Limit, amount: float) -> str:
    if limit.unit == "USD":
        return amount_text(amount, limit.unit)
    return tr_count("{count:,} token", "{count:,} tokens", round(amount)).format(count=round(amount))


def _table(title: str, rows: list[UsageCounts]) -> str:
    lines = [tr("- today: {usage}").format(usage=_line(rows[0]))]
    for days in (WEEK, MONTH):
        text = tr_count("- {days} day: {usage}", "- {days} days: {usage}", days)
        lines.append(text.format(days=days, usage=_line(total(rows[:days]))))
    return "\n".join([title, *lines])


def _line(usage: UsageCounts) -> str:
    count = round(usage.messages)
    if not count:
        return tr("no messages")
    return tr(LINE_WITH_ERRORS if usage.errors else LINE).format(
        messages=tr_count("{count:,} message", "{count:,} messages", count).format(count=count),
        failed=round(usage.errors),
        cost=dollars(usage.cost_usd),
        read=f"{usage.input_tokens + usage.cache_write:,.0f}",
        written=f"{usage.output_tokens:,.0f}",
        cached=f"{usage.cache_read:,.0f}",
    )
