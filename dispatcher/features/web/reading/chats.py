"""What people call the chats, and what was said last in each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dispatcher.features.web.reading.markdown import words_of
from dispatcher.memory.day.chats import chat_name
from dispatcher.memory.day.open_memory import OpenedMemory
from dispatcher.memory.tombstones import hidden_by
from shared.errors import HmemError
from shared.text.format import one_line, shorten
from shared.turns.speakers import label

#: The newest turns, of which the last one that is not forgotten is shown, and characters of it; of an answer's Markdown so many are read.
LAST_TURNS, LINE_CHARACTERS, READ_CHARACTERS = 8, 140, 300


@dataclass(frozen=True)
class NamedChat:
    """A chat as people know it; `said`, by whom and when (POSIX seconds): its last line, "" and None where that is not known."""

    chat_id: str
    name: str
    said: str = ""
    who: str = ""
    at: float | None = None


def named(memory: OpenedMemory, chat_ids: Iterable[str]) -> dict[str, NamedChat]:
    """These chats with their names and last lines; one whose talk cannot be read now is called by its id."""
    found = {}
    for chat_id in chat_ids:
        try:
            found[chat_id] = _named(memory, chat_id)
        except (HmemError, OSError):
            found[chat_id] = NamedChat(chat_id, chat_id)
    return found


def name_of(memory: OpenedMemory, chat_id: str) -> str:
    """What a chat is called, as the heading of its pages."""
    return chat_name(memory, chat_id) or f"Chat {chat_id}"


def _named(memory: OpenedMemory, chat_id: str) -> NamedChat:
    stored = memory.day.turns.newest(chat_id, LAST_TURNS) if memory.day.wanted else []
    forgotten = memory.day.forgotten.of(chat_id)
    turns = [one.turn for one in stored if not any(stone.covers(one.turn) for stone in forgotten)]
    name = chat_name(memory, chat_id) or chat_id
    if turns:
        last = turns[-1]
        return NamedChat(
            chat_id, name, _line(last.role, last.remembered), label(last.role, last.speaker), last.timestamp
        )
    release, _ = memory.release_or_reason("")
    newest = release.newest_chunk(chat_id) if release else None
    if newest is None or hidden_by(forgotten).covers(newest):
        return NamedChat(chat_id, name)
    return NamedChat(chat_id, name, _line(newest.role, newest.text), newest.who(), newest.started_at)


def _line(role: str, text: str) -> str:
    return shorten(one_line(text) if role == "user" else words_of(text[:READ_CHARACTERS]), LINE_CHARACTERS)
