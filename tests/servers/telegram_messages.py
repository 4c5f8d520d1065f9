"""Texts and entities as Telegram takes them, refuses them and hands them on."""

from __future__ import annotations

import html
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl

LONGEST, LONGEST_CAPTION = 4096, 1024
#: How a PNG begins.
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Call:
    method: str
    params: dict[str, Any]
    at: float  # time.monotonic()
    status: int


@dataclass
class Shown:
    """A message as people in the chat see it. `edits` are its earlier texts."""

    id: int
    text: str
    by_bot: bool
    reply_to: int | None = None
    thread: int | None = None
    silent: bool = False
    entities: list[dict[str, Any]] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    photo: bytes | None = None  # then the text is its caption
    document: tuple[str, bytes] | None = None  # name and content of a file; then the text is its caption
    buttons: list[list[dict[str, str]]] = field(default_factory=list)  # rows of {text, callback_data}


class Garbled(Exception):
    """What is sent in place of an answer."""

    def __init__(self, status: int, content: bytes) -> None:
        super().__init__(content)
        self.status, self.content = status, content


class ApiError(Exception):
    def __init__(self, status: int, description: str, parameters: dict[str, Any] | None = None) -> None:
        super().__init__(description)
        self.status, self.description, self.parameters = status, description, parameters

    def as_json(self) -> dict[str, Any]:
        made = {"ok": False, "error_code": self.status, "description": self.description}
        return made | ({"parameters": self.parameters} if self.parameters else {})


@dataclass
class Fault:
    """What happens to the next `times` calls of a method (in a chat), after `after` of them went through."""

    method: str
    status: int = 500
    description: str = "Internal Server Error"
    chat: int | None = None
    times: int = 1
    after: int = 0
    parameters: dict[str, Any] | None = None
    drop: str = ""  # "before" or "after" the effect, the connection is closed without an answer
    #: Instead, this is sent with `status`; given the result, None before the effect.
    reply: Callable[[Any], bytes] | None = None

    def without_answer(self, result: Any) -> Exception:
        return Garbled(self.status, self.reply(result)) if self.reply else ConnectionAbortedError()


class FloodLimits:
    """Telegram's limits as its FAQ has them, over a sliding window: of a chat a message a second (a short burst is let through), of a group
    twenty a minute, thirty a second in all. An edit and a draft count as a message."""

    def __init__(self) -> None:
        self.refused = 0
        self._at: dict[int | None, list[float]] = {}

    def take(self, chat: int, now: float) -> None:
        """ApiError with `retry_after` where a call goes beyond them."""
        limits: list[tuple[int | None, int, float]] = [(chat, 13, 10.0), (None, 30, 1.0)]
        if chat < 0:
            limits.append((chat, 20, 60.0))
        for one, most, seconds in limits:
            times = [at for at in self._at.get(one, []) if at > now - seconds]
            if len(times) >= most:
                self.refused += 1
                wait = max(1, math.ceil(times[0] + seconds - now))
                raise ApiError(429, f"Too Many Requests: retry after {wait}", {"retry_after": wait})
        for one in (chat, None):
            self._at[one] = [at for at in self._at.get(one, []) if at > now - 60] + [now]


def chat_of(chat: int) -> dict[str, Any]:
    """A chat as an update has it."""
    kind = "private" if chat > 0 else "supergroup" if str(chat).startswith("-100") else "group"
    return {"id": chat, "type": kind} | ({} if chat > 0 else {"title": "Group"})


