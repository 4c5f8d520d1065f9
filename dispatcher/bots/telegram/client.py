"""The Bot API through aiogram: what the bot asks of it, and how long it waits between polls. Its errors are ours (errors.py)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import structlog
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import AiogramError, ClientDecodeError, TelegramEntityTooLarge
from aiogram.methods import GetFile, GetMe, Response
from aiogram.methods.base import TelegramMethod
from aiogram.types import (
    BotCommand,
    BufferedInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
    User,
)
from aiogram.utils.token import TokenValidationError
from aiohttp import ClientError, ClientResponseError

from dispatcher.bots.telegram.errors import FileGone, FileTooLarge, Refused, Unreachable, telegram_error
from dispatcher.bots.telegram.outgoing.rendering import MessagePart
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.text.translations import ENGLISH
from shared.turns.records import well_formed


class GetUpdates(TelegramMethod[list[dict[str, Any]]]):
    """aiogram's own would refuse all updates because of one that it cannot read."""

    __returning__ = list[dict[str, Any]]
    __api_method__ = "getUpdates"

    offset: int | None = None
    timeout: int
    allowed_updates: list[str]


class _Anything(TelegramMethod[Any]):
    __returning__ = Any
    __api_method__ = ""


#: Methods whose result has to be readable. All others have an effect, and of that nothing has to be read.
_READING = (GetMe, GetFile, GetUpdates)
_OK = re.compile(r'\s*\{\s*"ok"\s*:\s*true\b')


class TelegramSession(AiohttpSession):
    """Takes Telegram's word for it: once it has said `"ok": true`, a request has succeeded, whatever the rest of the answer is.

    The result of a method that has an effect is plain JSON; None where it cannot be read. An answer that says neither yes nor no, such as the page
    of a proxy, raises ClientDecodeError even with status 200: it is not Telegram's, so the request is repeated as after a lost connection.
    """

    known = False  # Telegram has accepted the token

    async def make_request(self, bot: Bot, method: TelegramMethod[Any], timeout: int | None = None) -> Any:
        """TelegramError for everything that goes wrong."""
        try:
            return await self._request(bot, method, timeout)
        except (AiogramError, OSError, UnicodeError) as error:
            raise telegram_error(error, bot.token, known=self.known) from None

    async def _request(self, bot: Bot, method: TelegramMethod[Any], timeout: int | None) -> Any:
        try:
            return await super().make_request(bot, method, timeout)
        except UnicodeDecodeError as error:
            text = error.object.decode("utf-8", "replace")
            return self.check_response(bot, method, HTTPStatus.OK, text).result

    def check_response(self, bot: Bot, method: TelegramMethod[Any], status_code: int, content: str) -> Response[Any]:
        reading = isinstance(method, _READING)
        try:
            response = super().check_response(bot, method if reading else _Anything(), status_code, content)
        except (AiogramError, TypeError) as error:
            if not reading and (success := _success(content)):
                return success
            if status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:  # in the words of a proxy, perhaps
                raise TelegramEntityTooLarge(method=method, message="Request Entity Too Large") from None
            if isinstance(error, TypeError):  # aiogram looks into a description that is not there
                raise ClientDecodeError("no description", error, None) from None
            raise
        if reading and response.result is None:
            raise ClientDecodeError("no result", ValueError(), None)
        return response


def _success(content: str) -> Response[Any] | None:
    """An answer that says `"ok": true`; None for any other. Where it is not JSON, for instance because it was cut off, its beginning counts."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        said = {"ok": True} if _OK.match(content) else None
    if isinstance(said, dict) and said.get("ok") is True:
        return Response[Any](ok=True, result=said.get("result"))
    return None


#: Seconds of the first pause (they double), and of the longest.
FIRST_SECONDS, LONGEST_SECONDS = 0.1, 3.0


class PollPause:
    """A pause before a poll that only repeats the last: Telegram holds a poll until there is something, other servers may not. One per bot."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._early = False
        self._seconds = 0.0

    def before(self, offset: int | None) -> float:
        """Seconds to wait before updates are asked for from this offset on: some, if the last answer came at once and moved it no further."""
        again = self._early and offset == self._offset
        self._seconds = min(LONGEST_SECONDS, max(FIRST_SECONDS, 2 * self._seconds)) if again else 0.0
        self._offset = offset
        return self._seconds

    def answered(self, after: float, asked: float) -> None:
        """The answer came after so many of the seconds that were asked for."""
        self._early = after < min(LONGEST_SECONDS, asked / 2)


log = structlog.get_logger()

#: Seconds for which Telegram holds a request for updates, and that any request may take in addition.
POLL_SECONDS = 50
REQUEST_SECONDS = 20
#: How much of a file is read at once.
FILE_PART_BYTES = 65_536
#: How long a file may take.
FILE_SECONDS = 300
UPDATES = ["message", "edited_message", "callback_query"]

#: The id of a message that Telegram took without saying which one it is. Telegram itself writes it for a message that it sends later.
NO_ID = 0

#: Rows of buttons: what each shows, and what Telegram returns at a press.
ButtonRows = Sequence[Sequence[tuple[str, str]]]

#: Links in an answer get no preview: the fetch could leak data that a message made the model put into the link.
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


