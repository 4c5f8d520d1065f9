"""`hmem telegram`: one process per Redis, which takes updates (incoming.py) and delivers answers (delivery.py) until it is stopped.

The right to do so is a lease in Redis that this process renews. The lease of a dead process of this host is taken over immediately, that of
another host's when it expires. A second process waits for it, whatever its token: there is one queue of deliveries, and Telegram would split
the updates of one token between the two. While Redis is not reachable no other process can take the lease, so its holder continues.
"""

from __future__ import annotations

import asyncio
import signal
from typing import cast

import redis
from aiogram.exceptions import TelegramAPIError, TelegramUnauthorizedError
from aiogram.types import BotCommand

from dispatcher.bots.hooks import bot_background, telegram_bot
from dispatcher.bots.telegram.arrivals import Arrivals
from dispatcher.bots.telegram.client import (
    Telegram,
    until_redis_answers,
    until_telegram_answers,
    until_telegram_takes_it,
)
from dispatcher.bots.telegram.commands import menu
from dispatcher.bots.telegram.core import BotCore
from dispatcher.bots.telegram.delivery import Delivery
from dispatcher.bots.telegram.incoming import Intake
from dispatcher.bots.telegram.state import InRedis
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.hooks import Hooks, features
from shared.system.formats import refuse_newer_redis
from shared.system.processes import died_here, process_name
from shared.text.logs import Logger
from shared.text.translations import ENGLISH, LANGUAGES, speaking, tr
from shared.turns.message_origin import is_group
from shared.wire import keys
from shared.wire.client import BOT, open_async_redis
from shared.wire.ids import MAIN_BOT

log = Logger()

#: Seconds between two renewals of the lease, which lasts three of them; and between two attempts to take it.
RENEW_SECONDS = 10.0
TAKE_SECONDS = 1.0
_TELEGRAM = Settings.model_fields["telegram_api_url"].default
OWNER = keys.bot_owner(MAIN_BOT)
#: Seconds that running deliveries get after a stop.
STOP_SECONDS = 5.0


async def serve(settings: Settings) -> None:
    """Run the bot until SIGTERM or SIGINT; SettingsError if the token is missing or invalid."""
    telegram, client, stop = Telegram(settings), open_async_redis(settings.redis_url, BOT), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await Bot(BotCore(settings, telegram, client)).run(stop)
    except TelegramUnauthorizedError:
        where = f" (at {settings.telegram_api_url})" if settings.telegram_api_url != _TELEGRAM else ""
        raise SettingsError(
            f"Telegram{where} does not know this TELEGRAM_BOT_TOKEN. Copy it from @BotFather again, or create a new one there."
        ) from None
    finally:
        await telegram.session.close()
        await client.aclose()


class BotLease(InRedis):
    """One bot per Redis."""

    async def refuse_newer(self) -> None:
        """FormatNewer if a newer program wrote our keys."""
        try:
            raw = cast(bytes | None, await self._redis.get(keys.FORMAT))
        except redis.ResponseError as error:  # another program wrote the key
            log.warning("the format of the keys in Redis is not checked", error=str(error), todo="hmem doctor")
        else:
            refuse_newer_redis(raw)

    async def own(self, process: str) -> bool:
        """Take or renew the lease of the bot; whether this process has it."""
        return bool(await self._run("bot_lease", [OWNER], [process, keys.BOT_OWNER_TTL_SECONDS]))

    async def owner(self) -> str:
        """The process that has the lease; "" if none has."""
        return (cast(bytes | None, await self._redis.get(OWNER)) or b"").decode("utf-8", "replace")

    async def disown(self, process: str) -> None:
        await self._run("bot_lease", [OWNER], [process, 0])


class Bot:
    def __init__(self, core: BotCore) -> None:
        self._core, self._settings, self._telegram, self._state = core, core.settings, core.telegram, core.state
        self._lease = BotLease(core.redis, core.secret)
        self._process = process_name()

    async def run(self, stop: asyncio.Event) -> None:
        if not self._settings.allowed:
            log.warning("ALLOWED_CHATS is empty; write to the bot to learn a chat's id")
        elif any(map(is_group, self._settings.allowed)) and not self._settings.owner_ids:
            log.warning(
                "OWNERS is empty, so no one has an owner's rights in groups; the bot shows people their number when it refuses them"
            )
        work, stopping = asyncio.create_task(self._work()), asyncio.create_task(stop.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not work.done():
            log.info("stopping")
        while not work.done():  # an update that is being processed is not confirmed yet, and will come again
            work.cancel()
            await asyncio.wait({work}, timeout=2 * STOP_SECONDS)
        log.info("bot stopped")
        if not work.cancelled() and (error := work.exception()):
            raise error

    async def _work(self) -> None:
        await until_redis_answers(self._lease.refuse_newer)
        self._core.me = await until_telegram_answers(self._telegram.bot.get_me)
        await until_telegram_answers(self._telegram.bot.delete_webhook)  # where one is set, nobody may poll
        while True:
            await self._take_lease()
            try:
                log.info("bot started", bot=self._core.me.username, chats=len(self._settings.allowed))
                await self._while_owner()
            finally:
                try:
                    await self._lease.disown(self._process)
                except redis.RedisError as error:
                    log.warning("the lease of the bot could not be released; it expires by itself", error=str(error))

    async def _take_lease(self) -> None:
        logged = False
        while not await until_redis_answers(lambda: self._lease.own(self._process)):
            if not logged:
                log.warning("another process is already the bot of this Redis; waiting for it to end")
            logged = True
            holder = await until_redis_answers(self._lease.owner)
            if died_here(holder):
                log.warning("that process has died; taking over", process=holder)
                await until_redis_answers(lambda: self._lease.disown(holder))  # noqa: B023 - awaited immediately
            else:
                await asyncio.sleep(TAKE_SECONDS)

    async def _while_owner(self) -> None:
        """Run until one of the parts ends: the lease is lost, or there is an error."""
        core = self._core
        await until_redis_answers(core.load_moves)
        delivery, hooks = Delivery(core), features().parts(telegram_bot, core=core)
        arrivals = Arrivals(core, delivery.wake.set)
        intake = Intake(core, hooks, arrivals, delivery.wake.set)
        running = (intake.run(), arrivals.run(), *delivery.parts(), self._renew(), self._beside(hooks))
        parts = [asyncio.create_task(part) for part in running]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await delivery.finish(STOP_SECONDS)

    async def _renew(self) -> None:
        """Ends when another process holds the lease."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if not await until_redis_answers(lambda: self._lease.own(self._process)):
                log.error("another process took over the lease of the bot; this one stops")
                return

    async def _beside(self, hooks: Hooks) -> None:
        """The menus, and what features run; the bot does not end with any of it."""
        await asyncio.gather(set_menus(self._telegram), hooks.run(bot_background))
        await asyncio.Event().wait()


async def set_menus(telegram: Telegram) -> None:
    """Set the menu of commands in each language; English is for all others, too."""
    for language in LANGUAGES:
        with speaking(language):
            commands = [BotCommand(command=name, description=tr(what)) for name, what in menu().items()]
        code = None if language == ENGLISH else language
        try:
            await until_telegram_takes_it(lambda: telegram.bot.set_my_commands(commands, language_code=code))  # noqa: B023
        except TelegramAPIError as error:
            log.warning("Telegram refused the menu; its commands work without it", language=language, error=str(error))
