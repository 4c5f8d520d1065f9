"""Export: copy everything under `hcli:memory:*` and every event, byte for byte, to the night's folder. Nothing is judged or deleted here.

SCAN returns every key that exists throughout, some twice (hence the set), but not keys that are added later: those stay for the next
night. A key that is not a string is exported as DUMP returns it. What only the last capture has, because Redis was lost since, comes from there.
Staged imports of a backfill are exported as if they were in Redis. Of the files of messages (KEEP_MEDIA) only the names are noted: each is named
by its hash, and the archive step fetches it when its turn is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, cast

import orjson
from redis import Redis

from nightly.archive.capture import only_captured
from nightly.archive.catalog import open_catalog
from nightly.archive.incoming import (
    EVENTS,
    RECORDS,
    TOMBSTONES,
    chat_states,
    event_keys,
    kind_of_key,
    read_records,
    read_tombstones,
    turn_keys,
)
from nightly.archive.media.bring import WAITING
from nightly.archive.segments import RawRecord
from nightly.imports.staging import take
from nightly.night.folder import Night
from shared.system.files import atomic_writer
from shared.wire import keys
from shared.wire.media import WaitingFile, waiting_files


def run(night: Night, out: Path) -> dict[str, Any]:
    turns, events = turn_keys(night.redis), event_keys(night.redis)
    tombstones = read_tombstones(night.redis)
    with open_catalog(night, before=night.run) as known:
        lost = list(only_captured(night.archive_dir, {*turns, *events, *(one.key for one in tombstones)}, known))
        states = list(chat_states(night.redis, known))
    found = {name: [one for one in lost if kind_of_key(one.key) == name] for name in (RECORDS, EVENTS, TOMBSTONES)}
    written = _write(out / RECORDS, chain(_read(night, turns), found[RECORDS]))
    changes = _write(out / EVENTS, chain(_read(night, events), found[EVENTS], states))
    ordered = _write(out / TOMBSTONES, chain(tombstones, found[TOMBSTONES]))
    waiting = _waiting_media(night.redis)  # after the turns: a file is kept before its turn is written
    with atomic_writer(out / WAITING) as handle:
        handle.writelines(orjson.dumps(asdict(one)) + b"\n" for one in waiting)
    imports = take(night, out)
    return {
        "keys": len(turns),
        "records": written + imports["records"],
        "events": changes,
        "from_capture": len(lost),
        "vanished": len(turns) + len(found[RECORDS]) - written,
        "media": len(waiting),
        "tombstones": ordered,
        "imports": imports,
    }


def _read(night: Night, names: list[bytes]) -> Iterator[RawRecord]:
    return night.report.track(read_records(night.redis, names), len(names), "export")


def _write(path: Path, records: Iterable[RawRecord]) -> int:
    """Write a line of each; how many."""
    count = 0
    with atomic_writer(path) as handle:
        for record in records:
            handle.write(orjson.dumps(record.to_json()) + b"\n")
            count += 1
    return count


def _waiting_media(client: Redis) -> list[WaitingFile]:
    """Files of messages that are to be kept (KEEP_MEDIA), whatever the setting is by now."""
    names = [cast(bytes, key) for key in client.scan_iter(match=f"{keys.KEPT}:*", count=5000)]
    listed = cast(dict[bytes, bytes], client.hgetall(keys.KEPT)) if client.type(keys.KEPT) == b"hash" else {}
    return list(waiting_files(listed, names))
