"""What a night's imports bring is written as events (shared/release/imports.py), so that an import can be shown and undone."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from nightly.archive.segments import RawRecord, Segment, event_of
from nightly.imports.candidates import Candidate, made_up_id
from nightly.imports.import_filter import ImportVerdict
from shared.release.imports import Batch, ImportState
from shared.system.archive_folder import archive_files
from shared.turns.events import Event, EventChange, EventKind, turn_id_of
from shared.wire.handed_over import NAME_DIGITS


def archived_batches(archive_dir: Path, undone: Collection[str] = ()) -> Iterator[Batch]:
    """All of an archive, oldest first. `undone`: the ones that a tombstone on its way there names. ArchiveDamaged names a segment that fails."""
    for _, name in archive_files(archive_dir):
        for line in Segment(archive_dir / name):
            batch = Batch.of(event_of(line)) if line["kind"] == "event" else None
            if batch is not None and batch.event.turn_id not in undone:
                yield batch


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
