"""`result.json` of Telegram Desktop (Export chat history, or Export Telegram data): one chat, or an account with all of them.

Desktop writes other ids than the Bot API: a private chat has the id of the other party (for us the bot), where the bot uses the person's; a
group has a bare id, where the bot uses -<id>, and -100<id> for a supergroup. A turn's id is made of chat and message id: of ours, and of the file's,
since several may be brought into one of ours. An answer belongs to the message that it replies to, else to the one right before it.

A chat of people, without the bot, is a conversation elsewhere, as WhatsApp's are: everybody in it has a name.

The file is read twice, message by message (telegram_file.py): first for the chats and who wrote in them, by which the bot is found, then for the
messages. A reply may be to any message before it, so what a reply shows of one is kept in a temporary database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nightly.imports.candidates import ReadCandidate, Wanted, made_up_id, time_of
from nightly.imports.containers.members import Member
from nightly.imports.containers.opening import Export, opened_export
from nightly.imports.formats import ImportFormat, Source, file_by_file
from nightly.imports.readers.telegram_file import Account, TelegramChat, account_in, plain, sender_of, talks_in
from nightly.imports.recognition import outlines
from nightly.night.folder import scratch_database
from shared.errors import InvalidInput
from shared.hooks import hook
from shared.turns.message_origin import Origin
from shared.turns.records import RecordRefused, Turn, dumps, loads_object

#: The source of turns in which the bot had no part, and the --bot that says so.
_OF_PEOPLE, _NOBODY = "telegram-people", "-"

_PRIVATE = ("personal_chat", "bot_chat")
#: The number from which the Bot API subtracts a group's bare id.
_GROUPS = {"private_group": 0, "private_supergroup": -(10**12), "public_supergroup": -(10**12)}
#: Attachments, as Desktop names them.
_MEDIA = {
    "animation": "animation", "audio_file": "audio", "sticker": "sticker", "video_file": "video", "video_message": "video_note",
    "voice_message": "voice",
}  # fmt: skip
#: h-cli's bot sends this before each answer.
_NOTICE = re.compile(r"Queued task \S+\s+Polling for result")
#: Commands are not imported, except this one, which gives h-cli's bot a task.
_TASK_COMMAND = "/run"
#: A command that the export does not mark as one.
_COMMAND = re.compile(r"/(?!run\b)[A-Za-z0-9_]{1,32}(?:@\w+)?(?=\s|\Z)")

_SCHEMA = "CREATE TABLE messages (number TEXT PRIMARY KEY, quote BLOB NOT NULL, asked INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID"


@dataclass(frozen=True)
class BotAccount:
    """Which sender is the bot: by id, or by displayed name; nobody without either."""

    id: str | None = None
    name: str | None = None

    def sent(self, message: dict[str, Any]) -> bool:
        return plain(message.get("from")) == self.name if self.id is None else sender_of(message) == self.id


class EarlierMessages:
    """The messages of one chat so far, by id, in a database: what a reply shows of each, and whether it is a question without an answer."""

    def __init__(self) -> None:
        self._connection = scratch_database(None, _SCHEMA)

    def close(self) -> None:
        self._connection.close()

    def clear(self) -> None:
        self._connection.execute("DELETE FROM messages")

    def add(self, number: int, quote: dict[str, Any]) -> None:
        """RecordRefused if an earlier message has this id."""
        sql = "INSERT OR IGNORE INTO messages (number, quote) VALUES (?,?)"
        if not self._connection.execute(sql, (str(number), dumps(quote))).rowcount:
            raise RecordRefused("an earlier message has its id")

    def quote(self, number: object) -> dict[str, Any] | None:
        if not isinstance(number, int):
            return None
        row = self._connection.execute("SELECT quote FROM messages WHERE number = ?", (str(int(number)),)).fetchone()
        return loads_object(row[0]) if row else None

    def ask(self, number: int) -> None:
        self._connection.execute("UPDATE messages SET asked = 1 WHERE number = ?", (str(number),))

    def answer(self, number: int) -> bool:
        """Whether it is a question without an answer; it has one now."""
        sql = "UPDATE messages SET asked = 0 WHERE number = ? AND asked"
        return self._connection.execute(sql, (str(number),)).rowcount > 0


@dataclass
class Talk:
    """One chat while it is read; `last`: the question that nothing followed so far."""

    chat_id: str
    bot: BotAccount
    username: str | None
    zone: ZoneInfo
    earlier: EarlierMessages
    exported_id: object = None
    private: bool = False
    last: int | None = None

    def turn(self, message: object) -> Turn | str:
        """The turn, or why there is none; RecordRefused if it cannot be read."""
        if not isinstance(message, dict):
            raise RecordRefused("a message is not a JSON object")
        if message.get("type") != "message":
            return (
                "a notice of Telegram" if message.get("type") == "service" else "not a message that Desktop can write"
            )
        number = message.get("id")
        if isinstance(number, bool) or not isinstance(number, int):
            raise RecordRefused("the message has no id")
        self.earlier.add(number, self._as_quoted(message))
        content, from_bot = self._content(message), self.bot.sent(message)
        if not content.strip():
            return "without text (media, a sticker, a command)"
        if from_bot and _NOTICE.match(content):
            return "a notice of the bot"
        name = message.get("from")
        own = self._answered(message, number) if from_bot else number
        task_id = made_up_id("tg", self.chat_id, self.exported_id, own)
        self.last = None if from_bot else number
        if not from_bot:
            self.earlier.ask(number)
        shown = name if isinstance(name, str) and name.strip() and not from_bot else None
        role, said_at = (
            "asst" if from_bot else "user",
            time_of(message.get("date_unixtime") or message.get("date"), self.zone),
        )
        user = None if from_bot else sender_of(message)
        extra = {} if from_bot else self._origin(message).to_json()
        if self.bot == BotAccount():
            extra["source"] = _OF_PEOPLE
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
        return None if "reply_to_peer_id" in message else self.earlier.quote(message.get("reply_to_message_id"))

    def _as_quoted(self, message: dict[str, Any]) -> dict[str, Any]:
        """What a reply to it shows of it."""
        try:
            text = "".join(part["text"] for part in _parts(message))
        except RecordRefused:
            text = ""
        shown = {
            "text": text,
            "from": message.get("from"),
            "user_id": sender_of(message),
            "attachment": _attachment(message),
            "forwarded_from": message.get("forwarded_from"),
        }
        return {name: value for name, value in shown.items() if isinstance(value, str)} | {
            "by_bot": self.bot.sent(message)
        }

    def _answered(self, message: dict[str, Any], number: int) -> int:
        """The id of the question that this is the first answer to, or else its own, `number`."""
        replied = message.get("reply_to_message_id")
        asked = self.last if replied is None else replied
        return int(asked) if isinstance(asked, int) and self.earlier.answer(int(asked)) else number

    def _content(self, message: dict[str, Any]) -> str:
        if self.bot == BotAccount():  # among people nothing is a command
            return "".join(part["text"] for part in _parts(message))
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
        return part.get("type") == "mention" and self.username is not None and plain(part["text"]) == self.username


def read(path: Path, source: Source) -> Iterator[ReadCandidate]:
    """Option `bot`: its name or id."""
    with opened_export(path, source.zone) as export:
        yield from export.each(export.named("result.json"), lambda member: _file(export.place(member), member, source))


def _file(place: str, member: Member, source: Source) -> Iterator[ReadCandidate]:
    wanted, bot, secret = source.wanted, source.options.get("bot"), source.settings.telegram_bot_token
    username, token = plain(bot) if bot else None, secret.get_secret_value().partition(":")[0] if secret else None
    account = account_in(member, plain(bot) if bot is not None else None)
    found = _find_bot(place, account, bot, token)
    if account.single and found == BotAccount() and wanted.chat is None:
        if len(chats := source.settings.allowed) != 1:
            raise InvalidInput(f"{place} is a chat of people. Name the bot's chat that it belongs to with --chat=ID.")
        wanted = replace(wanted, chat=str(*chats))
    total, number = sum(chat.messages for chat in account.chats) or 1, 0
    with closing(EarlierMessages()) as earlier, _unchanged(place):
        for chat, messages in talks_in(member, account):
            chat_id = _chat_id(place, account, chat, found, wanted)
            earlier.clear()
            about = chat.about.get("id"), chat.about.get("type") in _PRIVATE
            talk = Talk(chat_id, found, username, source.zone, earlier, *about) if chat_id else None
            for message in messages if talk else repeat(None, chat.messages):
                number += 1
                done = member.size * number // total
                if talk is None:
                    yield ReadCandidate(done, left_out="of a chat without the bot")
                else:
                    where = f": message {_name(message, number)}"
                    yield ReadCandidate.of(done, where, partial(talk.turn, message))


@contextmanager
def _unchanged(place: str) -> Iterator[None]:
    """InvalidInput if a file that was read whole cannot be read again."""
    try:
        yield
    except RecordRefused as error:
        raise InvalidInput(f"{place} changed while it was read: {error}. Run the command again.") from error


def _name(message: object, number: int) -> str:
    """Its id, or its position in the file."""
    return str(message["id"]) if isinstance(message, dict) and "id" in message else f"number {number}"


def _find_bot(place: str, account: Account, bot: str | None, token: str | None) -> BotAccount:
    """The bot's account; InvalidInput if it is unknown. A token of a bot that is not in the file is ignored."""
    if bot == _NOBODY:
        if not account.single:
            raise InvalidInput(f"{place} has all chats of an account. Without the bot, export one chat alone.")
        return BotAccount()
    if bot is not None:
        named = _named(account, bot)
        if named is None:
            raise InvalidInput(
                f"No chat and no message in {place} is from {bot}. Telegram Desktop writes displayed names, not usernames: "
                "give --bot the name as shown, or the bot's user id, with which its token begins."
            )
        return named
    if token is not None and any(_concerns(chat, BotAccount(token)) for chat in account.chats):
        return BotAccount(token)
    only = account.chats[0].about if account.single else {}
    if only.get("type") in _PRIVATE and isinstance(only.get("id"), int):
        return BotAccount(str(only["id"])) if only["type"] == "bot_chat" else BotAccount()
    raise InvalidInput(
        f"It is not known which sender in {place} is the bot. Give --bot its name as Telegram shows it, or its user id"
        + (", or - if it is nobody there." if account.single else ".")
    )


