"""What a message means to the bot (text, a command, something that it cannot read, or nothing), and where its text comes from. Pure functions.

In a group the bot is addressed by its name, by a reply to one of its messages, or by a command; it ignores everything else there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aiogram.enums import MessageOriginType
from aiogram.types import (
    CallbackQuery,
    Chat,
    InaccessibleMessage,
    Message,
    MessageEntity,
    MessageOriginHiddenUser,
    MessageOriginUnion,
    User,
)

from dispatcher.bots.telegram.contents import FILES, kind_of, readable_name, words_of
from dispatcher.bots.telegram.state import Waiting
from shared.text.translations import language_of, noted_language
from shared.turns.media import HEARD
from shared.turns.message_origin import NOWHERE, Attachment, Forward, Origin, Quote
from shared.turns.signed import Keyboard, keyboard_json

#: What people send other than text and what becomes words; others are service messages (a member joined, a title changed).
ATTACHMENTS = frozenset((*FILES, "paid_media", "story"))
#: Attachments that may have a file name.
_NAMED = ("document", "audio", "video", "animation")
#: Commands whose answer to a press is a message of its own: the pressed message is an answer of Claude's, and stays.
APART = frozenset({"retry", "why"})
#: Telegram cuts a text into messages of this length at most, and of this length at least (it prefers the end of a line). UTF-16 units.
MESSAGE_CHARACTERS, CUT_CHARACTERS = 4_096, 4_000


@dataclass(frozen=True)
class IncomingMessage:
    """A message to the bot. `text` is without the bot's name; of anything but text it is the caption, of a command (`command`, in lower case) what
    follows it."""

    task_id: str  # of its task, if it becomes one: made of the update's number, so the same update has the same
    chat: int
    group: bool
    message: int
    label: str  # identifies the message among all chats
    thread: int | None
    user: int
    name: str
    said_at: str  # ISO 8601, UTC
    text: str = ""
    command: str = ""
    unreadable: bool = False
    album: str | None = None
    corrects: str = ""  # label of the recording which this reply corrects
    origin: Origin = NOWHERE
    replied: int | None = None  # the bot's message to which it replies
    language: str | None = None  # of the sender's Telegram, if we speak it
    chat_title: str = ""  # of a group
    pressed: bool = False  # a button, which has this command
    reply_to: int | None = None
    replaces: int | None = None  # the bot's message in whose place the answer comes

    cut: int | None = None  # length of a text that may go on in the next message

    @property
    def paste(self) -> str | None:
        """What the parts of a long text have in common; None for what is none, such as a forwarded message or a short command."""
        return (
            None if self.origin.forward or (self.command and not self.cut) else f"text of {self.user} in {self.thread}"
        )

    @property
    def sent(self) -> float:
        """POSIX seconds."""
        return datetime.fromisoformat(self.said_at).timestamp()

    @property
    def own_id(self) -> str | None:
        """The number of the sender, as a task has it, or of the group or channel in whose name they wrote; None if unknown."""
        return str(self.user) if self.user else None

    @property
    def spoken(self) -> str:
        """A command with what follows it, as it was written; any other text."""
        return f"/{self.command} {self.text}".strip() if self.command else self.text

    def delivery(self, text: str | None = None, buttons: Keyboard = ()) -> Waiting:
        """Where the answer goes: one of the bot's own (`text`), or that of its task."""
        where = (str(self.chat), time.time(), self.thread, self.reply_to, self.replaces)
        below, language = keyboard_json(buttons) or None, noted_language()
        return Waiting(*where, text=text, user=self.own_id, language=language, buttons=below)

    def notice(self, text: str) -> Waiting:
        """A message other than an answer: a reply, in a private chat too."""
        return replace(self.delivery(text), reply_to=self.message)


def read_message(message: Message, me: User, task_id: str, *, belongs: bool = False) -> IncomingMessage | None:
    """None for a message that is not addressed to the bot. `belongs`: it is part of an album that is."""
    meaning = _meaning(message, me, belongs) if _by_a_person(message) else None
    if meaning is None:
        return None
    command, text = meaning
    unreadable = message.text is None and not (command or text)
    speaker, replied = message.sender_chat or message.from_user, message.reply_to_message
    private = message.chat.type == "private"
    return IncomingMessage(
        task_id=task_id,
        chat=message.chat.id,
        group=not private,
        message=message.message_id,
        label=f"{message.chat.id}-{message.message_id}",
        reply_to=None if private else message.message_id,
        thread=message.message_thread_id if message.is_topic_message else None,
        user=speaker.id if speaker else 0,
        name=shown_name(speaker),
        said_at=message.date.astimezone(UTC).isoformat(),
        text=text,
        command=command,
        unreadable=unreadable,
        album=message.media_group_id,
        corrects="" if command or unreadable else corrected_label(message, text),
        origin=origin_of(message, me),
        chat_title=message.chat.title or "",
        replied=replied.message_id if replied and replied.from_user and replied.from_user.id == me.id else None,
        language=language_of(message.from_user.language_code) if message.from_user else None,
        cut=_cut(message),
    )


