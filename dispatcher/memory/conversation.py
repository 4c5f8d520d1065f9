"""A chat's conversation so far, as `hcli:session_history` holds it: a list that h-cli's bot reads, too, with more fields than it knows."""

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

#: The length of one turn of the conversation so far, where no session carries it (SESSION_MODE=replay).
RECENT_CHARACTERS = 1000


@dataclass(frozen=True)
class HistoryEntry:
    """An entry of `hcli:session_history`: role `user` or `assistant`, POSIX seconds; of a person what is known beside, as a turn has it."""

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
        """What stands ahead of the words."""
        return said_by(label(self.role, self.name or self.role, mark), self.origin) + replying(self.origin)


def conversation_of(raws: Iterable[bytes], stones: Sequence[Tombstone]) -> tuple[list[HistoryEntry], list[bytes]]:
    """(a chat's conversation so far, entries that are to be gone for good); those of another form are passed over."""
    erased = ErasedEntries(stones)
    kept, gone = list[HistoryEntry](), list[bytes]()
    for raw in raws:
        with suppress(RecordRefused, KeyError, TypeError):
            entry = _parsed(loads_object(raw))
            if erased.cover(entry.role, entry.timestamp):
                gone.append(raw)
            else:
                kept.append(entry)
    return kept, gone


def _parsed(entry: dict[str, Any]) -> HistoryEntry:
    """RecordRefused, KeyError or TypeError for what is none."""
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
    return HistoryEntry(_role_of(turn), turn.content, turn.timestamp, turn.name, turn.user_id, turn.origin)


def history_entry(turn: Turn) -> str:
    """A turn as an entry of the list, JSON."""
    more = {"name": turn.name, "user_id": turn.user_id} | turn.origin.to_json()
    entry = {"role": _role_of(turn), "content": turn.content, "timestamp": turn.timestamp}
    return dumps(entry | {name: value for name, value in more.items() if value is not None}).decode("utf-8")


def history_lines(recent: Sequence[HistoryEntry], zone: ZoneInfo, most: int = RECENT_CHARACTERS) -> list[str]:
    """A line for each entry of a conversation, harmless, with at most so many characters of its words."""
    marks = namesakes({entry.person for entry in recent})
    heads = [f"- {time_text(entry.timestamp, zone)} {entry.who(marks.get(entry.person, ''))}" for entry in recent]
    return [
        harmless(f"{head}: {shorten(one_line(entry.content), most)}") for head, entry in zip(heads, recent, strict=True)
    ]