class Telegram:
    """One bot at the Bot API."""

    def __init__(self, settings: Settings) -> None:
        if settings.telegram_bot_token is None:
            raise SettingsError("TELEGRAM_BOT_TOKEN is not set, so the bot cannot start. Get a token from @BotFather.")
        self._token = settings.telegram_bot_token.get_secret_value().strip()
        self.account = hashlib.sha256(self._token.encode()).hexdigest()[:32]  # tells tokens apart
        self._pause = PollPause()
        server = TelegramAPIServer.from_base(settings.telegram_api_url)
        try:
            self.session = TelegramSession(api=server, json_loads=_loads, timeout=REQUEST_SECONDS)
            self.bot = Bot(self._token, self.session)
        except TokenValidationError:
            raise SettingsError(
                "TELEGRAM_BOT_TOKEN is not a bot token: one looks like 123456:ABC-DEF. Copy it from @BotFather."
            ) from None

    async def close(self) -> None:
        await self.session.close()

    async def me(self) -> User:
        me = await self.bot.get_me()
        self.session.known = True
        return me

    async def set_menu(self, language: str, commands: dict[str, str]) -> None:
        """Set the menu of commands (name → what it does) for people whose Telegram speaks this language; English is for all others, too."""
        menu = [BotCommand(command=name, description=what) for name, what in commands.items()]
        await self.bot.set_my_commands(menu, language_code=None if language == ENGLISH else language)

    async def updates(self, offset: int | None, seconds: int) -> list[dict[str, Any]]:
        """Updates from an offset on, for which Telegram waits at most this long; this confirms those before it, so they do not come again."""
        await asyncio.sleep(self._pause.before(offset))
        began = time.monotonic()
        method = GetUpdates(offset=offset, timeout=seconds, allowed_updates=UPDATES)
        found = await self.bot(method, seconds + REQUEST_SECONDS)
        self._pause.answered(time.monotonic() - began, seconds)
        return found

    async def send(
        self,
        chat: int,
        part: MessagePart,
        *,
        thread: int | None = None,
        reply_to: int | None = None,
        buttons: ButtonRows = (),
    ) -> int:
        """Send a message; its id, or NO_ID."""
        sent = await self.bot.send_message(
            chat,
            part.text,
            entities=_entities(part),
            message_thread_id=thread,
            link_preview_options=_NO_PREVIEW,
            reply_parameters=_reply(reply_to),
            reply_markup=_keyboard(buttons),
        )
        return _id_of(sent)

    async def draft(self, chat: int, draft: int, part: MessagePart, thread: int | None, seconds: int) -> None:
        """Show a text that is not a message yet, in a private chat, in place of the draft of the same id. NotThere before Bot API 9.3."""
        await self.bot.send_message_draft(
            chat, draft, thread, part.text, entities=_entities(part), request_timeout=seconds
        )

    async def send_document(
        self, chat: int, content: bytes, name: str, *, thread: int | None = None, reply_to: int | None = None
    ) -> int:
        """Send a file under this name; the message's id, or NO_ID."""
        sent = await self.bot.send_document(
            chat,
            BufferedInputFile(content, name),
            message_thread_id=thread,
            disable_content_type_detection=True,
            reply_parameters=_reply(reply_to),
            request_timeout=FILE_SECONDS,
        )
        return _id_of(sent)

    async def edit(
        self, chat: int, message: int, part: MessagePart, buttons: ButtonRows = (), seconds: int = REQUEST_SECONDS
    ) -> None:
        """Replace a message, and its buttons."""
        await self.bot.edit_message_text(
            part.text,
            chat_id=chat,
            message_id=message,
            entities=_entities(part),
            link_preview_options=_NO_PREVIEW,
            reply_markup=_keyboard(buttons),
            request_timeout=seconds,
        )

    async def download(self, file_id: str, most: int) -> bytes:
        """The bytes of a file; FileTooLarge above `most`, which is also checked while they come, and FileGone."""
        try:
            found = await self.bot.get_file(file_id)
        except Refused as error:
            raise (FileTooLarge if "too big" in str(error) else FileGone)(str(error)) from None
        if (found.file_size or 0) > most:
            raise FileTooLarge(f"{found.file_size} bytes")
        if not found.file_path:
            raise FileGone("Telegram names no path")
        content = bytearray()
        try:
            url = self.session.api.file_url(self._token, found.file_path)
            async for part in self.session.stream_content(url, timeout=FILE_SECONDS, chunk_size=FILE_PART_BYTES):
                content += part
                if len(content) > most:
                    raise FileTooLarge(f"more than {most} bytes")
        except ClientResponseError as error:  # its text has the address, and with it the token
            raise (FileGone if error.status in (400, 404, 410) else Unreachable)(f"status {error.status}") from None
        except (ClientError, OSError) as error:
            raise Unreachable(f"the file broke off ({type(error).__name__})") from None
        if found.file_size is not None and len(content) != found.file_size:
            raise Unreachable(f"{len(content)} of {found.file_size} bytes came")
        return bytes(content)


def _id_of(sent: Any) -> int:
    """Of a message that was sent. Telegram may have taken it without a readable id: then it is not sent again, and the id is NO_ID."""
    message = sent.get("message_id") if isinstance(sent, dict) else None
    if isinstance(message, int) and message > 0:
        return message
    log.warning("Telegram took a message and did not say which one it is")
    return NO_ID


def _reply(to: int | None) -> ReplyParameters | None:
    return ReplyParameters(message_id=to, allow_sending_without_reply=True) if to else None


def _entities(part: MessagePart) -> list[MessageEntity] | None:
    return [MessageEntity(**entity) for entity in part.entities] or None


def _keyboard(rows: ButtonRows) -> InlineKeyboardMarkup | None:
    made = [[InlineKeyboardButton(text=label, callback_data=data) for label, data in row] for row in rows]
    return InlineKeyboardMarkup(inline_keyboard=made) if made else None


def _loads(text: str) -> Any:
    """Parse JSON; a lone surrogate, which later code cannot handle, becomes U+FFFD."""
    value = json.loads(text)
    joined = json.dumps(value, ensure_ascii=False)
    return value if (whole := well_formed(joined)) is joined else json.loads(whole)
