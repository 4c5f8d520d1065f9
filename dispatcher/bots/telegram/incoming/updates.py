"""What a message means to the bot: text, a command, something that it cannot read, or nothing. Pure functions.

In a group the bot is addressed by its name, by a reply to one of its messages, or by a command; it ignores everything else there.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import SequenceMatcher
from typing import Literal

from aiogram.types import CallbackQuery, InaccessibleMessage, Message, MessageEntity, User

from dispatcher.bots.telegram.incoming.origins import UNREADABLE, origin_of, shown_name
from dispatcher.bots.telegram.incoming.plain_words import words_of
from dispatcher.bots.telegram.waiting import Waiting
from shared.text.translations import language_of, noted_language
from shared.turns.media import HEARD, HEARD_MARK
from shared.turns.message_origin import NOWHERE, Origin
from shared.turns.signed.results import Keyboard, keyboard_json

Kind = Literal["text", "command", "unreadable"]
#: Commands whose answer to a press is a message of its own: the pressed message is an answer of Claude's, and stays.
APART = frozenset({"retry", "why"})


@dataclass(frozen=True)
class IncomingMessage:
    """A message to the bot. `text` is without the bot's name; of anything but text it is the caption, of a command (`command`, in lower case) what
    follows it."""

    task_id: str  # of its task, if it becomes one: made of the update's number, so the same update has the same
    chat: int
    private: bool
    message: int
    label: str  # identifies the message among all chats
    thread: int | None
    user: int
    name: str
    said_at: str  # ISO 8601, UTC
    kind: Kind
    text: str = ""
    command: str = ""
    album: str | None = None
    captioned: bool = False
    corrects: str = ""  # label of the recording, or of the answer that shows what was heard, which this reply corrects
    origin: Origin = NOWHERE
    replied: int | None = None  # the bot's message to which it replies
    language: str | None = None  # of the sender's Telegram, if we speak it
    chat_title: str = ""  # of a group
    pressed: bool = False  # a button, which has this command
    reply_to: int | None = None
    replaces: int | None = None  # the bot's message in whose place the answer comes

    @property
    def group(self) -> bool:
        return not self.private

    @property
    def own_id(self) -> str | None:
        """The number of the sender, as a task has it, or of the group or channel in whose name they wrote; None if unknown."""
        return str(self.user) if self.user else None

    @property
    def spoken(self) -> str:
        """A command with what follows it, as it was written; any other text."""
        return f"/{self.command} {self.text}".strip() if self.kind == "command" else self.text

    def delivery(self, text: str | None = None, buttons: Keyboard = ()) -> Waiting:
        """Where the answer goes: one of the bot's own (`text`), or that of its task."""
        where = (str(self.chat), time.time(), self.thread, self.reply_to, self.replaces)
        below, language = keyboard_json(buttons) or None, noted_language()
        return Waiting(*where, text=text, user=self.own_id, language=language, buttons=below)

    def notice(self, text: str) -> Waiting:
        """A message that is no answer: a reply, in a private chat too."""
        return replace(self.delivery(text), reply_to=self.message)


def read_message(message: Message, me: User, task_id: str, *, belongs: bool = False) -> IncomingMessage | None:
    """None for a message that is not addressed to the bot. `belongs`: it is part of an album that is."""
    meaning = _meaning(message, me, belongs) if _by_a_person(message) else None
    if meaning is None:
        return None
    kind, text, command = meaning
    speaker, replied = message.sender_chat or message.from_user, message.reply_to_message
    private = message.chat.type == "private"
    return IncomingMessage(
        task_id=task_id,
        chat=message.chat.id,
        private=private,
        message=message.message_id,
        label=f"{message.chat.id}-{message.message_id}",
        reply_to=None if private else message.message_id,
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


def _meaning(message: Message, me: User, belongs: bool) -> tuple[Kind, str, str] | None:
    """(kind, text, command) of a message to the bot."""
    private = message.chat.type == "private"
    if not (private or message.chat.type in ("group", "supergroup")):
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
        return "command", "".join(text.split(maxsplit=1)[1:]).strip(), command
    words = text if forwarded else _without_name(text, entities, me)
    if message.text is None and not words.strip():
        return ("unreadable", "", "") if message.content_type in UNREADABLE else None
    return "text", words.strip(), ""


def read_press(
    press: CallbackQuery, pressed: Message | InaccessibleMessage, command: str, task_id: str
) -> IncomingMessage:
    """The command of a button as its person would have written it."""
    name, _, text = command.removeprefix("/").partition(" ")
    message = pressed if isinstance(pressed, Message) else None
    number, private = message.message_id if message else 0, pressed.chat.type == "private"
    return IncomingMessage(
        task_id=task_id,
        chat=pressed.chat.id,
        private=private,
        message=number,
        label=f"press-{press.id}",
        thread=message.message_thread_id if message and message.is_topic_message else None,
        user=press.from_user.id,
        name=shown_name(press.from_user),
        said_at=datetime.now(UTC).isoformat(),
        kind="command",
        text=text,
        command=name,
        origin=Origin("private" if private else "group"),
        language=language_of(press.from_user.language_code),
        pressed=True,
        reply_to=number or None if name in APART else None,
        replaces=None if name in APART else number or None,
    )


def _words(message: Message) -> tuple[str, list[MessageEntity]]:
    """The text or the caption, with its entities; what is neither text nor file as words."""
    if message.text is not None:
        return message.text, message.entities or []
    if (words := words_of(message)) is not None:
        return words, []
    return message.caption or "", message.caption_entities or []


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


#: How much of the words a correction has in common with what was heard, from 0 to 1.
ALIKE = 0.5
_SHOWN = re.compile(rf"{HEARD_MARK} \"(?P<heard>.*)\"$", re.MULTILINE)


def corrected_label(message: Message, text: str, me: User) -> str:
    """The label of the message that is corrected, or "": whether a reply corrects what was heard in a recording.

    A reply to one's own recording does. A reply to the answer below which it is shown is mostly a part of the conversation (in groups people talk to
    the bot like that); so it corrects only if it repeats much of what is shown there.
    """
    replied = message.reply_to_message
    if replied is None or message.text is None or not text.strip() or message.forward_origin is not None:
        return ""
    author = replied.from_user.id if replied.from_user else None
    label = f"{message.chat.id}-{replied.message_id}"
    if author is not None and message.from_user and author == message.from_user.id:
        return label if str(getattr(replied.content_type, "value", replied.content_type)) in HEARD else ""
    shown = _SHOWN.match(replied.text or "") if author == me.id else None
    return label if shown and is_alike(shown["heard"], text) else ""


def is_alike(heard: str, text: str) -> bool:
    first, second = ([word.lower() for word in re.findall(r"\w+", one)] for one in (heard, text))
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= ALIKE
