"""`/usage`: what the answers of a chat took today and in the last days, and what the limit of the day leaves."""

from __future__ import annotations

from dispatcher.answering.commands.command import CommandReply
from dispatcher.queue.chat.usage import ChatUsage, UsageCounts, total
from dispatcher.queue.rights import Rights
from shared.config.daily_limit import ALL, Limit, amount_text
from shared.text.format import counted
from shared.turns.records import Task

#: Days that are added up.
WEEK, MONTH = 7, 30
NOTE = "Tokens from the cache are not counted against a limit. The cost is what the Claude CLI calculates."


class UsageCommand:
    def __init__(self, usage: ChatUsage, rights: Rights, zone: str) -> None:
        self._usage, self._rights, self._zone = usage, rights, zone

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:  # noqa: ARG002
        here, everywhere = await self._usage.days(task.chat_id, now, MONTH)
        sees_all = self._rights.counts_all(task.chat_id, task.user_id)
        parts = [_table("This chat", here)]
        if sees_all:
            parts.append(_table("All chats", everywhere))
        limits = [one for one in self._usage.limits.of(task.chat_id) if one.chat != ALL or sees_all]
        for limit in limits:
            used = (everywhere if limit.chat == ALL else here)[0].of(limit)
            parts.append(limit_text(limit, used))
        parts.append(f"{NOTE} A day begins at midnight ({self._zone}).")
        return CommandReply("\n\n".join(parts))


def limit_text(limit: Limit, used: float) -> str:
    """How much of a limit is left."""
    whose = "all chats together" if limit.chat == ALL else "this chat"
    left = max(0.0, limit.amount - used)
    return f"The limit of a day for {whose} is {limit.text}; {amount_text(left, limit.unit)} of it are left today."


def reached_text(limit: Limit, used: float, zone: str) -> str:
    """The answer to a message beyond a limit."""
    whose = "all chats together have" if limit.chat == ALL else "this chat has"
    return (
        f"I do not answer this today: {whose} used {amount_text(used, limit.unit)}, and the limit of a day is {limit.text} (DAILY_LIMIT). "
        f"I have noted your message, and answer again after midnight ({zone}). /usage shows the figures; commands still work."
    )


def _table(title: str, rows: list[UsageCounts]) -> str:
    spans = (("today", 1), (f"{WEEK} days", WEEK), (f"{MONTH} days", MONTH))
    return "\n".join([f"{title}:", *(f"- {name}: {_line(total(rows[:days]))}" for name, days in spans)])


def _line(usage: UsageCounts) -> str:
    if not usage.tasks:
        return "no messages"
    failed = f", {usage.errors:.0f} failed" if usage.errors else ""
    return (
        f"{counted(round(usage.tasks), 'message')}{failed}; {usage.cost_usd:.2f} USD; tokens: {usage.input_tokens + usage.cache_write:,.0f} in, "
        f"{usage.output_tokens:,.0f} out, {usage.cache_read:,.0f} from the cache"
    )
