"""The Bot API through aiogram. Its errors become ours here, without the token.

aiogram's exceptions may contain the URL of a request, and with it the token: they are not chained (`from None`), and the token is removed from
their text. Updates are fetched as plain objects and parsed one by one, so that an unreadable one does not block the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import structlog
from aiogram import Bot
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    AiogramError,
    ClientDecodeError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.methods import (
    AnswerCallbackQuery,
    DeleteWebhook,
    EditMessageReplyMarkup,
    EditMessageText,
    GetFile,
    GetMe,
    SendChatAction,
    SendDocument,
    SendMessage,
    SendMessageDraft,
    SetMyCommands,
)
from aiogram.methods.base import TelegramMethod
from aiogram.types import (
    BotCommand,
    BufferedInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    ReplyParameters,
    User,
)
from aiogram.utils.token import TokenValidationError
from aiohttp import ClientError, ClientResponseError

from dispatcher.bots.telegram.incoming.poll_pause import PollPause
from dispatcher.bots.telegram.outgoing.rendering import MessagePart
from dispatcher.bots.telegram.session import GetUpdates, TelegramSession
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.text.translations import ENGLISH
from shared.turns.records import well_formed

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

Value = TypeVar("Value")


class TelegramError(Exception):
    """A request failed."""


class Unreachable(TelegramError):
    """The network, or Telegram itself, is in trouble. The request may have had its effect."""


class Flood(TelegramError):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many requests, next attempt in {seconds:g} s")
        self.seconds = seconds


class PolledElsewhere(TelegramError):
    """Another process asks for updates with this token."""


class WebhookSet(PolledElsewhere):
    """A webhook is set: until it is deleted, Telegram hands out no updates."""


class Gone(TelegramError):
    """The bot was blocked, or removed from the chat."""


class Moved(TelegramError):
    def __init__(self, chat: int) -> None:
        super().__init__(f"the group is chat {chat} now")
        self.chat = chat


class Refused(TelegramError):
    """Telegram rejected the request itself; the text is Telegram's."""


class Unsupported(TelegramError):
    """This Bot API does not have the method."""


class FileTooLarge(TelegramError):
    """A file is larger than is wanted, or than Telegram gives to bots."""


class FileGone(TelegramError):
    """Telegram does not have the file (any more)."""


class Unauthorized(TelegramError):
    """The token is not known to Telegram."""


