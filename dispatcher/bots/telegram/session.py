"""How an answer of the Bot API is read."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.exceptions import AiogramError, ClientDecodeError, TelegramEntityTooLarge
from aiogram.methods import GetFile, GetMe, Response
from aiogram.methods.base import TelegramMethod

from dispatcher.bots.telegram.errors import telegram_error


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
