"""A chat's current conversation in `hcli:session_history`: a list that h-cli's bot reads, too, with additional fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dispatcher.memory.tombstones import ErasedEntries
from shared.text.format import one_line, shorten, time_text
from shared.text.marks import harmless
from shared.turns.message_origin import NOWHERE, Origin
from shared.turns.origin_words import replying, said_by
from shared.turns.records import (
    RecordRefused,
    Tombstone,
    Turn,
    dumps,
    loads_object,
    timestamp_of,
    user_id_of,
    well_formed,
)
from shared.turns.speakers import Speaker, label, namesakes

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

#: The length of one turn of the current conversation if no session carries it (SESSION_MODE=replay). Characters.
RECENT_CHARACTERS = 1000


@dataclass(frozen=True)
class HistoryEntry:
    """An entry of `hcli:session_history`: role `user` or `assistant`, time in POSIX seconds; for a person also the fields of a turn."""

    role: str
    content: str
    timestamp: float
    name: str | None = None
    user_id: str | None = None
    origin: Origin = NOWHERE

    @property
    def person(self) -> Speaker:
        return self.role, self.name or self.role, self.user_id

    def who(self, mark: str = "") -> str:
        """The label before the text."""
        return said_by(label(self.role, self.name or self.role, mark), self.origin) + replying(self.origin)


def conversation_of(raws: Iterable[bytes], tombstones: Sequence[Tombstone]) -> tuple[list[HistoryEntry], list[bytes]]:
    """(a chat's current conversation, entries to be erased); invalid entries are skipped."""
    erased = ErasedEntries(tombstones)
    entries, gone = list[HistoryEntry](), list[bytes]()
    for raw in raws:
        with suppress(RecordRefused, KeyError, TypeError):
            entry = _parsed(loads_object(raw))
            if erased.cover(entry.role, entry.timestamp):
                gone.append(raw)
            else:
                entries.append(entry)
    return entries, gone


def _parsed(entry: dict[str, Any]) -> HistoryEntry:
    """RecordRefused, KeyError or TypeError for an invalid entry."""
    role, content, at = str(entry["role"]), str(entry["content"]), timestamp_of(entry["timestamp"])
    if role != "user":
        return HistoryEntry(role, content, at)
    name = entry.get("name")
    named = well_formed(name) if isinstance(name, str) and name.strip() else None
    return HistoryEntry(role, content, at, named, user_id_of(entry.get("user_id")), Origin.parse(entry))


def _role_of(turn: Turn) -> str:
    return "user" if turn.role == "user" else "assistant"


def entry_of(turn: Turn) -> HistoryEntry:
    """A turn as an entry."""
    return HistoryEntry(_role_of(turn), turn.remembered, turn.timestamp, turn.name, turn.user_id, turn.origin)


def history_entry(turn: Turn) -> str:
    """A turn as an entry of the list, JSON."""
    more = {"name": turn.name, "user_id": turn.user_id} | turn.origin.to_json()
    entry = {"role": _role_of(turn), "content": turn.remembered, "timestamp": turn.timestamp}
    return dumps(entry | {name: value for name, value in more.items() if value is not None}).decode("utf-8")


def history_lines(
    recent: Sequence[HistoryEntry], zone: ZoneInfo, most: int = RECENT_CHARACTERS, speakers: Iterable[Speaker] = ()
) -> list[str]:
    """A line for each entry of a conversation, sanitised, with at most `most` characters of its text.

    `speakers`: others who spoke in the chat; of two people of one name each has a mark.
    """
    marks = namesakes({*speakers, *(entry.person for entry in recent)})
    heads = [f"- {time_text(entry.timestamp, zone)} {entry.who(marks.get(entry.person, ''))}" for entry in recent]
    return [
        harmless(f"{head}: {shorten(one_line(entry.content), most)}") for head, entry in zip(heads, recent, strict=True)
    ]
