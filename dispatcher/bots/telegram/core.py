"""What the parts of the bot share."""

from __future__ import annotations

from dataclasses import dataclass

from aiogram.types import User
from redis.asyncio import Redis

from dispatcher.bots.telegram.client import Telegram
from dispatcher.bots.telegram.incoming.presses import Presses
from dispatcher.bots.telegram.state import BotState
from dispatcher.queue.admission import AllowedChats
from dispatcher.queue.rights import Rights
from shared.config.settings import Settings
from shared.system.keys.signing_key import signing_key
from shared.turns.signed.results import Keyboard
from shared.wire.media.open import open_media


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
        self.media = open_media(settings, redis)
        self.me: User  # as Telegram knows the bot: set before anything is done
