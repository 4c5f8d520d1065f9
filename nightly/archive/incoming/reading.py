"""What is read from Redis for the archive: byte for byte, nothing is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from redis import Redis

from nightly.archive.segments import RawRecord
from shared.turns.events import EventKind, is_event
from shared.wire import keys

#: The files of the export step.
RECORDS, EVENTS, TOMBSTONES = "records.jsonl", "events.jsonl", "tombstones.jsonl"
#: Keys of one round trip; turns may be large.
BATCH_KEYS = 200


def turn_keys(client: Redis) -> list[bytes]:
    """All keys under `hcli:memory:`, each once, sorted."""
    return sorted({cast(bytes, key) for key in client.scan_iter(match=f"{keys.MEMORY_PREFIX}*", count=5000)})


def event_keys(client: Redis) -> list[bytes]:
    """The keys of all events, sorted. Those of imports are a night's own and never in Redis: what another program writes there is left."""
    found = {cast(bytes, key) for key in client.scan_iter(match=f"{keys.EVENT_PREFIX}*", count=5000)}
    return sorted(key for key in found if not key.startswith(keys.event(EventKind.IMPORT, "").encode()))


def in_batches(names: list[bytes]) -> list[list[bytes]]:
    return [names[start : start + BATCH_KEYS] for start in range(0, len(names), BATCH_KEYS)]


def read_records(client: Redis, names: list[bytes]) -> Iterator[RawRecord]:
    """The values of the keys; one that vanished meanwhile (the bot or the owner deleted it) yields nothing."""
    for name, value in zip(names, cast(list[bytes | None], client.mget(names)), strict=True):
        if value is not None:
            yield RawRecord(name, "string", value)
            continue
        kind = cast(bytes, client.type(name)).decode("ascii")
        dumped = client.dump(name)
        if dumped is not None:
            yield RawRecord(name, kind, dumped)


def read_tombstones(client: Redis) -> list[RawRecord]:
    """The tombstones that wait in Redis, each under the key of their list."""
    raw = cast(list[bytes], client.lrange(keys.TOMBSTONES, 0, -1))
    return [RawRecord(keys.TOMBSTONES.encode(), "string", one) for one in raw]


def kind_of_key(key: bytes) -> str:
    """The file of the export step that a record under this key belongs to."""
    if key == keys.TOMBSTONES.encode():
        return TOMBSTONES
    return EVENTS if is_event(key) else RECORDS