class Telegram:
    """One bot at the Bot API."""

    def __init__(self, settings: Settings) -> None:
        if settings.telegram_bot_token is None:
            raise SettingsError("TELEGRAM_BOT_TOKEN is not set, so the bot cannot start. Get a token from @BotFather.")
        self._token = settings.telegram_bot_token.get_secret_value().strip()
        self.known = False  # Telegram has accepted the token
        self.account = hashlib.sha256(self._token.encode()).hexdigest()[:32]  # tells tokens apart
        self._pause = PollPause()
        server = TelegramAPIServer.from_base(settings.telegram_api_url)
        try:
            self._bot = Bot(self._token, TelegramSession(api=server, json_loads=_loads, timeout=REQUEST_SECONDS))
        except TokenValidationError:
            raise SettingsError(
                "TELEGRAM_BOT_TOKEN is not a bot token: one looks like 123456:ABC-DEF. Copy it from @BotFather."
            ) from None

    async def close(self) -> None:
        await self._bot.session.close()

    async def me(self) -> User:
        me = await self._ask(GetMe())
        self.known = True
        return me

    async def delete_webhook(self) -> None:
        await self._ask(DeleteWebhook())

    async def set_menu(self, language: str, commands: dict[str, str]) -> None:
        """Set the menu of commands (name → what it does) for people whose Telegram speaks this language; English is for all others, too."""
        menu = [BotCommand(command=name, description=what) for name, what in commands.items()]
        await self._ask(SetMyCommands(commands=menu, language_code=None if language == ENGLISH else language))

    async def updates(self, offset: int | None, seconds: int = POLL_SECONDS) -> list[dict[str, Any]]:
        """Updates from an offset on, for which Telegram waits at most this long; this confirms those before it, so they do not come again."""
        await asyncio.sleep(self._pause.before(offset))
        began = time.monotonic()
        method = GetUpdates(offset=offset, timeout=seconds, allowed_updates=UPDATES)
        found = await self._ask(method, seconds + REQUEST_SECONDS)
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
        method = SendMessage(
            chat_id=chat,
            text=part.text,
            entities=_entities(part),
            message_thread_id=thread,
            link_preview_options=_NO_PREVIEW,
            reply_parameters=_reply(reply_to),
            reply_markup=_keyboard(buttons),
        )
        return await self._sent(method)

    async def draft(self, chat: int, draft: int, part: MessagePart, thread: int | None, seconds: int) -> None:
        """Show a text that is not a message yet, in a private chat, in place of the draft of the same id. Unsupported before Bot API 9.3."""
        method = SendMessageDraft(
            chat_id=chat, draft_id=draft, text=part.text, entities=_entities(part), message_thread_id=thread
        )
        try:
            await self._bot(method, request_timeout=seconds)
        except TelegramNotFound:
            raise Unsupported("this Bot API has no sendMessageDraft") from None
        except (AiogramError, OSError, UnicodeError) as error:
            raise self._ours(error) from None

    async def send_document(
        self, chat: int, content: bytes, name: str, *, thread: int | None = None, reply_to: int | None = None
    ) -> int:
        """Send a file under this name; the message's id, or NO_ID."""
        method = SendDocument(
            chat_id=chat,
            document=BufferedInputFile(content, name),
            message_thread_id=thread,
            disable_content_type_detection=True,
            reply_parameters=_reply(reply_to),
        )
        return await self._sent(method, FILE_SECONDS)

    async def edit(
        self, chat: int, message: int, part: MessagePart, buttons: ButtonRows = (), seconds: int = REQUEST_SECONDS
    ) -> None:
        """Replace a message, and its buttons."""
        await self._ask(
            EditMessageText(
                chat_id=chat,
                message_id=message,
                text=part.text,
                entities=_entities(part),
                link_preview_options=_NO_PREVIEW,
                reply_markup=_keyboard(buttons),
            ),
            seconds,
        )

    async def remove_buttons(self, chat: int, message: int) -> None:
        """Remove the buttons below a message; the message stays."""
        await self._ask(EditMessageReplyMarkup(chat_id=chat, message_id=message))

    async def answer_press(self, press: str, text: str = "") -> None:
        """End the waiting sign of a pressed button; a text is shown for a moment."""
        await self._ask(AnswerCallbackQuery(callback_query_id=press, text=text or None))

    async def download(self, file_id: str, most: int) -> bytes:
        """The bytes of a file; FileTooLarge above `most`, which is also checked while they come, and FileGone."""
        try:
            found = await self._ask(GetFile(file_id=file_id))
        except Refused as error:
            raise (FileTooLarge if "too big" in str(error) else FileGone)(str(error)) from None
        if (found.file_size or 0) > most:
            raise FileTooLarge(f"{found.file_size} bytes")
        if not found.file_path:
            raise FileGone("Telegram names no path")
        session = self._bot.session
        content = bytearray()
        try:
            url = session.api.file_url(self._token, found.file_path)
            async for part in session.stream_content(url, timeout=FILE_SECONDS, chunk_size=FILE_PART_BYTES):
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

    async def typing(self, chat: int, thread: int | None) -> None:
        await self._ask(SendChatAction(chat_id=chat, action="typing", message_thread_id=thread))

    async def _sent(self, method: TelegramMethod[Message], seconds: int = REQUEST_SECONDS) -> int:
        """Send a message; its id. Telegram may have taken it without a readable id: then it is not sent again, and the id is NO_ID."""
        result: Any = await self._ask(method, seconds)
        message = result.get("message_id") if isinstance(result, dict) else None
        if isinstance(message, int) and message > 0:
            return message
        log.warning("Telegram took a message and did not say which one it is", method=method.__api_method__)
        return NO_ID

    async def _ask(self, method: TelegramMethod[Value], seconds: int = REQUEST_SECONDS) -> Value:
        try:
            return await self._bot(method, request_timeout=seconds)
        except (AiogramError, OSError, UnicodeError) as error:
            raise self._ours(error) from None

    def _ours(self, error: Exception) -> TelegramError:
        if isinstance(error, TelegramRetryAfter):
            return Flood(max(1, error.retry_after))
        if isinstance(error, TelegramMigrateToChat):
            return Moved(error.migrate_to_chat_id)
        if isinstance(error, ClientDecodeError):  # its text contains what people wrote
            return Unreachable("Telegram's response cannot be read")
        text = (str(error) or type(error).__name__).replace(self._token, "(token)")
        kinds: tuple[tuple[type[Exception] | tuple[type[Exception], ...], type[TelegramError]], ...] = (
            (TelegramUnauthorizedError, Unauthorized),
            (
                TelegramNotFound,
                Unreachable if self.known else Unauthorized,
            ),  # from a known token: a fault in between
            (TelegramConflictError, WebhookSet if "webhook" in text else PolledElsewhere),
            (TelegramForbiddenError, Gone),
            ((TelegramBadRequest, TelegramEntityTooLarge), Refused),
        )
        return next((ours for theirs, ours in kinds if isinstance(error, theirs)), Unreachable)(text[:300])


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