def read_press(
    press: CallbackQuery, pressed: Message | InaccessibleMessage, command: str, me: User, task_id: str
) -> IncomingMessage | None:
    """The command of a button as its person would have written it."""
    message = pressed if isinstance(pressed, Message) else None
    typed = Message(
        message_id=message.message_id if message else 0,
        date=datetime.now(UTC),
        chat=pressed.chat,
        from_user=press.from_user,
        text=command,
        entities=[MessageEntity(type="bot_command", offset=0, length=len(command.split()[0]))],
        message_thread_id=message.message_thread_id if message else None,
        is_topic_message=message.is_topic_message if message else None,
    )
    number, read = typed.message_id or None, read_message(typed, me, task_id)
    if read is None:
        return None
    apart = read.command in APART or (read.command == "forget" and read.text.startswith("task:"))
    reply_to, replaces = (number, None) if apart else (None, number)
    return replace(read, label=f"press-{press.id}", pressed=True, reply_to=reply_to, replaces=replaces)


def _meaning(message: Message, me: User, belongs: bool) -> tuple[str, str] | None:
    """(command, text) of a message to the bot."""
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
        return command, "".join(text.split(maxsplit=1)[1:]).strip()
    words = (text if forwarded else _without_name(text, entities, me)).strip()
    return ("", words) if words or message.text is not None or kind_of(message) in ATTACHMENTS else None


def _cut(message: Message) -> int | None:
    length = len((message.text or "").encode("utf-16-le", "surrogatepass")) // 2
    return length if length >= CUT_CHARACTERS and message.forward_origin is None else None


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


def corrected_label(message: Message, text: str) -> str:
    """The label of the recording that is corrected, or "": a reply to one's own recording corrects what was heard in it."""
    replied = message.reply_to_message
    if replied is None or message.text is None or not text or message.forward_origin is not None:
        return ""
    author = replied.from_user.id if replied.from_user else None
    own = author is not None and message.from_user is not None and author == message.from_user.id
    return f"{message.chat.id}-{replied.message_id}" if own and kind_of(replied) in HEARD else ""


# Where the text comes from: reply, quote, forward, attachment.


def origin_of(message: Message, me: User) -> Origin:
    """Everything that is known, within the limits of the wire contract."""
    kind = _attached(message)
    file = getattr(message, kind, None) if kind in _NAMED else None
    attachment = Attachment(kind, readable_name(getattr(file, "file_name", None)) or None) if kind else None
    chat_type = "private" if message.chat.type == "private" else "group"
    topic = str(message.message_thread_id) if message.is_topic_message else "General" if message.chat.is_forum else None
    found = Origin(chat_type, _quote(message, me), _forward(message.forward_origin, me), attachment, topic)
    return Origin.parse(found.to_json())


def shown_name(sender: User | Chat | None) -> str:
    """A display name."""
    if sender is None:
        return ""
    title = sender.title if isinstance(sender, Chat) else None
    return readable_name(title or sender.full_name.strip() or sender.username)


def _quote(message: Message, me: User) -> Quote | None:
    """The quote of a message in this chat, or else in another chat, of which only the selected part is known; None for a service message."""
    part = message.quote.text if message.quote else None
    replied, elsewhere = message.reply_to_message, message.external_reply
    if replied is not None:
        text = replied.text or replied.caption or words_of(replied) or ""
        sender = replied.sender_chat or replied.from_user
        forwarded = _forward(replied.forward_origin, me)
        name, user_id = (shown_name(sender) or None, str(sender.id)) if sender else (None, None)
        first = (forwarded.name or "somebody unnamed") if forwarded else None
        by_bot, is_part = sender is not None and sender.id == me.id, bool(part) and part != text
        return Quote(part or text, name, user_id, by_bot, is_part, _attached(replied), first)
    if elsewhere is not None:
        author = _forward(elsewhere.origin, me) or Forward()
        text = part or words_of(elsewhere) or ""
        attached = next((kind for kind in sorted(ATTACHMENTS) if getattr(elsewhere, kind, None) is not None), None)
        return Quote(text, author.name, author.user_id, author.by_bot, bool(part), attached)
    return None


def _forward(origin: MessageOriginUnion | None, me: User) -> Forward | None:
    if origin is None:
        return None
    kind, date = MessageOriginType(origin.type).value, origin.date.timestamp()
    if isinstance(origin, MessageOriginHiddenUser):
        return Forward(readable_name(origin.sender_user_name) or None, kind, date=date)
    fields = ("sender_user", "sender_chat", "chat")
    author: User | Chat = next(getattr(origin, name) for name in fields if hasattr(origin, name))
    return Forward(shown_name(author) or None, kind, str(author.id), author.id == me.id, date)


def _attached(message: Message) -> str | None:
    return kind if (kind := kind_of(message)) in ATTACHMENTS else None
