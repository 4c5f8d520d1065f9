"""What a message means to the bot: text, a command, something that it cannot read, or nothing. Pure functions.

In a group the bot is addressed by its name, by a reply to one of its messages, or by a command; it ignores everything else there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from aiogram.types import Message, MessageEntity, User

from dispatcher.bots.telegram.incoming.corrected import corrected_label
from dispatcher.bots.telegram.incoming.origins import UNREADABLE, origin_of, shown_name
from dispatcher.bots.telegram.incoming.plain_words import words_of
from shared.text.translations import language_of
from shared.turns.message_origin import NOWHERE, Origin


@dataclass(frozen=True)
class IncomingMessage:
    """A message to the bot. `text` is without the bot's name; of anything but text it is the caption, of a command (`command`, in lower case) what
    follows it."""

    chat: int
    private: bool
    message: int
    thread: int | None
    user: int
    name: str
    said_at: str  # ISO 8601, UTC
    kind: Literal["text", "command", "unreadable"]
    text: str = ""
    command: str = ""
    album: str | None = None
    captioned: bool = False
    corrects: str = ""  # label of the recording, or of the answer that shows what was heard, which this reply corrects
    origin: Origin = NOWHERE
    replied: int | None = None  # the bot's message to which it replies
    language: str | None = None  # of the sender's Telegram, if we speak it
    chat_title: str = ""  # of a group

    @property
    def own_id(self) -> str | None:
        """The number of the sender, as a task has it, or of the group or channel in whose name they wrote; None if unknown."""
        return str(self.user) if self.user else None

    @property
    def label(self) -> str:
        """Identifies the message among all chats."""
        return f"{self.chat}-{self.message}"


def read_message(message: Message, me: User, *, belongs: bool = False) -> IncomingMessage | None:
    """None for a message that is not addressed to the bot. `belongs`: it is part of an album that is."""
    private = message.chat.type == "private"
    if not (private or message.chat.type in ("group", "supergroup")) or not _by_a_person(message):
        return None
    text, entities = _words(message)
    forwarded = message.forward_origin is not None
    # A forwarded command is not a command of the person who forwards it.
    command, target = ("", "") if forwarded else _command(text, entities)
    if command and target not in ("", (me.username or "").lower()):
        return None
    if not (private or command or belongs or _addressed(message, me)):
        return None
    if command:
        return _incoming(message, me, "command", text=_after_first_word(text), command=command)
    words = text if forwarded else _without_name(text, entities, me)
    if message.text is None and not words.strip():
        return _incoming(message, me, "unreadable") if message.content_type in UNREADABLE else None
    return _incoming(message, me, "text", text=words.strip())


def _words(message: Message) -> tuple[str, list[MessageEntity]]:
    """The text or the caption, with its entities; what is neither text nor file as words."""
    if message.text is not None:
        return message.text, message.entities or []
    if (words := words_of(message)) is not None:
        return words, []
    return message.caption or "", message.caption_entities or []


def _after_first_word(text: str) -> str:
    words = text.split(maxsplit=1)
    return words[1].strip() if len(words) > 1 else ""


def _incoming(
    message: Message, me: User, kind: Literal["text", "command", "unreadable"], *, text: str = "", command: str = ""
) -> IncomingMessage:
    speaker, replied = message.sender_chat or message.from_user, message.reply_to_message
    return IncomingMessage(
        chat=message.chat.id,
        private=message.chat.type == "private",
        message=message.message_id,
        thread=message.message_thread_id if message.is_topic_message else None,
        user=speaker.id if speaker else 0,
        name=shown_name(speaker),
        said_at=datetime.fromtimestamp(message.date.timestamp(), UTC).isoformat(),
        kind=kind,
        text=text,
        command=command,
        album=message.media_group_id,
        captioned=bool(message.caption),
        corrects=corrected_label(message, text, me) if kind == "text" else "",
        origin=origin_of(message, me),
        chat_title=message.chat.title or "",
        replied=replied.message_id if replied and replied.from_user and replied.from_user.id == me.id else None,
        language=language_of(message.from_user.language_code) if message.from_user else None,
    )


def _by_a_person(message: Message) -> bool:
    """Whether a person wrote it, including an administrator who writes in the group's name; not a bot, and not a channel."""
    if message.sender_chat is not None:
        return message.sender_chat.id == message.chat.id
    return message.from_user is not None and not message.from_user.is_bot


def _command(text: str, entities: list[MessageEntity]) -> tuple[str, str]:
    """(command, addressed bot) at the beginning of a text, both in lower case; ("", "") if there is none."""
    if not any(one.type == "bot_command" and one.offset == 0 for one in entities):
        return "", ""
    name, _, target = text.split(maxsplit=1)[0].removeprefix("/").lower().partition("@")
    return name, target


def _addressed(message: Message, me: User) -> bool:
    replied = message.reply_to_message
    # In a topic, every message replies to the notice of its creation, which may be the bot's.
    if replied and replied.from_user and replied.from_user.id == me.id and not replied.forum_topic_created:
        return True
    text, entities = _words(message)
    return any(_names(one, text, me) for one in entities)


def _names(entity: MessageEntity, text: str, me: User) -> bool:
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == me.id
    return entity.type == "mention" and entity.extract_from(text).lower() == f"@{me.username}".lower()


def _without_name(text: str, entities: list[MessageEntity], me: User) -> str:
    """The text without mentions of the bot and without the gaps that they leave."""
    encoded = text.encode("utf-16-le")
    for entity in sorted(entities, key=lambda one: -one.offset):
        if _names(entity, text, me):
            before, after = encoded[: 2 * entity.offset], encoded[2 * (entity.offset + entity.length) :]
            head, tail = before.decode("utf-16-le"), after.decode("utf-16-le")
            if not head or head[-1].isspace():
                tail = tail.lstrip(" ,:")
            encoded = (head + tail).encode("utf-16-le")
    return encoded.decode("utf-16-le")