def _named(account: Account, bot: str) -> BotAccount | None:
    wanted = plain(bot)
    if wanted.isdecimal():
        return BotAccount(wanted)
    for chat in account.chats:
        if chat.about.get("type") in _PRIVATE and plain(chat.about.get("name")) == wanted:
            return BotAccount(str(chat.about.get("id")))
    for chat in account.chats:
        if chat.people.named:
            sender = chat.people.first_named
            return BotAccount(sender) if sender else BotAccount(name=wanted)
    return None


def _concerns(chat: TelegramChat, bot: BotAccount) -> bool:
    if chat.about.get("type") in _PRIVATE and str(chat.about.get("id")) == bot.id:
        return True
    return chat.people.named if bot.id is None else bot.id in chat.people.senders


def _chat_id(place: str, account: Account, chat: TelegramChat, bot: BotAccount, wanted: Wanted) -> str | None:
    """The chat id that the bot uses; None for a chat of an account without the bot."""
    if account.single and wanted.chat is not None:
        return wanted.chat
    if not account.single and not _concerns(chat, bot):
        return None
    kind, number = chat.about.get("type"), chat.about.get("id")
    if kind in _GROUPS and isinstance(number, int):
        return str(_GROUPS[kind] - number if number > 0 else number)
    if kind not in _PRIVATE:
        if account.single:
            raise InvalidInput(
                f"{place} is of a {kind or 'chat of no known type'}, which is not a chat with a bot. To import it anyway, name the chat with --chat."
            )
        return None
    people = chat.people.others if bot.id is None else chat.people.senders - {bot.id}
    if len(people) == 1:
        return next(iter(people))
    if account.owner is None:
        raise InvalidInput(
            f"{place} does not show whose chat it is: {len(people)} people wrote in it. Name the chat with --chat."
        )
    return account.owner


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


def _recognise(export: Export) -> str | None:
    for where, paths in outlines(export, "result.json"):
        if {"type", "id", "messages.[].date"} <= paths:
            return f"{where} of a chat, whose messages have a `type` and a `date`"
        if "personal_information.user_id" in paths or "chats.list.[].messages" in paths:
            return f"{where} of an account, with its chats"
    return None


@hook
def import_formats() -> Sequence[ImportFormat]:
    what = "Telegram Desktop's export (result.json, or its ZIP)"
    return [ImportFormat("telegram", what, file_by_file(read), _recognise, options=("bot",), of_a_chat=True)]
