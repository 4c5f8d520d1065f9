"""What the parts of the bot share, and the data of buttons."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from dataclasses import dataclass

from aiogram.types import User
from redis.asyncio import Redis

from dispatcher.bots.telegram.client import Telegram
from dispatcher.bots.telegram.state import BotState
from dispatcher.queue.admission import AllowedChats
from dispatcher.queue.rights import Rights
from shared.config.settings import Settings
from shared.turns.signed.results import Button, Keyboard, signing_key
from shared.wire.media.store import MediaStore

#: How long a button may be pressed. Seconds.
VALID_SECONDS = 2 * 86_400
_SIGNATURE_BYTES = 12
_END_BYTES = 6


class Presses:
    """Makes and reads the data of buttons, which Telegram returns at a press (64 bytes at most); `secret` signs them.

        <16 characters of the signature>.<end of validity, POSIX milliseconds in base 64>.<command without its slash>

    The signature is an HMAC over chat, person, end and command: of another chat, by another person, or changed on the way, a press is refused.
    Telegram says who presses and where; so neither stands in the data. By the milliseconds two buttons of one command differ, which a double press
    does not.
    """

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"buttons of hmem telegram\n" + secret.encode()).digest()

    def data(self, button: Button, chat: int, user: str, valid_seconds: float = VALID_SECONDS) -> str:
        """For this person in this chat."""
        ends = _text(round((time.time() + valid_seconds) * 1000).to_bytes(_END_BYTES))
        command = button.command.removeprefix("/")
        return f"{self._sign(chat, user, ends, command)}.{ends}.{command}"

    def command(self, data: str, chat: int, user: str) -> str | None:
        """The command, with its slash, that this person may give in this chat; "" if it has expired, None if it was not made for them."""
        signature, _, rest = data.partition(".")
        ends, _, command = rest.partition(".")
        expected = self._sign(chat, user, ends, command)
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), expected.encode()):
            return None
        valid = time.time() * 1000 <= int.from_bytes(base64.urlsafe_b64decode(ends))
        return f"/{command}" if valid else ""

    def _sign(self, chat: int, user: str, ends: str, command: str) -> str:
        message = "\n".join((str(chat), user, ends, command)).encode("utf-8", "surrogatepass")
        return _text(hmac.new(self._key, message, hashlib.sha256).digest()[:_SIGNATURE_BYTES])


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()


@dataclass(frozen=True)
class BotAnswer:
    """With buttons for who sent the command. `secret`: it is sent at once and never stored in Redis, not even until it is delivered. `brief`: where
    a button was pressed, it is shown for a moment."""

    text: str
    buttons: Keyboard = ()
    secret: bool = False
    brief: bool = False


class BotCore:
    """One per process."""

    def __init__(self, settings: Settings, telegram: Telegram, redis: Redis) -> None:
        secret = signing_key(settings, "no answer could be verified")
        self.settings, self.telegram, self.redis = settings, telegram, redis
        self.state = BotState(redis, secret)
        self.secret, self.presses = secret, Presses(secret)
        self.allowed, self.rights = AllowedChats(settings.allowed, redis), Rights(settings)
        self.media = MediaStore(redis)
        self.me: User  # as Telegram knows the bot: set before anything is done
