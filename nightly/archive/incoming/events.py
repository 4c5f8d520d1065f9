"""Events on the host of the night: collected from Redis, compared with the archive, read back from it (shared/turns/events.py)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from redis import Redis

from nightly.archive.catalog import Catalog
from nightly.archive.segments import RawRecord, Segment, event_of
from shared.system.archive_folder import CAPTURE, archive_files
from shared.turns.events import Event, EventChange, EventKind, is_event
from shared.turns.records import RecordRefused
from shared.wire import keys
from shared.wire.key_table import chat_tables


def chat_states(client: Redis, known: Catalog) -> Iterator[RawRecord]:
    """An event of each chat whose settings are not those in the archive. Redis keeps the settings themselves; no key of it holds this event."""
    states: dict[str, dict[str, Any]] = {}
    prefix = keys.chat_settings("")
    for name in client.scan_iter(match=f"{prefix}*", count=5000):
        fields = cast(dict[bytes, bytes], client.hgetall(name))
        chat_id = cast(bytes, name).decode("utf-8", "replace").removeprefix(prefix)
        states[chat_id] = {field.decode(): value.decode("utf-8", "replace") for field, value in fields.items()}
    for name, table in chat_tables().items():
        for raw, value in cast(dict[bytes, bytes], client.hgetall(table.key)).items():
            with suppress(RecordRefused):
                states.setdefault(raw.decode("utf-8", "replace"), {})[name] = table.archived(value)
    for chat_id, state in sorted(states.items()):
        event = Event(EventKind.CHAT, chat_id, chat_id, EventChange.CHANGED, time.time(), state)
        if known.state_of(event.key) != event.state_hash:
            yield RawRecord(event.key.encode(), "string", event.to_json())


def archived_line(record: RawRecord, known: Catalog) -> dict[str, Any] | None:
    """The archive's line for an exported event; None if it is archived already."""
    if known.segment_of(record.sha256) is not None:
        return None
    try:
        if record.redis_type != "string":
            raise RecordRefused(f"the key is a {record.redis_type}, not a string")
        Event.parse(record.key, record.value)
    except RecordRefused as error:
        return {"kind": "quarantine", **record.to_json(), "reason": str(error)}
    return {"kind": "event", **record.to_json()}


def last_events(directory: Path) -> list[Event]:
    """The last event of each subject in an archive and its capture, in the order in which the subjects were made;
    ArchiveDamaged names a segment that fails."""
    found: dict[str, Event] = {}
    for name in [*(name for _, name in archive_files(directory)), CAPTURE]:
        for line in Segment(directory / name) if (directory / name).exists() else ():
            if line["kind"] == "event" or (line["kind"] == "captured" and is_event(RawRecord.from_json(line).key)):
                event = event_of(line)
                found[event.key] = event
    return sorted(found.values(), key=lambda event: (event.began_at, event.number))
