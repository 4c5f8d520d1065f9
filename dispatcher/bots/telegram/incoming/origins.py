"""Where the text of a Telegram message comes from: reply, quote, forward, attachment. Pure functions."""

from __future__ import annotations

from aiogram.enums import ContentType
from aiogram.types import (
    Chat,
    ExternalReplyInfo,
    Message,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    User,
)

from dispatcher.bots.telegram.incoming.plain_words import words_of
from shared.turns.message_origin import NAME_CHARACTERS, Attachment, Forward, Origin, Quote

MessageOrigin = MessageOriginUser | MessageOriginHiddenUser | MessageOriginChat | MessageOriginChannel

#: What people send other than text and what becomes words (plain_words.py); others are service messages (a member joined, a title changed).
_KINDS = "animation audio document paid_media photo sticker story video video_note voice"
UNREADABLE = frozenset(map(ContentType, _KINDS.split()))
#: Attachments that may have a file name.
_NAMED = ("document", "audio", "video", "animation")


def origin_of(message: Message, me: User) -> Origin:
    """Everything that is known, within the limits of the wire contract."""
    found = Origin(
        "private" if message.chat.type == "private" else "group",
        _quote(message, me),
        _forward(message.forward_origin, me),
        _attachment(message),
    )
    return Origin.parse(found.to_json())


def shown_name(sender: User | Chat | None) -> str:
    """A display name, without invisible characters and those that change the direction of text."""
    if sender is None:
        return ""
    title = sender.title if isinstance(sender, Chat) else None
    return _shown(title or sender.full_name.strip() or sender.username or "")


def plain_file_name(name: str | None) -> str | None:
    return _shown(name or "") or None


def _shown(name: str) -> str:
    shown = "".join(character for character in name if character.isprintable())
    return " ".join(shown.split())[:NAME_CHARACTERS]


def _quote(message: Message, me: User) -> Quote | None:
    """The quote of a message in this chat, or else in another chat, of which only the selected part is known; None for a service message."""
    part = message.quote.text if message.quote else None
    replied, elsewhere = message.reply_to_message, message.external_reply
    if replied is not None:
        text, sender = _text(replied), replied.sender_chat or replied.from_user
        forwarded = _forward(replied.forward_origin, me)
        name, user_id = (shown_name(sender) or None, str(sender.id)) if sender else (None, None)
        first = (forwarded.name or "somebody unnamed") if forwarded else None
        by_bot, is_part = sender is not None and sender.id == me.id, bool(part) and part != text
        return Quote(part or text, name, user_id, by_bot, is_part, _kind(replied), first)
    if elsewhere is not None:
        author = _forward(elsewhere.origin, me) or Forward()
        text, kind = part or words_of(elsewhere) or "", _kind_elsewhere(elsewhere)
        return Quote(text, author.name, author.user_id, author.by_bot, bool(part), kind)
    return None


def _text(replied: Message) -> str:
    return replied.text or replied.caption or words_of(replied) or ""


def _forward(origin: MessageOrigin | None, me: User) -> Forward | None:
    if origin is None:
        return None
    date = origin.date.timestamp()
    if isinstance(origin, MessageOriginHiddenUser):
        return Forward(_shown(origin.sender_user_name) or None, "hidden_user", date=date)
    if isinstance(origin, MessageOriginUser):
        sender = origin.sender_user
        return Forward(shown_name(sender) or None, "user", str(sender.id), sender.id == me.id, date)
    chat = origin.sender_chat if isinstance(origin, MessageOriginChat) else origin.chat
    kind = "chat" if isinstance(origin, MessageOriginChat) else "channel"
    return Forward(shown_name(chat) or None, kind, str(chat.id), date=date)


def _attachment(message: Message) -> Attachment | None:
    kind = _kind(message)
    file = getattr(message, kind, None) if kind in _NAMED else None
    return Attachment(kind, _shown(getattr(file, "file_name", None) or "") or None) if kind else None


def _kind(message: Message) -> str | None:
    return str(ContentType(message.content_type).value) if message.content_type in UNREADABLE else None


def _kind_elsewhere(reply: ExternalReplyInfo) -> str | None:
    kinds = sorted(one.value for one in UNREADABLE)
    return next((kind for kind in kinds if getattr(reply, kind, None) is not None), None)
