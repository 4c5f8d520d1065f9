"""`hmem telegram`: one process per Redis, which takes updates (intake.py) and delivers answers (delivery.py) until it is stopped.

The right to do so is a lease in Redis that this process renews. The lease of a dead process of this host is taken over immediately, that of
another host's when it expires. A second process waits for it, whatever its token: there is one queue of deliveries, and Telegram would split
the updates of one token between the two. While Redis is not reachable no other process can take the lease, so its holder continues.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import redis
import structlog
from aiogram.types import User
from redis.asyncio import Redis

from dispatcher.bots.hooks import BotCore, bot_background, telegram_bot
from dispatcher.bots.telegram.chat_marks import ChatMarks
from dispatcher.bots.telegram.client import Telegram, Unauthorized
from dispatcher.bots.telegram.commands.answers import Commands
from dispatcher.bots.telegram.incoming.arrivals import Arrivals
from dispatcher.bots.telegram.incoming.intake import Intake
from dispatcher.bots.telegram.incoming.pressed import Pressed
from dispatcher.bots.telegram.incoming.presses import Presses
from dispatcher.bots.telegram.outgoing.delivery import Delivery
from dispatcher.bots.telegram.outgoing.keyboard import Keyboards
from dispatcher.bots.telegram.outgoing.menus import set_menus
from dispatcher.bots.telegram.outgoing.partials import Partials
from dispatcher.bots.telegram.outgoing.sent_files import SentFiles
from dispatcher.bots.telegram.retry import until_redis_answers, until_telegram_answers
from dispatcher.bots.telegram.state import BotState, connect
from dispatcher.queue.admission import AllowedChats
from dispatcher.queue.rights import Rights
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.hooks import Hooks, features
from shared.system.keys.signing_key import signing_key
from shared.system.processes import died_here, process_name
from shared.wire.media.open import open_media
from shared.wire.media.store import MediaStore

log = structlog.get_logger()

#: Seconds between two renewals of the lease, which lasts three of them; and between two attempts to take it.
RENEW_SECONDS = 10.0
TAKE_SECONDS = 1.0
_TELEGRAM = Settings.model_fields["telegram_api_url"].default
#: Seconds that running deliveries get after a stop.
STOP_SECONDS = 5.0


async def serve(settings: Settings) -> None:
    """Run the bot until SIGTERM or SIGINT; SettingsError if the token is missing or invalid."""
    secret = signing_key(settings, "no answer could be verified")
    telegram, client, stop = Telegram(settings), connect(settings), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    media, marks = open_media(settings, client), ChatMarks(client)
    bot = Bot(settings, telegram, client, BotState(settings, client, secret), marks, media, secret)
    try:
        await bot.run(stop)
    except Unauthorized:
        where = f" (at {settings.telegram_api_url})" if settings.telegram_api_url != _TELEGRAM else ""
        raise SettingsError(
            f"Telegram{where} does not know this TELEGRAM_BOT_TOKEN. Copy it from @BotFather again, or create a new one there."
        ) from None
    finally:
        await telegram.close()
        await client.aclose()


class Bot:
    def __init__(
        self,
        settings: Settings,
        telegram: Telegram,
        client: Redis,
        state: BotState,
        marks: ChatMarks,
        media: MediaStore,
        secret: str,
    ) -> None:
        self._allowed = allowed = AllowedChats(settings.allowed, client)
        self._settings, self._telegram, self._redis, self._state = settings, telegram, client, state
        self._media = media
        self._process = process_name()
        self._own_name = f"me-{telegram.account}"
        self._secret, self._presses, self._marks = secret, Presses(secret), marks
        keyboards = Keyboards(telegram, marks, self._presses)
        self._partials = Partials(telegram, state, keyboards) if settings.stream else None
        files = SentFiles(telegram, media)
        self._delivery = Delivery(telegram, state, allowed, keyboards, files, self._partials)

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
        noted = await until_redis_answers(lambda: self._state.updates.noted(self._own_name))
        try:
            me = User.model_validate_json(noted or b"")
        except ValueError:  # nothing is noted
            return await self._ask_who_we_are()
        self._telegram.known = True
        return me

    async def _ask_who_we_are(self) -> User:
        me = await until_telegram_answers(self._telegram.me)
        await until_redis_answers(
            lambda: self._state.updates.note_for_later(self._own_name, me.model_dump_json().encode())
        )
        return me

    def _parts(self, me: User) -> list[Coroutine[Any, Any, None]]:
        """What runs while this process is the bot."""
        settings, rights = self._settings, Rights(self._settings)
        core = BotCore(
            settings, self._redis, self._secret, self._telegram, self._state, self._allowed, rights, self._presses, me
        )
        hooks = features().parts(telegram_bot, core=core)
        commands = Commands(self._state, rights, hooks)
        pressed = Pressed(self._allowed, self._telegram, self._state, commands, self._presses, hooks, self._marks, me)
        arrivals = Arrivals(settings, self._telegram, self._state, self._media, self._allowed, self._delivery.wake)
        intake = Intake(
            settings, self._telegram, self._state, self._marks, commands, pressed, arrivals, me, self._delivery.wake,
            self._allowed, hooks,
        )  # fmt: skip
        parts = [intake.run(), arrivals.run(), self._delivery.run(), self._features(hooks), self._renew()]
        return [*parts, self._catch_up(me), *([self._partials.run()] if self._partials else [])]

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
        parts = [asyncio.create_task(part) for part in self._parts(me)]
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
            if not await until_redis_answers(lambda: self._state.lease.own(self._process)):
                log.error("another process took over the lease of the bot; this one stops")
                return

    async def _catch_up(self, me: User) -> None:
        """What nobody waits for at a start. Ends when the bot has got another name at Telegram."""
        if (await self._ask_who_we_are()).username != me.username:
            log.info("the bot has another name at Telegram now", was=me.username)
            return
        await set_menus(self._telegram, self._state, me.id)
        await asyncio.Event().wait()

    async def _give_back(self) -> None:
        try:
            await self._state.lease.disown(self._process)
        except redis.RedisError as error:
            log.warning("the lease of the bot could not be released; it expires by itself", error=str(error))
