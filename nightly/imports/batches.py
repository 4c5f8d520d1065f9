"""Batches: what each import has brought into a chat is an event in the archive, so that the import can be shown and undone.

The state of such an event: {"batch", "source", "files", "created", "brought": [turn id, …]}. `brought` are the turns that were new, and those that an
earlier import had brought as well: undoing one of the two leaves them. What the bot has recorded itself is in none.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightly.archive.incoming.events import last_events
from nightly.archive.segments import RawRecord
from nightly.imports.candidates import Candidate, made_up_id
from nightly.imports.import_filter import ImportVerdict
from shared.errors import InvalidInput
from shared.turns.events import Event, EventChange, EventKind, turn_id_of

#: Digits of the hash of a staged import by which people name it, and of a chat's id.
NAME_DIGITS = 12


@dataclass(frozen=True)
class Batch:
    """What one import has brought into one chat. `at`: POSIX seconds."""

    name: str
    event_turn: str  # by which a tombstone names the event
    chat_id: str
    at: float
    source: str
    files: tuple[str, ...]
    brought: frozenset[str]

    def to_json(self) -> dict[str, Any]:
        """Without ids of turns: their number."""
        return {
            "import": self.name,
            "event": self.event_turn,
            "chat_id": self.chat_id,
            "at": self.at,
            "source": self.source,
            "files": self.files,
            "turns": len(self.brought),
        }


def archived_batches(archive_dir: Path, undone: Collection[str] = ()) -> list[Batch]:
    """All of an archive, oldest first. `undone`: those that a tombstone names on its way there. ArchiveDamaged names a segment that fails."""
    found = []
    for event in last_events(archive_dir):
        if event.kind is EventKind.IMPORT and event.state and event.turn_id not in undone:
            state = event.state
            files, brought = tuple(state["files"]), frozenset(state["brought"])
            found.append(
                Batch(state["batch"], event.turn_id, event.chat_id, event.began_at, state["source"], files, brought)
            )
    return found


def only_in(name: str, batches: Collection[Batch]) -> frozenset[str]:
    """The turns that only this batch has brought, and its events; InvalidInput if there is no such batch."""
    mine = [one for one in batches if one.name == name]
    if not mine:
        raise InvalidInput(f"There is no import {name}. hmem import --list shows all.")
    others = frozenset[str]().union(*(one.brought for one in batches if one.name != name))
    return frozenset[str]().union(*(one.brought for one in mine)) - others | {one.event_turn for one in mine}


class BatchCollector:
    """Collects what a night's imports bring."""

    def __init__(self, archive_dir: Path, undone: Collection[str]) -> None:
        self._undone = undone
        self._archived = archived_batches(archive_dir, undone)
        self._imported = set[str]().union(*(one.brought for one in self._archived))
        self._brought: dict[str, dict[str, None]] = {}

    def add(self, candidate: Candidate, verdict: ImportVerdict) -> None:
        """The next candidate of the import that `events` is asked for then."""
        turn = candidate.turn
        if turn is not None and (verdict is ImportVerdict.NEW or turn.turn_id in self._imported):
            self._brought.setdefault(turn.chat_id, {})[turn.turn_id] = None

    def events(self, staged: str, source: str, files: Collection[str]) -> Iterator[RawRecord]:
        """The events of the import whose candidates were added since the last call. `staged`: the hash of its content."""
        name, now = staged[:NAME_DIGITS], time.time()
        for chat_id, brought in sorted(self._brought.items()):
            own = f"{name}-{hashlib.sha256(chat_id.encode('utf-8', 'surrogatepass')).hexdigest()[:NAME_DIGITS]}"
            while turn_id_of(own) in self._undone:  # it was undone and comes again
                own = made_up_id("again", own)
            if any(one.event_turn == turn_id_of(own) and one.brought == brought.keys() for one in self._archived):
                continue  # the same import once more
            state = {"batch": name, "source": source, "files": [*files], "created": now, "brought": [*brought]}
            event = Event(EventKind.IMPORT, own, chat_id, EventChange.MADE, now, state)
            self._imported |= brought.keys()
            yield RawRecord(event.key.encode(), "string", event.to_json())
        self._brought = {}
