"""What is no text and no file, as words: a place, a contact, a poll, a throw of dice, a list, a game. Pure functions.

Everything in them was chosen by somebody: each stands on a line of its own that begins with what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiogram.types import Checklist, Contact, Dice, ExternalReplyInfo, Game, Location, Message, Poll, Venue

from shared.text.format import one_line, shorten

#: The longest of each text that somebody chose, and the most lines of a list. Characters.
CHARACTERS, LINES = 500, 100


def words_of(message: Message | ExternalReplyInfo) -> str | None:
    """None for what is not of these kinds. A venue is a location, too, and a checklist has its own field: the first that fits counts."""
    for name, words in KINDS.items():
        found = getattr(message, name, None)
        if found is not None:
            return words(found)
    return None


def _location(place: Location) -> str:
    more = [f"accurate to {place.horizontal_accuracy:.0f} m"] if place.horizontal_accuracy else []
    more += ["shared live: this is where it began"] if place.live_period else []
    about = ", ".join(more)
    return f"Location: {_where(place)}{f' ({about})' if about else ''}"


def _where(place: Location) -> str:
    return f"{place.latitude:.6f}, {place.longitude:.6f}"


def _venue(venue: Venue) -> str:
    name = ", ".join(filter(None, [_shown(venue.title), _shown(venue.address)]))
    return f"Location: {_where(venue.location)}{f' ({name})' if name else ''}"


def _contact(contact: Contact) -> str:
    name = " ".join(filter(None, [_shown(contact.first_name), _shown(contact.last_name)]))
    return "Contact: " + ", ".join(filter(None, [name, _shown(contact.phone_number)]))


def _poll(poll: Poll) -> str:
    kind = "Quiz" if poll.type == "quiz" else "Poll"
    several = ["several answers allowed"] if poll.allows_multiple_answers else []
    about = ", ".join([*several, *(["closed"] if poll.is_closed else [])])
    voted = any(one.voter_count for one in poll.options)
    lines = [f"- {_shown(one.text)}{f' ({one.voter_count})' if voted else ''}" for one in poll.options[:LINES]]
    return "\n".join([f"{kind}{f' ({about})' if about else ''}: {_shown(poll.question)}", *lines])


def _dice(dice: Dice) -> str:
    return f"Throw: {_shown(dice.emoji)} {dice.value}"


def _checklist(checklist: Checklist) -> str:
    tasks = [f"- [{'x' if one.completion_date else ' '}] {_shown(one.text)}" for one in checklist.tasks[:LINES]]
    return "\n".join([f"Checklist: {_shown(checklist.title)}", *tasks])


def _game(game: Game) -> str:
    return "Game: " + ". ".join(filter(None, [_shown(game.title), _shown(game.description)]))


def _shown(text: str | None) -> str:
    return shorten(one_line("".join(one for one in text or "" if one.isprintable() or one.isspace())), CHARACTERS)


#: Field of a message → its words.
KINDS: dict[str, Callable[[Any], str]] = {
    "venue": _venue,
    "location": _location,
    "contact": _contact,
    "poll": _poll,
    "dice": _dice,
    "checklist": _checklist,
    "game": _game,
}
