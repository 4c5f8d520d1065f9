"""The bot at Telegram: its token, proven; the chat of its owner, found by a first message; and ours to that chat."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from dispatcher.installation.init.in_progress import InstallationInProgress
from shared.config.settings import Settings
from shared.errors import InstallationIncomplete

Found = TypeVar("Found")

#: Seconds that the owner has to write to the bot.
HELLO_SECONDS = 900.0
#: Failed requests in a row after which Telegram counts as unreachable.
TRIES = 5
READY = (
    "Hello, I am ready. Write to me as you would to a person: I answer now, and from tomorrow on I remember what we said. "
    "/help shows what I understand."
)


def prove_token(settings: Settings) -> str:
    """The bot's name at Telegram (getMe). ValueError if the token is wrong, InstallationIncomplete if Telegram cannot be reached."""

    async def ask(telegram: Any) -> str:
        return f"@{(await telegram.bot.get_me()).username}"

    return _with_telegram(settings, ask)


def wait_for_hello(installation: InstallationInProgress, bot: str, code: str) -> tuple[int, str]:
    """(chat, how Telegram calls who wrote) of the first message of a private chat that holds this number. It is confirmed to Telegram with all
    before it, so the bot never gets it."""
    with installation.terminal.busy("Waiting for your message"):

        async def ask(telegram: Any) -> tuple[int, str]:
            from dispatcher.bots.telegram.client import until_telegram_takes_it

            end = time.monotonic() + HELLO_SECONDS
            while time.monotonic() < end:
                updates = await until_telegram_takes_it(lambda: telegram.updates(None, seconds=5), TRIES)
                if updates:  # waiting ones come at once, again and again
                    await asyncio.sleep(1.0)
                for update in updates:
                    if hello := _hello(update, code):
                        await until_telegram_takes_it(partial(telegram.updates, int(update["update_id"]) + 1, 0), TRIES)
                        return hello
            raise InstallationIncomplete(
                f"Nobody wrote to {bot} within {HELLO_SECONDS / 60:.0f} minutes. Run hmem init again, and write to it then."
            )

        return _with_telegram(installation.settings(), ask)


def send(settings: Settings, chat: int, text: str) -> None:
    from dispatcher.bots.telegram.rendering import MessagePart

    async def ask(telegram: Any) -> None:
        await telegram.send(chat, MessagePart(text, []))

    _with_telegram(settings, ask)


def _hello(update: dict[str, Any], code: str) -> tuple[int, str] | None:
    """A private chat has its person's number; a group's is negative."""
    message = update.get("message") or {}
    person, chat = message.get("from") or {}, message.get("chat") or {}
    if person.get("is_bot", True) or chat.get("id", 0) <= 0 or code not in (message.get("text") or ""):
        return None
    name = " ".join(filter(None, (person.get("first_name"), person.get("last_name"))))
    name += f" (@{person['username']})" if person.get("username") else ""
    return int(chat["id"]), "".join(filter(str.isprintable, name))


def _with_telegram(settings: Settings, ask: Callable[[Any], Awaitable[Found]]) -> Found:
    from dispatcher.bots.telegram.client import Telegram  # first: it defers what aiogram's import would do

    from aiogram.exceptions import TelegramAPIError, TelegramConflictError, TelegramUnauthorizedError  # isort: skip

    async def run() -> Found:
        telegram = Telegram(settings)
        try:
            return await ask(telegram)
        finally:
            with suppress(Exception):
                await telegram.session.close()

    try:
        return asyncio.run(run())
    except TelegramUnauthorizedError:
        raise ValueError("Telegram does not know this token. Copy it from @BotFather (/mybots, API Token)") from None
    except TelegramConflictError:
        raise InstallationIncomplete(
            "Another program receives this bot's messages already (or a webhook is set), so hmem init cannot wait for one. Stop it, "
            "or set ALLOWED_CHATS to the number of your chat; then run hmem init again."
        ) from None
    except TelegramAPIError as error:
        why = re.sub(
            r"^\w+Error: | ssl:default", "", error.message
        )  # the library puts the class of its own error first
        raise InstallationIncomplete(
            f"Telegram at {settings.telegram_api_url} does not answer: {why}. Check network and proxy, then run hmem init again."
        ) from None
