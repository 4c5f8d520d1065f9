"""The Bot API through aiogram: what the bot asks of it, and how requests are repeated.

Errors are aiogram's, of `TelegramAPIError`, without the token, which those of the network may name.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeVar

import redis
from aiogram import Bot
from aiogram.client.default import DefaultBotProperties
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods import GetFile, GetMe, Response
from aiogram.methods.base import TelegramMethod
from aiogram.types import (
    BufferedInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
)
from aiohttp import ClientError, ClientResponseError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from dispatcher.bots.telegram.rendering import MessagePart
from shared.config.settings import Settings
from shared.config.values import bot_token
from shared.errors import SettingsError
from shared.text.logs import Logger
from shared.turns.records import well_formed

log = Logger()
Value = TypeVar("Value")


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
#: What Telegram says about a file that bots cannot have, and what we say about one that is too large for us.
TOO_BIG = "file is too big"


class TelegramSession(AiohttpSession):
    """Takes Telegram's word for it: once it has said `"ok": true`, a request has succeeded, whatever the rest of the answer is.

    The result of a method that has an effect is plain JSON; None where it cannot be read. An answer that says neither yes nor no, such as the page
    of a proxy, is a TelegramServerError even with status 200: it is not Telegram's, so the request is repeated as after a lost connection.
    """

    known = False  # Telegram has accepted the token
    #: Group → the supergroup that it has become, to which its requests go.
    moved: Mapping[int, int] = MappingProxyType({})

    async def make_request(self, bot: Bot, method: TelegramMethod[Any], timeout: int | None = None) -> Any:
        if (to := self.moved.get(getattr(method, "chat_id", None) or 0)) is not None:
            method = method.model_copy(update={"chat_id": to})
        try:
            result = await super().make_request(bot, method, timeout)
        except UnicodeDecodeError as error:
            result = self.check_response(bot, method, HTTPStatus.OK, error.object.decode("utf-8", "replace")).result
        except TelegramNetworkError as error:
            raise TelegramNetworkError(method, error.message.replace(bot.token, "(token)")) from None
        except TelegramNotFound as error:
            if self.known:  # a fault in between, or no such method
                raise
            raise TelegramUnauthorizedError(method, error.message) from None
        self.known = True
        return result

    def check_response(self, bot: Bot, method: TelegramMethod[Any], status_code: int, content: str) -> Response[Any]:
        reading = isinstance(method, _READING)
        if not reading and (success := _success(content)):
            return success
        if status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:  # in the words of a proxy, perhaps
            raise TelegramBadRequest(method, "Request Entity Too Large")
        try:
            response = super().check_response(bot, method if reading else _Anything(), status_code, content)
        except (ClientDecodeError, TypeError):
            response = None  # aiogram's text has what people wrote; it looks into a missing description
        except TelegramAPIError as error:
            if type(error) is not TelegramAPIError:
                raise
            response = None  # neither a yes nor a reason
        if response is None or response.result is None:
            raise TelegramServerError(method, "the response cannot be read") from None
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


#: Seconds for which Telegram holds a request for updates, and that any request may take in addition.
POLL_SECONDS = 50
REQUEST_SECONDS = 20
#: Seconds between two polls of a server that does not hold them.
UNHELD_SECONDS = 3
#: How long a file may take.
FILE_SECONDS = 300
UPDATES = ["message", "edited_message", "callback_query"]

#: The id of a message that Telegram took without saying which one it is. Telegram itself writes it for a message that it sends later.
NO_ID = 0

#: Rows of buttons: what each shows, and what Telegram returns at a press.
ButtonRows = Sequence[Sequence[tuple[str, str]]]

#: Links in an answer get no preview: the fetch could leak data that a message made the model put into the link.
_EVERYWHERE = DefaultBotProperties(link_preview=LinkPreviewOptions(is_disabled=True), allow_sending_without_reply=True)


class Telegram:
    """One bot at the Bot API; `bot` is aiogram's."""

    def __init__(self, settings: Settings) -> None:
        if settings.telegram_bot_token is None:
            raise SettingsError("TELEGRAM_BOT_TOKEN is not set, so the bot cannot start. Get a token from @BotFather.")
        server = TelegramAPIServer.from_base(settings.telegram_api_url)
        try:
            token = bot_token(settings.telegram_bot_token.get_secret_value())
        except ValueError as error:
            raise SettingsError(f"{error}. Copy it from @BotFather.") from None
        self.session = TelegramSession(api=server, json_loads=_loads, timeout=REQUEST_SECONDS)
        self.bot = Bot(token, self.session, _EVERYWHERE)

    async def updates(self, offset: int | None, seconds: int) -> list[dict[str, Any]]:
        """Updates from an offset on, for which Telegram waits at most this long; this confirms those before it, so they do not come again."""
        began = time.monotonic()
        method = GetUpdates(offset=offset, timeout=seconds, allowed_updates=UPDATES)
        found = await self.bot(method, seconds + REQUEST_SECONDS)
        if not found and time.monotonic() - began < seconds / 2:
            await asyncio.sleep(UNHELD_SECONDS)
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
            reply_parameters=_reply(reply_to),
            reply_markup=_keyboard(buttons),
        )
        # Telegram may have taken it without a readable id: then it is not sent again.
        message = sent.get("message_id") if isinstance(sent, dict) else None
        if isinstance(message, int) and message > 0:
            return message
        log.warning("Telegram took a message and did not say which one it is")
        return NO_ID

    async def draft(self, chat: int, draft: int, part: MessagePart, thread: int | None, seconds: int) -> None:
        """Show a text that is not a message yet, in a private chat, in place of the draft of the same id. TelegramNotFound before Bot API 9.3."""
        await self.bot.send_message_draft(
            chat, draft, thread, part.text, entities=_entities(part), request_timeout=seconds
        )

    async def send_document(
        self, chat: int, content: bytes, name: str, thread: int | None, reply_to: int | None
    ) -> None:
        """Send a file under this name."""
        await self.bot.send_document(
            chat,
            BufferedInputFile(content, name),
            message_thread_id=thread,
            disable_content_type_detection=True,
            reply_parameters=_reply(reply_to),
            request_timeout=FILE_SECONDS,
        )

    async def edit(
        self, chat: int, message: int, part: MessagePart, buttons: ButtonRows = (), seconds: int = REQUEST_SECONDS
    ) -> None:
        """Replace a message, and its buttons."""
        await self.bot.edit_message_text(
            part.text,
            chat_id=chat,
            message_id=message,
            entities=_entities(part),
            reply_markup=_keyboard(buttons),
            request_timeout=seconds,
        )

    async def download(self, file_id: str, most: int) -> bytes:
        """The bytes of a file. TelegramBadRequest if there is none (any more), with TOO_BIG if it has more than `most` of them."""
        method = GetFile(file_id=file_id)
        found = await self.bot(method)
        content = bytearray()
        try:
            url = self.session.api.file_url(self.bot.token, found.file_path or "")
            async for part in self.session.stream_content(url, timeout=FILE_SECONDS):
                content += part
                if len(content) > most:
                    raise TelegramBadRequest(method, TOO_BIG)
        except ClientResponseError as error:  # its text has the address, and with it the token
            kind = TelegramBadRequest if error.status in (400, 404, 410) else TelegramServerError
            raise kind(method, f"status {error.status}") from None
        except (ClientError, OSError) as error:
            raise TelegramNetworkError(method, f"the file broke off ({type(error).__name__})") from None
        if found.file_size is not None and len(content) != found.file_size:
            raise TelegramNetworkError(method, f"{len(content)} of {found.file_size} bytes came")
        return bytes(content)


