"""`hmem telegram`: one process per Redis, which takes updates (intake.py) and delivers answers (delivery.py) until it is stopped.

The right to do so is a lease in Redis that this process renews. The lease of a dead process of this host is taken over immediately, that of
another host's when it expires. A second process waits for it, whatever its token: there is one queue of deliveries, and Telegram would split
the updates of one token between the two. While Redis is not reachable no other process can take the lease, so its holder continues.
"""

from __future__ import annotations

import asyncio
import signal

import redis
import structlog
from aiogram.types import User

from dispatcher.bots.hooks import bot_background, telegram_bot
from dispatcher.bots.telegram.client import Telegram
from dispatcher.bots.telegram.commands.answers import menus
from dispatcher.bots.telegram.core import BotCore
from dispatcher.bots.telegram.errors import TelegramError, Unauthorized
from dispatcher.bots.telegram.incoming.arrivals import Arrivals
from dispatcher.bots.telegram.incoming.intake import Intake
from dispatcher.bots.telegram.incoming.routes import Routes
from dispatcher.bots.telegram.outgoing.delivery import Delivery
from dispatcher.bots.telegram.retry import until_redis_answers, until_telegram_answers, when_telegram_has_time
from dispatcher.bots.telegram.state import ChatMarks, connect, digest
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.hooks import Hooks, features
from shared.system.processes import died_here, process_name
from shared.turns.records import dumps

log = structlog.get_logger()

#: Seconds between two renewals of the lease, which lasts three of them; and between two attempts to take it.
RENEW_SECONDS = 10.0
TAKE_SECONDS = 1.0
_TELEGRAM = Settings.model_fields["telegram_api_url"].default
#: Seconds that running deliveries get after a stop.
STOP_SECONDS = 5.0


async def serve(settings: Settings) -> None:
    """Run the bot until SIGTERM or SIGINT; SettingsError if the token is missing or invalid."""
    telegram, client, stop = Telegram(settings), connect(settings), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await Bot(BotCore(settings, telegram, client)).run(stop)
    except Unauthorized:
        where = f" (at {settings.telegram_api_url})" if settings.telegram_api_url != _TELEGRAM else ""
        raise SettingsError(
            f"Telegram{where} does not know this TELEGRAM_BOT_TOKEN. Copy it from @BotFather again, or create a new one there."
        ) from None
    finally:
        await telegram.close()
        await client.aclose()


class Bot:
    def __init__(self, core: BotCore) -> None:
        self._core, self._settings, self._telegram, self._state = core, core.settings, core.telegram, core.state
        self._process = process_name()
        self._own_name = f"me-{core.telegram.account}"

    async def run(self, stop: asyncio.Event) -> None:
        if not self._settings.allowed:
            log.warning("ALLOWED_CHATS is empty; write to the bot to learn a chat's id")
        elif min(self._settings.allowed) < 0 and not self._settings.owner_ids:
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
        await until_redis_answers(self._state.lease.refuse_newer)
        while True:
            me = await self._who_we_are()
            await self._take_lease(me)
            try:
                log.info("bot started", bot=me.username, chats=len(self._settings.allowed))
                await self._while_owner(me)
            finally:
                await self._give_back()

    async def _who_we_are(self) -> User:
        """As Telegram said it at an earlier start: then no request stands between a start and the first poll."""
        noted = await until_redis_answers(lambda: self._state.marks.noted(self._own_name))
        try:
            me = User.model_validate_json(noted)
        except ValueError:  # nothing is noted
            return await self._ask_who_we_are()
        self._telegram.session.known = True
        return me

    async def _ask_who_we_are(self) -> User:
        me = await until_telegram_answers(self._telegram.me)
        await until_redis_answers(lambda: self._state.marks.note(self._own_name, me.model_dump_json().encode()))
        return me

    async def _features(self, hooks: Hooks) -> None:
        """What features run; none of it ends the bot when it has ended."""
        await hooks.run(bot_background)
        await asyncio.Event().wait()

    async def _take_lease(self, me: User) -> None:
        logged = False
        while not await until_redis_answers(lambda: self._state.lease.own(self._process)):
            if not logged:
                log.warning("another process is already the bot of this Redis; waiting for it to end", bot=me.username)
            logged = True
            if not await self._freed(await until_redis_answers(self._state.lease.owner)):
                await asyncio.sleep(TAKE_SECONDS)

    async def _freed(self, holder: str) -> bool:
        """Whether the holder of the lease has died on this host; if so, its lease is released."""
        died = died_here(holder)
        if died:
            log.warning("that process has died; taking over", process=holder)
            await until_redis_answers(lambda: self._state.lease.disown(holder))
        return died

    async def _while_owner(self, me: User) -> None:
        """Run until the lease is lost, the bot has another name, or one of the parts ends with an error."""
        core, self._core.me = self._core, me
        delivery, hooks = Delivery(core), features().parts(telegram_bot, core=core)
        arrivals = Arrivals(core, delivery.wake)
        intake = Intake(core, Routes(core, hooks, arrivals), arrivals, delivery.wake)
        own = (self._features(hooks), self._renew(), self._catch_up(me))
        parts = [asyncio.create_task(part) for part in (intake.run(), arrivals.run(), *delivery.parts(), *own)]
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
            if not await until_redis_answers(lambda: self._state.lease.own(self._process)):
                log.error("another process took over the lease of the bot; this one stops")
                return

    async def _catch_up(self, me: User) -> None:
        """What nobody waits for at a start. Ends when the bot has got another name at Telegram."""
        if (await self._ask_who_we_are()).username != me.username:
            log.info("the bot has another name at Telegram now", was=me.username)
            return
        await set_menus(self._telegram, self._state.marks, me.id)
        await asyncio.Event().wait()

    async def _give_back(self) -> None:
        try:
            await self._state.lease.disown(self._process)
        except redis.RedisError as error:
            log.warning("the lease of the bot could not be released; it expires by itself", error=str(error))


async def set_menus(telegram: Telegram, marks: ChatMarks, bot: int) -> None:
    """Set the menus of this bot unless they were set as they are now. One that Telegram refuses is logged, and tried again at the next start."""
    wanted = menus()
    name, mark = f"menus-{bot}", digest(dumps(wanted).decode())
    if await until_redis_answers(lambda: marks.noted(name)) == mark.encode():
        return
    refused = False
    for language, commands in wanted.items():
        try:
            await when_telegram_has_time(lambda: telegram.set_menu(language, commands))  # noqa: B023 - awaited immediately
        except TelegramError as error:
            refused = True
            log.warning(
                "Telegram refused the menu of commands; they work without it", language=language, error=str(error)
            )
    if not refused:
        await until_redis_answers(lambda: marks.note(name, mark.encode()))
