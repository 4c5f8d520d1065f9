"""What came with a message as a file: its bytes are stored by their hash (shared/media/), never in a task.

    media: [{"kind", "sha256", "size", "mime", "name", "seconds", "text", "summary", "kept"}, …]:
    kind: photo, voice, document, …

A field of a task and of the turn that it becomes. An entry of another form is left out: a message is never refused over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import Field, OnErrorOmit, PlainValidator, TypeAdapter

from shared.text.format import one_line, shorten
from shared.turns.message_origin import LENIENT, FileName, Kind, text_within

#: An album has ten at most.
MEDIA_MOST = 10
#: The longest text that is remembered of one, and the longest summary of that.
TEXT_CHARACTERS, SUMMARY_CHARACTERS = 40_000, 500

#: Kinds of which Claude sees a picture, and kinds that are heard: the words in them are the message.
PICTURES = ("photo", "sticker", "animation", "video")
HEARD = ("voice", "audio", "video_note")
#: How an answer begins that shows what was heard.
HEARD_MARK = "🎙"
DOCUMENT = "document"
#: How they are called where a person or the model reads it; others by their own name.
NAMES = {"photo": "picture", "voice": "voice message", "video_note": "video message", "document": "file"}
#: How much of what a picture shows stands in a label. Characters.
LABEL_CHARACTERS = 400
_BRACKETS = str.maketrans("[]", "()")

_Count = Annotated[int, Field(strict=True, ge=0, lt=1 << 40)]
_Mime = Annotated[str, Field(strict=True, pattern="^[a-z]{1,20}/[A-Za-z0-9.+-]{1,100}$")]


@dataclass(frozen=True)
class Media:
    """One file. `size` in bytes; `seconds`: the length of a recording, 0 where unknown; `name`: as the sender named it; `text`: what is remembered
    of its content, written by the dispatcher (words that were heard, what a picture shows, the text of a document); `summary`: of a text that is too
    long to be told whole, what it says in short; `kept`: whether the file itself
    is kept for ever (KEEP_MEDIA), False if it was to be and could not, None if it was not to be."""

    kind: Kind
    sha256: Annotated[str, Field(strict=True, pattern="^[0-9a-f]{64}$")]
    size: _Count
    mime: Annotated[_Mime, LENIENT] = "application/octet-stream"
    name: FileName = None
    seconds: Annotated[_Count, LENIENT] = 0
    text: Annotated[str, PlainValidator(lambda value: text_within(value, TEXT_CHARACTERS) or "")] = ""
    summary: Annotated[str, PlainValidator(lambda value: text_within(value, SUMMARY_CHARACTERS) or "")] = ""
    kept: Annotated[bool | None, Field(strict=True), LENIENT] = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value or name == "size" or value is False}


def media_of(record: dict[str, Any]) -> tuple[Media, ...]:
    """The files of a task's or turn's record."""
    listed = record.get("media")
    return tuple(_shape().validate_python(listed)[:MEDIA_MOST]) if isinstance(listed, list) else ()


@cache
def _shape() -> TypeAdapter[list[Media]]:
    """What reads an entry of another form as none."""
    return TypeAdapter(list[OnErrorOmit[Media]])


def name_of(kind: str) -> str:
    return NAMES.get(kind, kind.replace("_", " "))


def with_media(content: str, media: tuple[Media, ...]) -> str:
    """`[picture: a red bicycle] caption`: what was said, after a label for each file that came with it. No text closes its label."""
    return "\n".join(filter(None, [" ".join(_label(one) for one in media), content])) if media else content


def with_label(content: str, label: str, about: str) -> str:
    """`[label: about]` in a line ahead of what was said."""
    return f"[{label}: {one_line(about).translate(_BRACKETS)}]\n{content}"


def _label(one: Media) -> str:
    text = "" if one.kind in HEARD else one.summary or one.text  # what was heard is the content
    about = ": ".join(filter(None, [one_line(one.name or ""), shorten(one_line(text), LABEL_CHARACTERS)]))
    name = name_of(one.kind)
    return f"[{name}: {about.translate(_BRACKETS)}]" if about else f"[{name}]"


def media_words(media: tuple[Media, ...]) -> tuple[str, ...]:
    """All words in them that people wrote or said: whoever looks for words in a turn looks for them here, too."""
    return tuple(word for one in media for word in (one.name, one.text, one.summary) if word)
