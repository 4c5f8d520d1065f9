"""What a night takes from Redis for its archive: records byte for byte, an event of each chat whose settings have changed, and the tombstones that
it applies: any that hide, and the ones that erase with the owner's signature. Others are refused and reported."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from redis import Redis

from nightly.archive.catalog import Catalog
from nightly.archive.segments import RawRecord, Segment, event_of, stored_records
from nightly.night.folder import Night
from shared.config.settings import Settings
from shared.system.archive_folder import CAPTURE, archive_files
from shared.system.owner_key import is_signed, trusted_key
from shared.turns.events import Event, EventChange, EventKind, is_event
from shared.turns.records import RecordRefused, Tombstone
from shared.wire import keys
from shared.wire.key_table import chat_tables

#: The files of the export step.
RECORDS, EVENTS, TOMBSTONES = "records.jsonl", "events.jsonl", "tombstones.jsonl"
#: Keys of one round trip; turns may be large.
BATCH_KEYS = 200
UNSIGNED = "it would erase, but it is not signed with the owner's key"


def turn_keys(client: Redis) -> list[bytes]:
    """All keys under `hcli:memory:`, each once, sorted."""
    return sorted({cast(bytes, key) for key in client.scan_iter(match=f"{keys.MEMORY_PREFIX}*", count=5000)})


def event_keys(client: Redis) -> list[bytes]:
    """The keys of all events, sorted. Those of imports are a night's own and never in Redis: what another program writes there is left."""
    found = {cast(bytes, key) for key in client.scan_iter(match=f"{keys.EVENT_PREFIX}*", count=5000)}
    return sorted(key for key in found if not key.startswith(keys.event(EventKind.IMPORT, "").encode()))


def read_records(client: Redis, names: list[bytes]) -> Iterator[RawRecord]:
    """The values of the keys; one that vanished meanwhile (the bot or the owner deleted it) yields nothing."""
    for name, value in _values(client, names):
        if value is not None:
            yield RawRecord(name, "string", value)
            continue
        kind = cast(bytes, client.type(name)).decode("ascii")
        dumped = client.dump(name)
        if dumped is not None:
            yield RawRecord(name, kind, dumped)


def _values(client: Redis, names: list[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
    for start in range(0, len(names), BATCH_KEYS):
        some = names[start : start + BATCH_KEYS]
        yield from zip(some, cast(list[bytes | None], client.mget(some)), strict=True)


def read_tombstones(client: Redis) -> list[RawRecord]:
    """The tombstones that wait in Redis, each under the key of their list."""
    raw = cast(list[bytes], client.lrange(keys.TOMBSTONES, 0, -1))
    return [RawRecord(keys.TOMBSTONES.encode(), "string", one) for one in raw]


def kind_of_key(key: bytes) -> str:
    """The file of the export step that a record under this key belongs to."""
    if key == keys.TOMBSTONES.encode():
        return TOMBSTONES
    return EVENTS if is_event(key) else RECORDS


def exported(night: Night, *files: str) -> Iterator[RawRecord]:
    """What this night has exported: turns and events, or what these files hold, in the order in which it was exported."""
    return chain.from_iterable(stored_records(night.output("export") / name) for name in files or (RECORDS, EVENTS))


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


@dataclass
class Judged:
    """`refused`: reason → how many; `only_hide`: how many would erase, but this night has no owner key."""

    obeyed: list[Tombstone] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    only_hide: int = 0


def judge(values: Iterable[bytes], settings: Settings, archived: Mapping[str, Tombstone]) -> Judged:
    """Judge tombstones as they are in Redis. Another program may have written them, so none of them may stop a night.

    `archived`: by id. A tombstone that an earlier night has applied is not judged again: the owner may have a new key since then.
    """
    judged, trusted = Judged(), trusted_key(settings)
    for value in values:
        try:
            tombstone = Tombstone.parse(value)
        except RecordRefused as error:
            judged.refused[f"it cannot be read: {error}"] += 1
            continue
        known = archived.get(tombstone.tombstone_id)
        if known is not None and known.erase:
            judged.obeyed.append(known)
        elif not tombstone.erase:
            judged.obeyed.append(tombstone)
        elif trusted is None:
            judged.obeyed.append(replace(tombstone, erase=False, undo=False, signature=None))
            judged.only_hide += 1
        elif is_signed(tombstone, trusted):
            judged.obeyed.append(tombstone)
        else:
            judged.refused[UNSIGNED] += 1
    return judged
