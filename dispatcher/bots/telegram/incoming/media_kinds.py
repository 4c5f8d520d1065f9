"""The files that the bot fetches for the dispatcher, by kind of message: one line of `KINDS` each. Pure functions.

`stand_in` is the text of a message that has none: the wire contract wants one, and a dispatcher that knows no media (h-cli's) answers that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiogram.types import Message, PhotoSize

from dispatcher.bots.telegram.incoming.origins import plain_file_name


@dataclass(frozen=True)
class FileToFetch:
    """A file at Telegram. `size`: as Telegram says it, 0 where it does not."""

    kind: str
    file_id: str
    size: int = 0
    mime: str = "application/octet-stream"
    name: str | None = None
    seconds: int = 0


@dataclass(frozen=True)
class MediaKind:
    """How a kind of message is read: `file` is the one to fetch, None if this message has none that can be read."""

    stand_in: str
    file: Callable[[Message], FileToFetch | None]


def file_of(message: Message) -> FileToFetch | None:
    """The file that came with a message, if it is of a kind that is fetched."""
    kind = KINDS.get(str(getattr(message.content_type, "value", message.content_type)))
    return kind.file(message) if kind else None


def stand_in(kind: str) -> str:
    return KINDS[kind].stand_in


def _photo(message: Message) -> FileToFetch | None:
    return _picture("photo", message.photo or ())


def _sticker(message: Message) -> FileToFetch | None:
    """A moving one is shown by its thumbnail."""
    sticker = message.sticker
    if sticker is None:
        return None
    if sticker.is_animated or sticker.is_video:
        return _picture("sticker", [sticker.thumbnail] if sticker.thumbnail else ())
    return FileToFetch("sticker", sticker.file_id, sticker.file_size or 0, "image/webp")


def _thumbnail(kind: str) -> Callable[[Message], FileToFetch | None]:
    """Of a film: what its beginning looks like."""

    def found(message: Message) -> FileToFetch | None:
        film: Any = getattr(message, kind)
        return _picture(kind, [film.thumbnail] if film and film.thumbnail else ())

    return found


def _sound(kind: str, mime: str) -> Callable[[Message], FileToFetch | None]:
    def found(message: Message) -> FileToFetch | None:
        sound: Any = getattr(message, kind)
        if sound is None:
            return None
        name = plain_file_name(getattr(sound, "file_name", None))
        said = getattr(sound, "mime_type", None) or mime
        return FileToFetch(kind, sound.file_id, sound.file_size or 0, said, name, max(0, sound.duration or 0))

    return found


def _document(message: Message) -> FileToFetch | None:
    file = message.document
    if file is None:
        return None
    mime, name = file.mime_type or FileToFetch.mime, plain_file_name(file.file_name)
    return FileToFetch("document", file.file_id, file.file_size or 0, mime, name)


def _picture(kind: str, sizes: Sequence[PhotoSize]) -> FileToFetch | None:
    """The largest of a picture's sizes."""
    if not sizes:
        return None
    largest = max(sizes, key=lambda one: (one.width * one.height, one.file_size or 0))
    return FileToFetch(kind, largest.file_id, largest.file_size or 0, "image/jpeg")


#: Kind of message, as Telegram calls it → how it is read.
KINDS: dict[str, MediaKind] = {
    "photo": MediaKind("(picture)", _photo),
    "sticker": MediaKind("(sticker)", _sticker),
    "animation": MediaKind("(animation)", _thumbnail("animation")),
    "video": MediaKind("(video)", _thumbnail("video")),
    "voice": MediaKind("(voice message)", _sound("voice", "audio/ogg")),
    "audio": MediaKind("(audio)", _sound("audio", "audio/mpeg")),
    "document": MediaKind("(file)", _document),
    "video_note": MediaKind("(video message)", _sound("video_note", "video/mp4")),
}
