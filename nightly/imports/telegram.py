"""`result.json` of Telegram Desktop (Export chat history, or Export Telegram data): one chat, or an account with all of them.

Desktop writes other ids than the Bot API: a private chat has the id of the other party (for us the bot), where the bot uses the person's; a
group has a bare id, where the bot uses -<id>, and -100<id> for a supergroup. A turn's id is made of chat and message id. An answer belongs to
the message that it replies to, else to the one right before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nightly.imports.candidates import BOM, ReadCandidate, Wanted, made_up_id, open_input, taken_or_left, turn_candidate
from shared.errors import InvalidInput
from shared.turns.message_origin import Origin
from shared.turns.records import RecordRefused, Turn, loads_object, timestamp_of

SOURCE = "telegram"

_PRIVATE = ("personal_chat", "bot_chat")
#: The number from which the Bot API subtracts a group's bare id.
_GROUPS = {"private_group": 0, "private_supergroup": -(10**12), "public_supergroup": -(10**12)}
#: Desktop writes control characters as \xNN, which is not JSON.
_HEX_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
#: Attachments, as Desktop names them.
_MEDIA = {
    "animation": "animation", "audio_file": "audio", "sticker": "sticker", "video_file": "video", "video_message": "video_note",
    "voice_message": "voice",
}  # fmt: skip
_SENDER = re.compile(r"(?:user)?(\d+)\Z")
#: h-cli's bot sends this before each answer.
_NOTICE = re.compile(r"Queued task \S+\s+Polling for result")
#: Commands are not imported, except this one, which gives h-cli's bot a task.
_TASK_COMMAND = "/run"
#: A command that the export does not mark as one.
_COMMAND = re.compile(r"/(?!run\b)[A-Za-z0-9_]{1,32}(?:@\w+)?(?=\s|\Z)")


@dataclass(frozen=True)
class BotAccount:
    """Which sender is the bot: by id, or by displayed name."""

    id: str | None = None
    name: str | None = None

    def sent(self, message: dict[str, Any]) -> bool:
        if self.id is not None:
            return _sender(message) == self.id
        return _plain(message.get("from")) == self.name


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

    chat_id: str
    bot: BotAccount
    username: str | None
    zone: ZoneInfo
    unit: int
    private: bool = False
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
        content, from_bot = self._content(message), self.bot.sent(message)
        if not content.strip():
            return "without text (media, a sticker, a command)"
        if from_bot and _NOTICE.match(content):
            return "a notice of the bot"
        own, name = made_up_id("tg", self.chat_id, number), message.get("from")
        task_id = self._answered(message) or own if from_bot else own
        self.last = None if from_bot else number
        if not from_bot:
            self.asked[number] = own
        shown = name if isinstance(name, str) and name.strip() and not from_bot else None
        role, said_at = "asst" if from_bot else "user", _time(message, self.zone)
        user = None if from_bot else _sender(message)
        extra = {} if from_bot else self._origin(message).to_json()
        return Turn(task_id, role, self.chat_id, content, said_at, shown, extra=extra, user_id=user)

    def _origin(self, message: dict[str, Any]) -> Origin:
        """What it replies to, forwards and has attached, as far as the export shows it."""
        attachment = _attachment(message)
        record = {
            "chat_type": "private" if self.private else "group",
            "quote": self._quote(message),
            "forward": {"from": message["forwarded_from"]} if "forwarded_from" in message else None,
            "attachment": {"kind": attachment, "name": message.get("file_name")} if attachment else None,
        }
        return Origin.parse(record)

    def _quote(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The message in this chat that it replies to."""
        number = message.get("reply_to_message_id")
        replied = self.seen.get(number) if isinstance(number, int) else None
        if replied is None or "reply_to_peer_id" in message:
            return None
        try:
            text = "".join(part["text"] for part in _parts(replied))
        except RecordRefused:
            text = ""
        return {
            "text": text,
            "from": replied.get("from"),
            "user_id": _sender(replied),
            "by_bot": self.bot.sent(replied),
            "attachment": _attachment(replied),
            "forwarded_from": replied.get("forwarded_from"),
        }

    def _answered(self, message: dict[str, Any]) -> str | None:
        """The task id of the question that this is the first answer to."""
        replied = message.get("reply_to_message_id")
        return self.asked.pop(self.last if replied is None else replied, None)

    def _content(self, message: dict[str, Any]) -> str:
        parts = [part for part in _parts(message) if not self._names_bot(part)]
        if parts and parts[0].get("type") == "plain" and _COMMAND.match(parts[0]["text"]):
            return ""
        if parts and parts[0].get("type") == "bot_command":
            if parts[0]["text"].partition("@")[0] != _TASK_COMMAND:
                return ""
            parts = parts[1:]
        text = "".join(part["text"] for part in parts)
        return text if len(parts) == len(_parts(message)) else text.strip(" ,:")

    def _names_bot(self, part: dict[str, str]) -> bool:
        return part.get("type") == "mention" and self.username is not None and _plain(part["text"]) == self.username


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
        talk = Talk(chat_id, found, username, zone, unit, chat.get("type") in _PRIVATE) if chat_id else None
        for number, message in enumerate(chat["messages"], start=before + 1):
            done = account.size * number // total
            yield (
                ReadCandidate(done, left_out="of a chat without the bot")
                if talk is None
                else _read(talk, message, wanted, done, f"{path}: message {_name(message, number)}")
            )
        before += len(chat["messages"])


def _name(message: object, number: int) -> str:
    """Its id, or its position in the file."""
    return str(message["id"]) if isinstance(message, dict) and "id" in message else f"number {number}"


def _read(talk: Talk, message: object, wanted: Wanted, done: int, place: str) -> ReadCandidate:
    try:
        if not isinstance(message, dict):
            raise RecordRefused("a message is not a JSON object")
        turn = talk.turn(message)
    except RecordRefused as error:
        return ReadCandidate(done, unreadable=str(error), place=place)
    if isinstance(turn, str):
        return ReadCandidate(done, left_out=turn)
    return taken_or_left(wanted, done, turn_candidate(SOURCE, talk.unit, turn))


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


def _sender(message: dict[str, Any]) -> str | None:
    """The user id of the person or bot who wrote; None for a channel, a group's name, or no sender."""
    found = _SENDER.match(str(message.get("from_id", "")))
    return found[1] if found else None


def _plain(name: object) -> str:
    return str(name or "").strip().removeprefix("@").casefold()


def _parts(message: dict[str, Any]) -> list[dict[str, str]]:
    """The text in its parts, each with `text` and `type`."""
    text = message.get("text", message.get("text_entities", ""))
    parts = []
    for part in text if isinstance(text, list) else [text]:
        piece = part if isinstance(part, dict) else {"type": "plain", "text": part}
        if not isinstance(piece.get("text"), str):
            raise RecordRefused("the text is not a string")
        parts.append(piece)
    return parts


def _attachment(message: dict[str, Any]) -> str | None:
    """The kind of attachment of a message, as the Bot API names it."""
    if "photo" in message:
        return "photo"
    kind = str(message.get("media_type", ""))
    return _MEDIA.get(kind) or ("document" if "file" in message else None)


def _time(message: dict[str, Any], zone: ZoneInfo) -> float:
    exact, local = message.get("date_unixtime"), message.get("date")
    try:
        if exact is not None:
            return timestamp_of(float(exact))
        moment = datetime.fromisoformat(str(local))
        return timestamp_of((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp())
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, RecordRefused):
            raise
        raise RecordRefused("the date is not valid") from error
