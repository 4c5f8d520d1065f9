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

from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, TypeAdapter, ValidationError, WrapValidator
from pydantic_core import PydanticUseDefault

from shared.text.format import shorten
from shared.wire.ids import timestamp_of, user_id_of
from shared.wire.json import well_formed

#: The longest of each, in characters.
QUOTE_CHARACTERS, NAME_CHARACTERS, FILE_NAME_CHARACTERS = 1_000, 128, 200
#: A passage of a document: the words of whoever wrote the file of that name (shared/turns/chunking.py).
OF_A_FILE = "file"
CHAT_TYPES = ("private", "group")
#: Who is forwarded: a person, one who hides the account, a group in whose name was written, a channel.
FORWARD_KINDS = ("user", "hidden_user", "chat", "channel", OF_A_FILE)


def text_within(value: object, most: int) -> str | None:
    """A text of a record, cut; None for anything else."""
    return shorten(well_formed(value), most) if isinstance(value, str) and value.strip() else None


def _left_out(value: object, read: Any) -> Any:
    try:
        return read(value)
    except ValidationError:
        raise PydanticUseDefault from None


#: Of a field that counts as missing if it has another form.
LENIENT = WrapValidator(_left_out)
#: What came with a message: `photo`, `document`, …
Kind = Annotated[str, Field(strict=True, pattern=r"^[a-z][a-z_]{0,31}$")]
Name = Annotated[str | None, PlainValidator(lambda value: text_within(value, NAME_CHARACTERS))]
FileName = Annotated[str | None, PlainValidator(lambda value: text_within(value, FILE_NAME_CHARACTERS))]
_UserId = Annotated[str | None, PlainValidator(user_id_of)]
_Flag = Annotated[bool, PlainValidator(lambda value: value is True)]


@dataclass(frozen=True)
class Quote:
    """The message that is replied to, or the part of it that was selected. `attachment`: the kind of what it showed beside its text."""

    text: Annotated[str, PlainValidator(lambda value: text_within(value, QUOTE_CHARACTERS) or "")] = ""
    name: Annotated[Name, Field(alias="from")] = None
    user_id: _UserId = None
    by_bot: _Flag = False
    part: _Flag = False
    attachment: Annotated[Kind | None, LENIENT] = None
    forwarded_from: Name = None


@dataclass(frozen=True)
class Forward:
    """Whose words a forwarded message holds, as far as the bot says it, and when they were written (POSIX seconds). One without any field is a
    forward, too: of whom, nobody says."""

    name: Annotated[Name, Field(alias="from")] = None
    kind: Annotated[str | None, PlainValidator(lambda value: value if value in FORWARD_KINDS else None)] = None
    user_id: _UserId = None
    by_bot: _Flag = False
    date: Annotated[float | None, PlainValidator(timestamp_of), LENIENT] = None


@dataclass(frozen=True)
class Attachment:
    """What came with a message and was not read; the name of a file."""

    kind: Kind
    name: FileName = None


def is_group(chat_id: str, chat_type: str | None = None) -> bool:
    """Whether a chat is a group. Bots of h-cli do not say so: they number groups below zero, which counts where no type is known."""
    return chat_type == "group" if chat_type else chat_id.startswith("-")


def _with_words(quote: Quote | None) -> Quote | None:
    """A reply to what has neither text nor attachment says nothing."""
    return quote if quote and (quote.text or quote.attachment) else None


@dataclass(frozen=True)
class Origin:
    """All of it; `NOWHERE` where nothing is known."""

    chat_type: Annotated[str | None, PlainValidator(lambda value: value if value in CHAT_TYPES else None)] = None
    quote: Annotated[Quote | None, AfterValidator(_with_words), LENIENT] = None
    forward: Annotated[Forward | None, LENIENT] = None
    attachment: Annotated[Attachment | None, LENIENT] = None
    topic: Annotated[str | None, Field(strict=True, pattern="^([0-9]{1,19}|General)$"), LENIENT] = None

    @classmethod
    def parse(cls, record: dict[str, Any]) -> Origin:
        """Of a task's or turn's fields; never refused."""
        known = {name: record[name] for name in FIELDS & record.keys()}
        return _shape().validate_python(known) if known else NOWHERE

    def to_json(self) -> dict[str, Any]:
        """The fields of a task or turn; none for what is not known."""
        return dict(_shape().dump_python(self, by_alias=True, exclude_defaults=True))

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


@cache
def _shape() -> TypeAdapter[Origin]:
    """What reads and writes the fields."""
    return TypeAdapter(Origin)