def message_of(chat: int, message: int, text: str | None, user: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """A message as an update has it; `more` are further fields."""
    made = {"message_id": message, "date": int(time.time()), "chat": chat_of(chat), "from": user}
    if text is not None:
        made["text"] = text
        if text.startswith("/") and "entities" not in more:
            made["entities"] = [command(text)]
    return made | more


def command(text: str) -> dict[str, Any]:
    """The entity of a command at the beginning of a text, as Telegram adds it."""
    return {"type": "bot_command", "offset": 0, "length": utf16_units(text.split()[0])}


def forwarded_from(source: str | dict[str, Any], date: int = 1_790_000_000) -> dict[str, Any]:
    """The origin of a forward: a user, a channel, a group, or a name alone for one who hides the account."""
    if isinstance(source, str):
        return {"type": "hidden_user", "date": date, "sender_user_name": source}
    if source.get("type") == "channel":
        return {"type": "channel", "date": date, "chat": source, "message_id": 5}
    if "type" in source:
        return {"type": "chat", "date": date, "sender_chat": source}
    return {"type": "user", "date": date, "sender_user": source}


def mention(text: str, name: str = "@memory_bot") -> list[dict[str, Any]]:
    """The entity of a name in a text, as Telegram adds it."""
    return [{"type": "mention", "offset": utf16_units(text[: text.index(name)]), "length": utf16_units(name)}]


def utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def text_and_entities(params: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Text and entities as Telegram takes them, or its refusal."""
    text, entities = str(params.get("text") or ""), json.loads(params.get("entities") or "[]")
    if str(params.get("parse_mode") or "").upper() == "HTML":
        text = _without_html(text)
    if not text.strip():
        raise ApiError(400, "Bad Request: message text is empty")
    if utf16_units(text) > LONGEST:
        raise ApiError(400, "Bad Request: message is too long")
    for one in entities:
        if one["offset"] < 0 or one["length"] <= 0 or one["offset"] + one["length"] > utf16_units(text):
            raise ApiError(400, f"Bad Request: can't parse entities: {one['type']} ends outside the text")
        if one["type"] == "text_link" and "://" not in one.get("url", ""):
            raise ApiError(400, "Bad Request: can't parse entities: wrong URL")
    return text, entities


def buttons_of(params: dict[str, Any]) -> list[list[dict[str, str]]]:
    """Rows of buttons as Telegram takes them, or its refusal."""
    rows: list[list[dict[str, str]]] = json.loads(params.get("reply_markup") or "{}").get("inline_keyboard", [])
    for one in (one for row in rows for one in row):
        if not 1 <= len(one.get("callback_data", "").encode()) <= 64:
            raise ApiError(400, "Bad Request: BUTTON_DATA_INVALID")
        if not one.get("text"):
            raise ApiError(400, "Bad Request: can't parse inline keyboard button: text is empty")
    return rows


def params_of(kind: str, body: bytes) -> dict[str, Any]:
    """The parameters of a request, as JSON, as a form or, with files (bytes), as a form of several parts."""
    if kind.startswith("application/json"):
        read = json.loads(body or b"{}").items()
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in read}
    if not kind.startswith("multipart/form-data"):
        return dict(parse_qsl(body.decode("utf-8", "surrogatepass"), keep_blank_values=True))
    message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    found: dict[str, Any] = {}
    for part in message.iter_parts():
        name, content = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
        assert isinstance(content, bytes)
        file_name = part.get_filename()
        found[name] = content if file_name else content.decode("utf-8", "surrogatepass")
        if file_name:
            found[f"{name} file name"] = file_name
    return found


def photo_of(params: dict[str, Any]) -> bytes:
    """The picture that is sent: a file of the form, or the part that `attach://` names; or Telegram's refusal."""
    given = params.get("photo")
    if isinstance(given, str) and given.startswith("attach://"):
        given = params.get(given.removeprefix("attach://"))
    if not isinstance(given, bytes) or not given:
        raise ApiError(400, "Bad Request: there is no photo in the request")
    if not given.startswith(PNG):
        raise ApiError(400, "Bad Request: IMAGE_PROCESS_FAILED")
    if utf16_units(str(params.get("caption") or "")) > LONGEST_CAPTION:
        raise ApiError(400, "Bad Request: message caption is too long")
    return given


def document_of(params: dict[str, Any]) -> tuple[str, bytes]:
    """Name and content of the file that is sent, or Telegram's refusal."""
    given, part = params.get("document"), "document"
    if isinstance(given, str) and given.startswith("attach://"):
        part = given.removeprefix("attach://")
        given = params.get(part)
    if not isinstance(given, bytes):
        raise ApiError(400, "Bad Request: there is no document in the request")
    if not given:
        raise ApiError(400, "Bad Request: file must be non-empty")
    if len(given) > 50_000_000:
        raise ApiError(413, "Request Entity Too Large")
    return str(params[f"{part} file name"]), given


def _without_html(text: str) -> str:
    """The text of HTML as Telegram takes it, without its formatting, or the refusal of tags that are not closed in order."""
    open_tags: list[str] = []
    for closing, name in re.findall(r"<(/?)([a-z]+)[^>]*>", text):
        if not closing:
            open_tags.append(name)
        elif not open_tags or open_tags.pop() != name:
            raise ApiError(400, f"Bad Request: can't parse entities: unexpected end tag {name}")
    if open_tags:
        missing = f"can't find end tag corresponding to start tag {open_tags[-1]}"
        raise ApiError(400, f"Bad Request: can't parse entities: {missing}")
    return html.unescape(re.sub(r"<[^>]+>", "", text))