def _reply(to: int | None) -> ReplyParameters | None:
    return ReplyParameters(message_id=to) if to else None


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


# Redis and Telegram come back, and what was accepted waits for them.

#: Errors of Telegram that another attempt may not meet; the request may have had its effect.
PASSING = (TelegramRetryAfter, TelegramNetworkError, TelegramServerError, TelegramNotFound)
#: Seconds between two attempts while another process polls with the same token, and the most in all other cases.
ELSEWHERE_SECONDS, LONGEST_SECONDS = 5, 30
_BACKING_OFF = wait_random_exponential(multiplier=0.2, max=LONGEST_SECONDS)


async def until_redis_answers(call: Callable[[], Awaitable[Value]]) -> Value:
    """Repeat the call until Redis answers. Every call may be repeated: each is one script, or only reads."""
    return await _until(call, redis.RedisError, TimeoutError)


async def until_telegram_takes_it(call: Callable[[], Awaitable[Value]], attempts: float = math.inf) -> Value:
    """Returns the answer, or raises an error that another attempt would not change, or that of the last one."""
    return await _until(call, *PASSING, attempts=attempts)


async def until_telegram_answers(call: Callable[[], Awaitable[Value]]) -> Value:
    """The same for calls that concern no chat: there only the token can be refused."""
    return await _until(call, TelegramAPIError)


async def _until(
    call: Callable[[], Awaitable[Value]], *passing: type[BaseException], attempts: float = math.inf
) -> Value:
    async for attempt in AsyncRetrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, passing) and not isinstance(error, TelegramUnauthorizedError)
        ),
        stop=lambda state: state.attempt_number >= attempts,
        wait=_wait,
        before_sleep=_log_retry,
        reraise=True,
    ):
        with attempt:
            return await call()
    raise AssertionError("the last attempt returns or raises")


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _wait(state: RetryCallState) -> float:
    error = _error(state)
    if isinstance(error, TelegramRetryAfter):
        return error.retry_after
    return ELSEWHERE_SECONDS if isinstance(error, TelegramConflictError) else _BACKING_OFF(state)


def _log_retry(state: RetryCallState) -> None:
    error, seconds = _error(state), round(state.upcoming_sleep, 1)
    if isinstance(error, TelegramConflictError):
        log.error("another process polls with this token, or a webhook is set; stop or remove it", again_in=seconds)
    elif isinstance(error, TelegramAPIError):
        log.warning("Telegram does not accept a request now, trying again", error=str(error), again_in=seconds)
    else:
        log.error("Redis does not answer, trying again", error=str(error), again_in=seconds)
