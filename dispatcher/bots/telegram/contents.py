"""What comes with a message or in place of its text, by kind: files that the bot fetches for the dispatcher, and what becomes words.

Everything in the words was chosen by somebody: each stands on a line of its own that begins with what it is. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiogram.types import Checklist, Contact, Dice, ExternalReplyInfo, Game, Location, Message, PhotoSize, Poll, Venue

from shared.text.format import cut, one_line, shorten
from shared.turns.message_origin import NAME_CHARACTERS

#: Kind of message, as Telegram calls it → the text of one that has none (the wire contract wants one, and a dispatcher that knows no media, such as
#: h-cli's, answers that), and the type of its file where Telegram does not say it. Of a film its first picture is fetched.
FILES = {
    "photo": ("(picture)", "image/jpeg"),
    "sticker": ("(sticker)", "image/webp"),
    "animation": ("(animation)", ""),
    "video": ("(video)", ""),
    "voice": ("(voice message)", "audio/ogg"),
    "audio": ("(audio)", "audio/mpeg"),
    "document": ("(file)", "application/octet-stream"),
    "video_note": ("(video message)", "video/mp4"),
}
_FILMS = ("animation", "video")


@dataclass(frozen=True)
class FileToFetch:
    """A file at Telegram. `size`: as Telegram says it, 0 where it does not."""

    kind: str
    file_id: str
    size: int = 0
    mime: str = "application/octet-stream"
    name: str | None = None
    seconds: int = 0


def kind_of(message: Message) -> str:
    return str(getattr(message.content_type, "value", message.content_type))


def file_of(message: Message) -> FileToFetch | None:
    """The file that came with a message, if it is of a kind that is fetched."""
    kind = kind_of(message)
    if kind not in FILES:
        return None
    file: Any = getattr(message, kind)
    if kind == "photo":
        file = max(file or (), key=lambda one: (one.width * one.height, one.file_size or 0), default=None)
    elif kind in _FILMS or (kind == "sticker" and (file.is_animated or file.is_video)):
        file = file.thumbnail
    if file is None:
        return None
    said = "image/jpeg" if isinstance(file, PhotoSize) else getattr(file, "mime_type", None)
    seconds = max(0, getattr(file, "duration", 0) or 0)
    name = readable_name(getattr(file, "file_name", None)) or None
    return FileToFetch(kind, file.file_id, file.file_size or 0, said or FILES[kind][1], name, seconds)


def readable_name(name: str | None) -> str:
    """A name that somebody chose, without characters that are invisible or change the direction of text."""
    shown = "".join(character for character in name or "" if character.isprintable())
    return cut(" ".join(shown.split()), NAME_CHARACTERS)


#: The longest of each text that somebody chose, and the most lines of a list. Characters.
CHARACTERS, LINES = 500, 100


def words_of(message: Message | ExternalReplyInfo) -> str | None:
    """None for what is not of these kinds. A venue is a location, too, and a checklist has its own field: the first that fits counts."""
    for name, words in WORDS.items():
        found = getattr(message, name, None)
        if found is not None:
            return words(found)
    return None


def _location(place: Location) -> str:
    more = [f"accurate to {place.horizontal_accuracy:.0f} m"] if place.horizontal_accuracy else []
    more += ["shared live: this is where it began"] if place.live_period else []
    return f"Location: {_where(place)}{_about(more)}"


def _where(place: Location) -> str:
    return f"{place.latitude:.6f}, {place.longitude:.6f}"


def _about(more: list[str]) -> str:
    return f" ({', '.join(more)})" if more else ""


def _venue(venue: Venue) -> str:
    return f"Location: {_where(venue.location)}{_about(_all(venue.title, venue.address))}"


def _contact(contact: Contact) -> str:
    name = " ".join(_all(contact.first_name, contact.last_name))
    return "Contact: " + ", ".join(_all(name, contact.phone_number))


def _poll(poll: Poll) -> str:
    about = ["several answers allowed"] if poll.allows_multiple_answers else []
    about += ["closed"] if poll.is_closed else []
    voted = any(one.voter_count for one in poll.options)
    lines = [f"- {_shown(one.text)}{f' ({one.voter_count})' if voted else ''}" for one in poll.options[:LINES]]
    kind = "Quiz" if poll.type == "quiz" else "Poll"
    return "\n".join([f"{kind}{_about(about)}: {_shown(poll.question)}", *lines])


def _dice(dice: Dice) -> str:
    return f"Throw: {_shown(dice.emoji)} {dice.value}"


def _checklist(checklist: Checklist) -> str:
    tasks = [f"- [{'x' if one.completion_date else ' '}] {_shown(one.text)}" for one in checklist.tasks[:LINES]]
    return "\n".join([f"Checklist: {_shown(checklist.title)}", *tasks])


def _game(game: Game) -> str:
    return "Game: " + ". ".join(_all(game.title, game.description))


def _all(*texts: str | None) -> list[str]:
    """Those that are there."""
    return [one for one in map(_shown, texts) if one]


def _shown(text: str | None) -> str:
    return shorten(one_line("".join(one for one in text or "" if one.isprintable() or one.isspace())), CHARACTERS)


#: Field of a message → its words.
WORDS: dict[str, Callable[[Any], str]] = {
    "venue": _venue,
    "location": _location,
    "contact": _contact,
    "poll": _poll,
    "dice": _dice,
    "checklist": _checklist,
    "game": _game,
}
