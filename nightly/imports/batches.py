"""Batches: what each import has brought into a chat is an event in the archive, so that the import can be shown and undone.

`brought` in the state of such an event are the turns that were new, and ones that an earlier import had also brought: undoing one of the two
leaves them. What the bot has recorded itself is in none. They may be many, so one event is read at a time.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from nightly.archive.segments import RawRecord, Segment, event_of
from nightly.imports.candidates import Candidate, made_up_id
from nightly.imports.import_filter import ImportVerdict
from shared.errors import InvalidInput
from shared.system.archive_folder import archive_files
from shared.turns.events import Event, EventChange, EventKind, turn_id_of
from shared.wire.handed_over import NAME_DIGITS


class ImportState(BaseModel):
    """The state of such an event."""

    model_config = ConfigDict(strict=True)

    batch: str
    source: str
    files: list[str]
    created: float
    brought: list[str]


@dataclass(frozen=True)
class Batch:
    """What one import has brought into one chat, and the event that says so."""

    event: Event
    state: ImportState

    @classmethod
    def of(cls, event: Event) -> Batch | None:
        """None for an event of another kind, or one that no night has written like this."""
        if event.kind != EventKind.IMPORT:
            return None
        try:
            return cls(event, ImportState.model_validate(event.state))
        except ValidationError:
            return None

    def to_json(self) -> dict[str, Any]:
        """Without ids of turns: their number."""
        return {
            "import": self.state.batch, "event": self.event.turn_id, "chat_id": self.event.chat_id, "at": self.event.began_at,
            "source": self.state.source, "files": self.state.files, "turns": len({*self.state.brought}),
        }  # fmt: skip


def archived_batches(archive_dir: Path, undone: Collection[str] = ()) -> Iterator[Batch]:
    """All of an archive, oldest first. `undone`: the ones that a tombstone on its way there names. ArchiveDamaged names a segment that fails."""
    for _, name in archive_files(archive_dir):
        for line in Segment(archive_dir / name):
            batch = Batch.of(event_of(line)) if line["kind"] == "event" else None
            if batch is not None and batch.event.turn_id not in undone:
                yield batch


def only_in(name: str, archive_dir: Path, undone: Collection[str]) -> set[str]:
    """The turns that only this import has brought, and its events; InvalidInput if there is no such import."""
    mine, events = set[str](), set[str]()
    for one in archived_batches(archive_dir, undone):
        if one.state.batch == name:
            mine.update(one.state.brought)
            events.add(one.event.turn_id)
    if not events:
        raise InvalidInput(f"There is no import {name}. hmem import --list shows all.")
    for one in archived_batches(archive_dir, undone):
        if one.state.batch != name:
            mine.difference_update(one.state.brought)
    return mine | events


class BatchCollector:
    """Collects what a night's imports bring."""

    def __init__(self, archive_dir: Path, undone: Collection[str]) -> None:
        self._undone = undone
        self._imported, self._numbers = set[str](), dict[str, int]()
        for one in archived_batches(archive_dir, undone):
            self._imported.update(one.state.brought)
            self._numbers[one.event.turn_id] = len({*one.state.brought})
        self._brought: dict[str, dict[str, None]] = {}

    def add(self, candidate: Candidate, verdict: ImportVerdict) -> None:
        """The next candidate of the import that `events` is asked for then."""
        turn = candidate.turn
        if verdict is ImportVerdict.NEW or turn.turn_id in self._imported:
            self._brought.setdefault(turn.chat_id, {})[turn.turn_id] = None

    def events(self, staged: str, source: str, files: Collection[str]) -> Iterator[RawRecord]:
        """The events of the import whose candidates were added since the last call. `staged`: the hash of its content."""
        name, now = staged[:NAME_DIGITS], time.time()
        for chat_id, brought in sorted(self._brought.items()):
            own = f"{name}-{hashlib.sha256(chat_id.encode('utf-8', 'surrogatepass')).hexdigest()[:NAME_DIGITS]}"
            while turn_id_of(own) in self._undone:  # it was undone and comes again
                own = made_up_id("again", own)
            if self._numbers.get(turn_id_of(own)) == len(brought):
                continue  # the same import once more
            state = ImportState(batch=name, source=source, files=[*files], created=now, brought=[*brought])
            event = Event(EventKind.IMPORT, own, chat_id, EventChange.MADE, now, state.model_dump())
            self._imported |= brought.keys()
            yield RawRecord(event.key.encode(), "string", event.to_json())
        self._brought = {}
