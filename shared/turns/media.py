"""What came with a message as a file: its bytes are stored by their hash (shared/media/), never in a task.

    media: [{"kind", "sha256", "size", "mime", "name", "seconds", "text", "summary", "kept"}, …]:
    kind: photo, voice, document, …

A field of a task and of the turn that it becomes. An entry of another form is left out: a message is never refused over it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self, TypeGuard

from shared.text.format import one_line, shorten
from shared.turns.message_origin import FILE_NAME_CHARACTERS, kind_within, text_within

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

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_MIME = re.compile(r"[a-z]{1,20}/[A-Za-z0-9.+-]{1,100}\Z")


@dataclass(frozen=True)
class Media:
    """One file. `size` in bytes; `seconds`: the length of a recording, 0 where unknown; `name`: as the sender named it; `text`: what is remembered
    of its content, written by the dispatcher (words that were heard, what a picture shows, the text of a document); `summary`: of a text that is too
    long to be told whole, what it says in short; `kept`: whether the file itself
    is kept for ever (KEEP_MEDIA), False if it was to be and could not, None if it was not to be."""

    kind: str
    sha256: str
    size: int
    mime: str = "application/octet-stream"
    name: str | None = None
    seconds: int = 0
    text: str = ""
    summary: str = ""
    kept: bool | None = None

    @classmethod
    def parse(cls, value: object) -> Self | None:
        if not isinstance(value, dict):
            return None
        kind, (sha256, size, mime) = kind_within(value.get("kind")), map(value.get, ("sha256", "size", "mime"))
        if not (kind and isinstance(sha256, str) and _SHA256.match(sha256) and _is_count(size)):
            return None
        seconds, kept = value.get("seconds"), value.get("kept")
        return cls(
            kind,
            sha256,
            size,
            mime if isinstance(mime, str) and _MIME.match(mime) else cls.mime,
            text_within(value.get("name"), FILE_NAME_CHARACTERS) or None,
            seconds if _is_count(seconds) else 0,
            text_within(value.get("text"), TEXT_CHARACTERS) or "",
            text_within(value.get("summary"), SUMMARY_CHARACTERS) or "",
            kept if isinstance(kept, bool) else None,
        )

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"kind": self.kind, "sha256": self.sha256, "size": self.size, "mime": self.mime}
        more = {"name": self.name, "seconds": self.seconds, "text": self.text, "summary": self.summary}
        flag = {} if self.kept is None else {"kept": self.kept}
        return record | {name: value for name, value in more.items() if value} | flag


def media_of(record: dict[str, Any]) -> tuple[Media, ...]:
    """The files of a task's or turn's record."""
    listed = record.get("media")
    found = [Media.parse(one) for one in listed] if isinstance(listed, list) else []
    return tuple(one for one in found if one is not None)[:MEDIA_MOST]


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40


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
