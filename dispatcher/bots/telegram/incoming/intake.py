"""Intake of updates: each is stored in Redis before it is confirmed to Telegram.

    getUpdates(offset) ─ for each: routes.py ─ one script ─ next offset
                                                 │ the next getUpdates confirms it

After a crash in between, Telegram sends the same updates again; the marks in Redis (`hcli:mem:bot:seen:…`) make the repetition a no-op.
While Redis is not reachable the same update is tried again and again, and nothing is confirmed. An update that cannot be read or that causes an
error is logged and skipped: it would block all others.

aiogram's own polling does not hold to that: it confirms what it has handed to its handlers, although they failed, and it gives up the whole batch
because of an update that it cannot read. So the loop is ours, and each update is fed to aiogram's dispatcher.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import structlog
from aiogram import Bot
from aiogram.types import Update

from dispatcher.bots.telegram.client import POLL_SECONDS
from dispatcher.bots.telegram.core import BotCore
from dispatcher.bots.telegram.errors import TelegramError, WebhookSet
from dispatcher.bots.telegram.incoming.arrivals import Arrivals
from dispatcher.bots.telegram.incoming.routes import Routes
from dispatcher.bots.telegram.retry import until_redis_answers, until_telegram_answers
from shared.system.faults import crash_point

log = structlog.get_logger()

#: Seconds after which a press is answered without a text, whatever Redis does: Telegram shows a waiting sign until then, and forgets the press soon.
ANSWER_SECONDS = 2.0
#: The longest text that is shown for a moment.
TOAST_CHARACTERS = 200


class Intake:
    """`arrived` is called after each update that may have left something to deliver."""

    def __init__(self, core: BotCore, routes: Routes, arrivals: Arrivals, arrived: Callable[[], None]) -> None:
        self._core, self._routes, self._arrivals, self._arrived = core, routes, arrivals, arrived

    async def run(self) -> None:
        """Runs until cancelled, which may happen at any moment."""
        offset, seconds = None, 0
        while True:
            asked = offset, seconds
            updates = await until_telegram_answers(lambda: self._updates(*asked))  # noqa: B023 - awaited immediately
            crash_point("telegram:updates-received")
            captioned = _captioned(updates)
            for update in updates:
                number = update.get("update_id")
                if not isinstance(number, int):
                    continue
                await self._take(number, update, captioned)
                crash_point("telegram:update-taken")
                offset = number + 1
                self._arrived()
            seconds = POLL_SECONDS
            self._arrivals.begun.set()  # the rest of an album that was there before a crash has come

    async def _updates(self, offset: int | None, seconds: int) -> list[dict[str, Any]]:
        try:
            return await self._core.telegram.updates(offset, seconds)
        except WebhookSet:
            log.warning("a webhook is set, so Telegram hands out no updates; it is deleted")
            await self._core.telegram.bot.delete_webhook()
            return await self._core.telegram.updates(offset, seconds)

    async def _take(self, number: int, raw: dict[str, Any], captioned: set[str]) -> None:
        try:
            async with answered_in_time(self._core.telegram.bot, raw.get("callback_query")) as answer_press:
                update = Update.model_validate(raw, context={"bot": self._core.telegram.bot})
                data = {"captioned": captioned, "answer_press": answer_press}
                await until_redis_answers(lambda: self._feed(f"tg-{self._core.me.id}-{number}", update, data))
        except Exception as error:  # noqa: BLE001 - an update that stops us would stop everyone
            log.error("an update could not be processed and is skipped", update=number, error=_where(error))

    async def _feed(self, task_id: str, update: Update, data: dict[str, Any]) -> None:
        """One update; may be repeated."""
        if not await self._core.state.updates.taken(task_id):
            await self._routes.feed_update(self._core.telegram.bot, update, task_id=task_id, **data)


@contextlib.asynccontextmanager
async def answered_in_time(bot: Bot, press: object) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """What ends the waiting sign of a press: in time, and once. Anything but a press has none."""
    press_id = press.get("id") if isinstance(press, dict) else None
    left = [press_id] if isinstance(press_id, str) else []

    async def answer(text: str = "", seconds: float = 0.0) -> None:
        await asyncio.sleep(seconds)
        with contextlib.suppress(TelegramError):  # Telegram forgets a press after a while
            if left:
                await bot.answer_callback_query(left.pop(), text[:TOAST_CHARACTERS] or None)

    timer = asyncio.create_task(answer(seconds=ANSWER_SECONDS))
    try:
        yield answer
        await answer()
    finally:
        timer.cancel()


def _captioned(updates: list[dict[str, Any]]) -> set[str]:
    """Albums of which one of these messages has the caption: other pictures may come before it."""
    messages = [one for update in updates if isinstance(one := update.get("message"), dict) and one.get("caption")]
    return {album for one in messages if isinstance(album := one.get("media_group_id"), str)}


def _where(error: Exception) -> str:
    """What went wrong and where, without the values, which come from people's messages."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        f"{type(error).__name__} in line {frames[-1].lineno} of {frames[-1].filename}" if frames else repr(type(error))
    )
