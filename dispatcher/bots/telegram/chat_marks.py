"""What the bot notes about single messages, for two days: `hcli:mem:bot:seen:…`.

press-<chat>-<message>-<digest>   this button was just pressed: a double press counts once
reply-<chat>-<message>            a reply to this message is this command of that person
row-<chat>                        the message with the buttons of the newest answer
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import cast

from redis.asyncio import Redis

from shared.turns.records import RecordRefused, dumps, loads_object
from shared.turns.signed.results import reply_command_of
from shared.wire import keys

#: Within so many seconds a second press of the same button is taken for a double press.
PRESS_SECONDS = 10


class ChatMarks:
    """One per bot. Everything may be repeated."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def first_press(self, update: str, chat: int, message: int, data: str) -> bool:
        """Whether this is the first press of a button within a while; the same update may ask again."""
        name = hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()[:16]
        key = keys.bot_seen(f"press-{chat}-{message}-{name}")
        before = cast(bytes | None, await self._redis.set(key, update, nx=True, get=True, ex=PRESS_SECONDS))
        return before is None or before == update.encode()

    async def expect_reply(self, chat: int, message: int, command: str, user: str) -> None:
        """A reply of this person to this message is this command."""
        record = dumps({"command": command, "user": user})
        await self._redis.set(keys.bot_seen(f"reply-{chat}-{message}"), record, ex=keys.BOT_SEEN_TTL_SECONDS)

    async def reply_command(self, chat: int, message: int, user: str) -> str:
        """The command that a reply of this person to this message is; "" if it is only a reply."""
        raw = cast(bytes | None, await self._redis.get(keys.bot_seen(f"reply-{chat}-{message}")))
        with suppress(RecordRefused):
            record = loads_object(raw) if raw else {}
            if record.get("user") == user:
                return reply_command_of(record.get("command"))
        return ""

    async def row(self, chat: int) -> int | None:
        """The message with the buttons of the newest answer."""
        raw = cast(bytes | None, await self._redis.get(keys.bot_seen(f"row-{chat}")))
        return int(raw) if raw and raw.isdigit() else None

    async def note_row(self, chat: int, message: int) -> None:
        await self._redis.set(keys.bot_seen(f"row-{chat}"), str(message), ex=keys.BOT_SEEN_TTL_SECONDS)
