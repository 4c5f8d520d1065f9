"""The reader of Telegram's `result.json` as one that has the whole file in memory: what the one that reads it in pieces is compared with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nightly.imports.candidates import BOM, ReadCandidate, Wanted, made_up_id, open_input, read_turn
from nightly.imports.readers import telegram
from nightly.imports.readers.telegram import BotAccount
from nightly.imports.readers.telegram_file import plain as _plain
from nightly.imports.readers.telegram_file import sender_of as _sender
from shared.errors import InvalidInput
from shared.turns.message_origin import Origin
from shared.turns.records import RecordRefused, Turn, loads_object

_PRIVATE, _GROUPS = telegram._PRIVATE, telegram._GROUPS
_NO_EARLIER: Any = None

#: Desktop writes control characters as \xNN, which is not JSON.
_HEX_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)


@dataclass
class Account:
    """The contents of the file: the chats, and the owner of the export (only for a whole account)."""

    chats: list[dict[str, Any]]
    owner: str | None = None
    single: bool = True
    size: int = 0


@dataclass
class Talk:
    """One chat while it is read: the questions without an answer so far, by message id, and the last one if nothing followed it."""

    reader: telegram.Talk  # for what it takes from one message alone
    asked: dict[object, str] = field(default_factory=dict)
    seen: dict[object, dict[str, Any]] = field(default_factory=dict)  # by message id, for replies
    last: object = None

    def turn(self, message: dict[str, Any]) -> Turn | str:
        """The turn, or why there is none; RecordRefused if it cannot be read."""
        if message.get("type") != "message":
            return (
                "a notice of Telegram" if message.get("type") == "service" else "not a message that Desktop can write"
            )
        number = message.get("id")
        if isinstance(number, bool) or not isinstance(number, int):
            raise RecordRefused("the message has no id")
        self.seen[number] = message
        content, from_bot = self.reader._content(message), self.reader.bot.sent(message)
        if not content.strip():
            return "without text (media, a sticker, a command)"
        if from_bot and telegram._NOTICE.match(content):
            return "a notice of the bot"
        own, name = made_up_id("tg", self.reader.chat_id, number), message.get("from")
        task_id = self._answered(message) or own if from_bot else own
        self.last = None if from_bot else number
        if not from_bot:
            self.asked[number] = own
        shown = name if isinstance(name, str) and name.strip() and not from_bot else None
        role, said_at = "asst" if from_bot else "user", telegram._time(message, self.reader.zone)
        user = None if from_bot else _sender(message)
        extra = {} if from_bot else self._origin(message)
        return Turn(task_id, role, self.reader.chat_id, content, said_at, shown, extra=extra, user_id=user)

    def _origin(self, message: dict[str, Any]) -> dict[str, Any]:
        attachment = telegram._attachment(message)
        record = {
            "chat_type": "private" if self.reader.private else "group",
            "quote": self._quote(message),
            "forward": {"from": message["forwarded_from"]} if "forwarded_from" in message else None,
            "attachment": {"kind": attachment, "name": message.get("file_name")} if attachment else None,
        }
        return Origin.parse(record).to_json()

    def _quote(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The message in this chat that it replies to."""
        number = message.get("reply_to_message_id")
        replied = self.seen.get(number) if isinstance(number, int) else None
        if replied is None or "reply_to_peer_id" in message:
            return None
        try:
            text = "".join(part["text"] for part in telegram._parts(replied))
        except RecordRefused:
            text = ""
        return {
            "text": text,
            "from": replied.get("from"),
            "user_id": _sender(replied),
            "by_bot": self.reader.bot.sent(replied),
            "attachment": telegram._attachment(replied),
            "forwarded_from": replied.get("forwarded_from"),
        }

    def _answered(self, message: dict[str, Any]) -> str | None:
        """The task id of the question that this is the first answer to."""
        replied = message.get("reply_to_message_id")
        return self.asked.pop(self.last if replied is None else replied, None)


def read(
    path: Path, unit: int, wanted: Wanted, zone: ZoneInfo, bot: str | None, token: str | None
) -> Iterator[ReadCandidate]:
    """`bot`: its name or id from the command line. `token`: the number at the beginning of our bot's token."""
    try:
        account = _load(path)
    except RecordRefused as error:
        yield ReadCandidate(path.stat().st_size, unreadable=str(error), place=f"{path}:1")
        return
    found = _find_bot(path, account, bot, token)
    username = _plain(bot) if bot else None
    total, before = sum(len(chat["messages"]) for chat in account.chats) or 1, 0
    for chat in account.chats:
        chat_id = _chat_id(path, account, chat, found, wanted)
        reader = telegram.Talk(chat_id or "", found, username, zone, unit, _NO_EARLIER, chat.get("type") in _PRIVATE)
        talk = Talk(reader) if chat_id else None
        for number, message in enumerate(chat["messages"], start=before + 1):
            done = account.size * number // total
            yield (
                ReadCandidate(done, left_out="of a chat without the bot")
                if talk is None
                else _read(talk, message, wanted, done, f"{path}: message {telegram._name(message, number)}")
            )
        before += len(chat["messages"])


