"""What each import has brought into each chat. The archive has it as events, and a release as `imports.jsonl`, by which a day host whose archive is
elsewhere shows and undoes imports. A release of an archive without imports has no such file.

`brought` in the state of such an event are the turns that were new, and ones that an earlier import had also brought: undoing one of the two
leaves them. What the bot has recorded itself is in none. They may be many, so one event is read at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.errors import InvalidInput, ReleaseRefused
from shared.release.manifest import IMPORTS, REPAIR, current_release, prove_file, read_manifest
from shared.system.files import atomic_writer
from shared.turns.events import Event, EventKind
from shared.turns.records import RecordRefused
from shared.wire import keys
from shared.wire.json import record_of


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


def last_of(batches: Iterable[Batch]) -> list[dict[str, Any]]:
    """The last state of each as JSON: the same import may have come once more, with more files of its program."""
    return [*{one.event.turn_id: one.to_json() for one in batches}.values()]


def only_in(name: str, batches: Callable[[], Iterable[Batch]]) -> dict[str, set[str]]:
    """By chat the turns that only this import has brought, and its events; InvalidInput if there is no such import. `batches` is read twice."""
    mine: dict[str, set[str]] = {}
    for one in batches():
        if one.state.batch == name:
            mine.setdefault(one.event.chat_id, set()).update(one.state.brought, [one.event.turn_id])
    if not mine:
        raise InvalidInput(f"There is no import {name}. hmem import --list shows all.")
    for one in batches():
        if one.state.batch != name:
            mine.get(one.event.chat_id, set()).difference_update(one.state.brought)
    return mine


def write_imports(release: Path, events: Iterable[bytes]) -> None:
    """Write these events, as they are archived, into a release that is being made; no file if there are none."""
    lines = iter(events)
    if (first := next(lines, None)) is not None:
        with atomic_writer(release / IMPORTS) as handle:
            handle.write(first + b"\n")
            handle.writelines(line + b"\n" for line in lines)


def released_batches(memory_dir: Path, undone: Collection[str] = ()) -> Iterator[Batch]:
    """All of the release in use, oldest first, its file proven; none without a release. `undone`: the ones that a tombstone names. ReleaseRefused."""
    release = current_release(memory_dir)
    manifest = read_manifest(release) if release else None
    if release is None or manifest is None or IMPORTS not in manifest.files:
        return
    prove_file(release, manifest, IMPORTS)
    with (release / IMPORTS).open("rb") as lines:
        for line in lines:
            record = record_of(line)
            try:
                event = Event.parse(keys.event(str(record.get("kind")), str(record.get("id"))).encode(), line)
            except RecordRefused as error:
                raise ReleaseRefused(f"Release {release.name}: {IMPORTS} cannot be read: {error}. {REPAIR}") from error
            batch = Batch.of(event)
            if batch is not None and batch.event.turn_id not in undone:
                yield batch
