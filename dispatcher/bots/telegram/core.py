"""What the parts of the bot share."""

from __future__ import annotations

from aiogram.types import User
from redis.asyncio import Redis

from dispatcher.bots.telegram.client import Telegram
from dispatcher.bots.telegram.incoming.presses import Presses
from dispatcher.bots.telegram.state import BotState
from dispatcher.queue.admission import AllowedChats
from dispatcher.queue.rights import Rights
from shared.config.settings import Settings
from shared.turns.signed.results import signing_key
from shared.wire.media.open import open_media


class BotCore:
    """One per process."""

    def __init__(self, settings: Settings, telegram: Telegram, redis: Redis) -> None:
        secret = signing_key(settings, "no answer could be verified")
        self.settings, self.telegram, self.redis = settings, telegram, redis
        self.state = BotState(settings, redis, secret)
        self.secret, self.presses = secret, Presses(secret)
        self.allowed, self.rights = AllowedChats(settings.allowed, redis), Rights(settings)
        self.media = open_media(settings, redis)
        self.me: User  # as Telegram knows the bot: set before anything is done
