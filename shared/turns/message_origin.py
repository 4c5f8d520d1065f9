"""Where the words of a message come from, beside who sent it: the kind of chat, what it replies to, whose words a forward holds, what came with it.

    chat_type    "private" or "group"
    topic        of a chat with topics: its number, or "General"
    quote        {"text", "from", "user_id", "by_bot", "part", "attachment", "forwarded_from"}: the message that it replies to
    forward      {"from", "kind", "user_id", "by_bot", "date"}: the text is not the sender's own; "date" is POSIX seconds
    attachment   {"kind", "name"}: what came with it and was not read; the text is its caption

These are fields of a task and of the turn that it becomes. All of them, and each field in them, may be missing: h-cli's bot sends none. Nothing is
addressed by them, so nothing is refused over them: what has another form is left out, and what is too long is cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Self

from shared.text.format import shorten
from shared.wire.ids import timestamp_of, user_id_of
from shared.wire.json import RecordRefused, well_formed

#: The longest of each, in characters.
QUOTE_CHARACTERS, NAME_CHARACTERS, FILE_NAME_CHARACTERS = 1_000, 128, 200
CHAT_TYPES = ("private", "group")
#: A passage of a document: the words of whoever wrote the file of that name (shared/turns/chunking.py).
OF_A_FILE = "file"
#: Who is forwarded: a person, one who hides the account, a group in whose name was written, a channel.
FORWARD_KINDS = ("user", "hidden_user", "chat", "channel", OF_A_FILE)

_TOPIC = re.compile(r"[0-9]{1,19}|General")
_KIND = re.compile(r"[a-z][a-z_]{0,31}\Z")


@dataclass(frozen=True)
class Quote:
    """The message that is replied to, or the part of it that was selected. `attachment`: the kind of what it showed beside its text."""

    text: str = ""
    name: str | None = None
    user_id: str | None = None
    by_bot: bool = False
    part: bool = False
    attachment: str | None = None
    forwarded_from: str | None = None

    @classmethod
    def parse(cls, value: object) -> Self | None:
        if not isinstance(value, dict):
            return None
        made = cls(
            text_within(value.get("text"), QUOTE_CHARACTERS) or "",
            text_within(value.get("from"), NAME_CHARACTERS),
            user_id_of(value.get("user_id")),
            value.get("by_bot") is True,
            value.get("part") is True,
            kind_within(value.get("attachment")),
            text_within(value.get("forwarded_from"), NAME_CHARACTERS),
        )
        return made if made.text or made.attachment else None


@dataclass(frozen=True)
class Forward:
    """Whose words a forwarded message holds, as far as the bot says it, and when they were written (POSIX seconds)."""

    name: str | None = None
    kind: str | None = None
    user_id: str | None = None
    by_bot: bool = False
    date: float | None = None

    @classmethod
    def parse(cls, value: object) -> Self | None:
        """An object without any field it knows is a forward, too: of whom, nobody says."""
        if not isinstance(value, dict):
            return None
        kind = value.get("kind")
        return cls(
            text_within(value.get("from"), NAME_CHARACTERS),
            kind if kind in FORWARD_KINDS else None,
            user_id_of(value.get("user_id")),
            value.get("by_bot") is True,
            _date(value.get("date")),
        )


@dataclass(frozen=True)
class Attachment:
    """What came with a message and was not read: `photo`, `document`, …; the name of a file."""

    kind: str
    name: str | None = None

    @classmethod
    def parse(cls, value: object) -> Self | None:
        if not isinstance(value, dict) or (kind := kind_within(value.get("kind"))) is None:
            return None
        return cls(kind, text_within(value.get("name"), FILE_NAME_CHARACTERS))


def is_group(chat_id: str, chat_type: str | None = None) -> bool:
    """Whether a chat is a group. Bots of h-cli do not say so: they number groups below zero, which counts where no type is known."""
    return chat_type == "group" if chat_type else chat_id.startswith("-")


@dataclass(frozen=True)
class Origin:
    """All of it; `NOWHERE` where nothing is known."""

    chat_type: str | None = None
    quote: Quote | None = None
    forward: Forward | None = None
    attachment: Attachment | None = None
    topic: str | None = None

    @classmethod
    def parse(cls, record: dict[str, Any]) -> Origin:
        """Of a task's or turn's fields; never refused."""
        if FIELDS.isdisjoint(record):
            return NOWHERE
        chat_type, topic = record.get("chat_type"), record.get("topic")
        return cls(
            chat_type if chat_type in CHAT_TYPES else None,
            Quote.parse(record.get("quote")),
            Forward.parse(record.get("forward")),
            Attachment.parse(record.get("attachment")),
            topic if isinstance(topic, str) and _TOPIC.fullmatch(topic) else None,
        )

    def to_json(self) -> dict[str, Any]:
        """The fields of a task or turn; none for what is not known."""
        parts = {name: getattr(self, name) for name in FIELDS}
        return {name: _fields(one) for name, one in sorted(parts.items()) if one is not None}

    @property
    def texts(self) -> tuple[str, ...]:
        """All words in it that people wrote or chose: whoever looks for words in a turn looks for them here, too."""
        quote, forward, attachment = self.quote, self.forward, self.attachment
        found = (
            *((quote.text, quote.name, quote.forwarded_from) if quote else ()),
            forward.name if forward else None,
            attachment.name if attachment else None,
        )
        return tuple(filter(None, found))


NOWHERE = Origin()
FIELDS = frozenset(one.name for one in fields(Origin))
#: Fields of the wire that are called otherwise here.
_NAMES = {"name": "from"}


def _fields(part: Any) -> Any:
    if isinstance(part, str):
        return part
    names = {} if isinstance(part, Attachment) else _NAMES
    given = {names.get(one.name, one.name): getattr(part, one.name) for one in fields(part)}
    return {name: value for name, value in given.items() if value or isinstance(value, float)}


def text_within(value: object, most: int) -> str | None:
    """A text of a record, cut; None for anything else."""
    return shorten(well_formed(value), most) if isinstance(value, str) and value.strip() else None


def kind_within(value: object) -> str | None:
    """The kind of what came with a message, in a record; None for anything else."""
    return value if isinstance(value, str) and _KIND.match(value) else None


def _date(value: object) -> float | None:
    try:
        return timestamp_of(value)
    except RecordRefused:
        return None
