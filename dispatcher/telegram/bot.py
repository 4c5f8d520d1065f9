"""`hmem telegram`: one process a Redis, which takes updates (intake.py) and brings answers (delivery.py) until it is stopped.

The right to do so is a lease in Redis, renewed while this process lives; of a process of this host that died it is taken over at once, of
another's when it lapses. A second process waits for it, whatever its token: what waits for delivery is one queue, and of one token Telegram
would give each some of the updates. While Redis is away nobody can take the lease over, so the one that has it goes on.
"""

from __future__ import annotations

import asyncio
import signal

import redis
import structlog
from aiogram.types import User

from dispatcher.queue.rights import Rights
from dispatcher.telegram.client import Telegram, Unauthorized
from dispatcher.telegram.commands import MENU, Commands
from dispatcher.telegram.delivery import Delivery
from dispatcher.telegram.intake import Intake
from dispatcher.telegram.retry import until_redis_answers, until_telegram_answers
from dispatcher.telegram.state import BotState, connect
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.system.processes import died_here, process_name
from shared.system.signing_key import signing_key

log = structlog.get_logger()

#: Seconds between two renewals of the lease, which lasts three of them; and between two tries to take it.
RENEW_SECONDS = 10.0
TAKE_SECONDS = 1.0
_TELEGRAM = Settings.model_fields["telegram_api_url"].default
#: Seconds that the deliveries under way get after a stop.
STOP_SECONDS = 5.0


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT; SettingsError if there is no bot to be."""
    secret = signing_key(settings, "no answer could be verified")
    telegram, client, stop = Telegram(settings), connect(settings), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    bot = Bot(settings, telegram, BotState(settings, client, secret), secret)
    try:
        await bot.run(stop)
    except Unauthorized:
        where = f" (at {settings.telegram_api_url})" if settings.telegram_api_url != _TELEGRAM else ""
        raise SettingsError(
            f"Telegram{where} does not know this TELEGRAM_BOT_TOKEN. Copy it from @BotFather again, or ask there for a new one."
        ) from None
    finally:
        await telegram.close()
        await client.aclose()


class Bot:
    def __init__(self, settings: Settings, telegram: Telegram, state: BotState, secret: str) -> None:
        self._settings, self._telegram, self._state, self._secret = settings, telegram, state, secret
        self._process = process_name()
        self._delivery = Delivery(telegram, state, settings.allowed)

    async def run(self, stop: asyncio.Event) -> None:
        if not self._settings.allowed:
            log.warning("ALLOWED_CHATS is empty, so nobody is answered; write to the bot to learn a chat's id")
        elif min(self._settings.allowed) < 0 and not self._settings.owner_ids:
            log.warning(
                "OWNERS is empty, so in groups nobody has an owner's rights; the bot tells whom it refuses their number"
            )
        work, stopping = asyncio.create_task(self._work()), asyncio.create_task(stop.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not work.done():
            log.info("stopping")
        while not work.done():  # an update that is being taken is not confirmed yet, and comes again
            work.cancel()
            await asyncio.wait({work}, timeout=2 * STOP_SECONDS)
        log.info("bot stopped")
        if not work.cancelled() and (error := work.exception()):
            raise error

    async def _work(self) -> None:
        me = await until_telegram_answers(self._telegram.me)
        commands = Commands(self._state, self._secret, Rights(self._settings), self._settings.timezone)
        intake = Intake(self._settings, self._telegram, self._state, commands, me, self._delivery.wake)
        while True:
            await self._take_lease(me)
            try:
                await until_telegram_answers(lambda: self._telegram.prepare(MENU))
                log.info("bot started", bot=me.username, chats=len(self._settings.allowed))
                await self._while_owner(intake)
            finally:
                await self._give_back()

    async def _take_lease(self, me: User) -> None:
        said = False
        while not await until_redis_answers(lambda: self._state.own(self._process)):
            if not said:
                log.warning("another process is the bot of this Redis; waiting for it to end", bot=me.username)
            said = True
            if not await self._buried(await until_redis_answers(self._state.owner)):
                await asyncio.sleep(TAKE_SECONDS)

    async def _buried(self, holder: str) -> bool:
        """Whether the holder of the lease has died here; then the lease is free."""
        died = died_here(holder)
        if died:
            log.warning("that process has died; taking over", process=holder)
            await until_redis_answers(lambda: self._state.disown(holder))
        return died

    async def _while_owner(self, intake: Intake) -> None:
        """Until the lease is lost, or one of the parts ends with an error."""
        parts = [asyncio.create_task(part) for part in (intake.run(), self._delivery.run(), self._renew())]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await self._delivery.finish(STOP_SECONDS)

    async def _renew(self) -> None:
        """Ends when another process holds the lease."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if not await until_redis_answers(lambda: self._state.own(self._process)):
                log.error("another process took this bot over while this one was away")
                return

    async def _give_back(self) -> None:
        try:
            await self._state.disown(self._process)
        except redis.RedisError as error:
            log.warning("the right to be the bot could not be given back; it lapses by itself", error=str(error))
