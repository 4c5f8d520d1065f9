"""The menu of commands that Telegram shows, in each language: set while the bot works already, and only if it is new."""

from __future__ import annotations

import structlog

from dispatcher.bots.telegram.client import Telegram
from dispatcher.bots.telegram.commands.answers import menus
from dispatcher.bots.telegram.errors import TelegramError
from dispatcher.bots.telegram.retry import until_redis_answers, when_telegram_has_time
from dispatcher.bots.telegram.state import ChatMarks, digest
from shared.turns.records import dumps

log = structlog.get_logger()


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
