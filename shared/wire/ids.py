"""Single values of the wire, each in one canonical spelling: ids of chats, people and tasks, and times. Invalid values are refused, or None."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from shared.hooks import feature_names
from shared.wire.json import RecordRefused

CHAT_ID_LENGTH = 256
#: The bot of the chats whose ids name none. By the wire contract they are numbers.
MAIN_BOT = "main"
#: How the ids of tasks begin that come from a terminal (`hmem talk`): somebody waits there, so such a question never waits in the queue.
FROM_TERMINAL = "cli-"
_NAMED = re.compile(r"([a-z]{1,16}):.")
TASK_ID = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
#: Turns outside the years 1970 to 9998 cannot be dated in text.
LATEST_TIMESTAMP = 253_370_764_800.0


def chat_id_of(value: object) -> str:
    """The one spelling of a chat id: an int in decimal, or a string as it is. Anything else is refused."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value == 0 or abs(value) > 1 << 63:
            raise RecordRefused("chat_id is not a valid chat number")
        return str(value)
    if not isinstance(value, str):
        raise RecordRefused("chat_id is missing" if value is None else f"chat_id has type {type(value).__name__}")
    if not value or len(value) > CHAT_ID_LENGTH:
        raise RecordRefused(f"chat_id has {len(value)} characters; 1 to {CHAT_ID_LENGTH} are allowed")
    if value == "0" or value != value.strip() or not value.isprintable():
        raise RecordRefused("chat_id has characters that are not allowed in a chat id, or is 0")
    return value


def bot_of(chat_id: str) -> str:
    """Which of our bots a chat is with: `discord` has `discord:815`."""
    named = _NAMED.match(chat_id)
    return named[1] if named else MAIN_BOT


def bot_names() -> list[str]:
    """The main bot, and bots with a folder of their own."""
    return [MAIN_BOT, *feature_names("dispatcher.bots")]


def user_id_of(value: object) -> str | None:
    """The one spelling of a person's id, as `chat_id_of` has a chat's; None for what is none. Nothing is addressed by it, so nothing is refused."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) <= 1 << 63 else None
    plain = isinstance(value, str) and 0 < len(value) <= CHAT_ID_LENGTH and value.isprintable()
    return str(value) if plain and value == str(value).strip() else None


def task_id_of(value: object) -> str:
    """A task id that is safe inside a Redis key and a glob, or RecordRefused."""
    if not isinstance(value, str) or not TASK_ID.match(value):
        raise RecordRefused("task_id must match [A-Za-z0-9_-]{1,100}")
    return value


def timestamp_of(value: object) -> float:
    """POSIX seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordRefused("timestamp is missing" if value is None else f"timestamp has type {type(value).__name__}")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not 0 <= seconds < LATEST_TIMESTAMP:
        raise RecordRefused("timestamp is not a date between 1970 and 9998")
    return seconds


def moment_of(value: object) -> float | None:
    """POSIX seconds of an ISO-8601 text (UTC where it names no zone), or None."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return timestamp_of((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None