def _read(talk: Talk, message: object, wanted: Wanted, done: int, place: str) -> ReadCandidate:
    try:
        if not isinstance(message, dict):
            raise RecordRefused("a message is not a JSON object")
        turn = talk.turn(message)
    except RecordRefused as error:
        return ReadCandidate(done, unreadable=str(error), place=place)
    if isinstance(turn, str):
        return ReadCandidate(done, left_out=turn)
    return read_turn(wanted, done, place, telegram.SOURCE, talk.reader.unit, turn)


def _load(path: Path) -> Account:
    with open_input(path) as handle:
        content: bytes = handle.read().removeprefix(BOM)
    try:
        document = loads_object(content)
    except RecordRefused:
        document = loads_object(_HEX_ESCAPE.sub(_as_json, content))
    account = Account([document], size=len(content))
    if "messages" not in document:
        about = document.get("personal_information")
        owner = about.get("user_id") if isinstance(about, dict) else None
        groups = [document.get(name) for name in ("chats", "left_chats")]
        lists = [group["list"] for group in groups if isinstance(group, dict) and isinstance(group.get("list"), list)]
        if not lists:
            raise RecordRefused("it contains neither a chat (messages) nor an account (chats)")
        chats = [chat for one in lists for chat in one]
        account = Account(chats, str(owner) if isinstance(owner, int) else None, single=False, size=len(content))
    if not all(isinstance(chat, dict) and isinstance(chat.get("messages"), list) for chat in account.chats):
        raise RecordRefused("it contains a chat without messages")
    return account


def _as_json(found: re.Match[bytes]) -> bytes:
    return b"\\u00" + found[1] if found[1] else found[0]


def _find_bot(path: Path, account: Account, bot: str | None, token: str | None) -> BotAccount:
    """The bot's account; InvalidInput if it is unknown. A token of a bot that is not in the file is ignored."""
    if bot is not None:
        named = _named(account, bot)
        if named is None:
            raise InvalidInput(
                f"No chat and no message in {path} is from {bot}. Telegram Desktop writes displayed names, not usernames: "
                "give --bot the name as shown, or the bot's user id, with which its token begins."
            )
        return named
    if token is not None and any(_concerns(chat, BotAccount(token)) for chat in account.chats):
        return BotAccount(token)
    only = account.chats[0] if account.single else {}
    if only.get("type") in _PRIVATE and isinstance(only.get("id"), int):
        return BotAccount(str(only["id"]))
    raise InvalidInput(
        f"It is not known which sender in {path} is the bot. Give --bot its name as Telegram shows it, or its user id, or set TELEGRAM_BOT_TOKEN."
    )


def _named(account: Account, bot: str) -> BotAccount | None:
    wanted = _plain(bot)
    if wanted.isdecimal():
        return BotAccount(wanted)
    for chat in account.chats:
        if chat.get("type") in _PRIVATE and _plain(chat.get("name")) == wanted:
            return BotAccount(str(chat.get("id")))
    by_name = BotAccount(name=wanted)
    for chat in account.chats:
        for message in chat["messages"]:
            if isinstance(message, dict) and by_name.sent(message):
                sender = _sender(message)
                return BotAccount(sender) if sender else by_name
    return None


def _concerns(chat: dict[str, Any], bot: BotAccount) -> bool:
    if chat.get("type") in _PRIVATE and str(chat.get("id")) == bot.id:
        return True
    return any(isinstance(message, dict) and bot.sent(message) for message in chat["messages"])


def _chat_id(path: Path, account: Account, chat: dict[str, Any], bot: BotAccount, wanted: Wanted) -> str | None:
    """The chat id that the bot uses; None for a chat of an account without the bot."""
    if account.single and wanted.chat is not None:
        return wanted.chat
    if not account.single and not _concerns(chat, bot):
        return None
    kind, number = chat.get("type"), chat.get("id")
    if kind in _GROUPS and isinstance(number, int):
        return str(_GROUPS[kind] - number if number > 0 else number)
    if kind not in _PRIVATE:
        if account.single:
            raise InvalidInput(
                f"{path} is of a {kind}, which is not a chat with a bot. To import it anyway, name the chat with --chat."
            )
        return None
    people = {_sender(message) for message in chat["messages"] if isinstance(message, dict) and not bot.sent(message)}
    people.discard(None)
    if len(people) == 1:
        return people.pop()
    if account.owner is None:
        raise InvalidInput(
            f"{path} does not show whose chat it is: {len(people)} people wrote in it. Name the chat with --chat."
        )
    return account.owner
