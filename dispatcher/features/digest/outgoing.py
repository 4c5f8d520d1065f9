"""Puts messages for the bot into the outbox, each once: over restarts, and with several dispatchers. What was sent is noted in Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from redis import Redis

from dispatcher.features.digest import keys as own
from dispatcher.queue.chats import chosen_language
from dispatcher.queue.scripts import script_text
from shared.config.settings import Settings
from shared.turns.signed import keyboard, keyboard_json, row_of, secret_in, sign_record
from shared.wire import keys
from shared.wire.ids import bot_of

#: Seconds after which an alarm that lasts is sent again, and for which all must be well before the owner is told so: what comes and goes within
#: minutes is one alarm.
AGAIN_SECONDS, WELL_SECONDS = 86_400, 300


class Outgoing:
    """RedisError if Redis does not answer: the next look tries again."""

    def __init__(self, client: Redis, settings: Settings) -> None:
        self._secret = secret_in(settings)
        self._redis: Any = client  # it returns bytes; the library's types are bytes or str
        self._alarm = client.register_script(script_text("features/digest/alarm"))
        self._once_a_day = client.register_script(script_text("features/digest/once_a_day"))

    def alarm(self, name: str, chat: str, text: str, now: float, *, lasts: bool, cause: str = "") -> bool:
        """Send an alarm's text, if there is a chat and it is new, has another cause or is a day old, or, where it is over, that all is well;
        whether it is to be told."""
        message = self._message(f"alarm-{name}-{now:.0f}", chat, text, now) if chat else b""
        arguments: list[Any] = [name, f"{now:.3f}", str(int(lasts)), message, AGAIN_SECONDS, WELL_SECONDS, cause]
        return bool(self._alarm(keys=[own.ALARMS, keys.outbox(bot_of(chat))], args=arguments))

    def report(
        self, chat: str, text: str, day: date, now: float, run: int | None, commands: Sequence[str] = ()
    ) -> bool:
        """Send the morning report of a day, with a button for each command, and note the run that it told of; whether it was sent."""
        buttons = keyboard_json(keyboard(*(row_of(("Show", one)) for one in commands)))
        message = self._message(f"report-{day}", chat, text, now, **({"buttons": buttons} if buttons else {}))
        noted = [] if run is None else ["report-run", run]
        return bool(self._once(chat, own.MORNING, "report", day, message, False, *noted))

    def digest(self, chat: str, text: str | None, day: date, now: float) -> bool:
        """Send a chat's digest of a day, if it has not been switched off meanwhile; None: there is nothing to say today."""
        message = self._message(f"digest-{day}-{chat}", chat, text, now, digest=True) if text else b""
        return bool(self._once(chat, own.DIGESTS, chat, day, message, True))

    def noted(self, field: str) -> str:
        """What was noted under a field; "" for nothing."""
        return (self._redis.hget(own.MORNING, field) or b"").decode("utf-8", "replace")

    def note(self, field: str, value: str) -> None:
        self._redis.hset(own.MORNING, field, value)

    def language(self, chat: str) -> str | None:
        """The language that the chat has chosen."""
        return chosen_language(self._redis, chat)

    def wanted_digests(self) -> dict[str, str]:
        """Chat id → day of its last digest."""
        found: Mapping[bytes, bytes] = self._redis.hgetall(own.DIGESTS)
        return {chat.decode("utf-8", "replace"): day.decode("utf-8", "replace") for chat, day in found.items()}

    def _message(self, name: str, chat: str, text: str, now: float, **more: object) -> bytes:
        message = {"id": name, "chat_id": chat, "text": text, "created_at": now, **more}
        return sign_record(self._secret, keys.outbox(bot_of(chat)), message)

    def _once(
        self, chat: str, key: str, field: str, day: date, message: bytes, only_if_there: bool, *noted: object
    ) -> Any:
        arguments: list[Any] = [field, str(day), str(day + timedelta(1)), message, str(int(only_if_there)), *noted]
        return self._once_a_day(keys=[key, keys.outbox(bot_of(chat))], args=arguments)


def due(last: str, day: date) -> bool:
    """Whether a message of this day is still to be sent; `last`: the day of the last one, as `once_a_day.lua` judges it."""
    return not str(day) <= last <= str(day + timedelta(1))
