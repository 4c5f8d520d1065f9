"""The commands that the dispatcher answers: the bot queues them as messages, and `dispatcher/answering/commands/` carries them out."""

from __future__ import annotations

DISPATCHER_COMMANDS = frozenset({"every", "forget", "memory", "remind", "retry", "timezone", "usage", "why"})
