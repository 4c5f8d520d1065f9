"""Export: copy everything under `hcli:memory:*`, byte for byte, to the night's folder. Nothing is judged or deleted here.

SCAN returns every key that exists throughout, some twice (hence the set), but not keys that are added later: those stay for the next
night. A key that is not a string is exported as DUMP returns it. Staged imports of a backfill are exported as if they were in Redis.
Of the files of messages (KEEP_MEDIA) only the names are noted: each is named by its hash, and the archive step fetches it when its turn is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import orjson
import structlog
from redis import Redis

from nightly.archive.media.bring import WAITING
from nightly.archive.segments import RawRecord
from nightly.imports.staging import RECORDS, TOMBSTONES, take
from nightly.night.folder import Night
from nightly.night.sealed import night_line
from shared.system.files import atomic_writer
from shared.wire import keys
from shared.wire.media.kept import WaitingFile, waiting_files

log = structlog.get_logger()

#: Keys of one round trip; turns may be large.
BATCH_KEYS = 200


def run(night: Night, out: Path) -> dict[str, Any]:
    names = turn_keys(night.redis)
    batches = in_batches(names)
    written = from_journal = 0
    with atomic_writer(out / RECORDS) as handle:
        for batch in night.report.track(batches, len(batches), "export"):
            for record in read_records(night.redis, batch):
                handle.write(night_line(orjson.dumps(record.to_json())) + b"\n")
                written += 1
        for record in _only_in_journal(night, set(names)):
            handle.write(night_line(orjson.dumps(record.to_json())) + b"\n")
            from_journal += 1
    tombstones = cast(list[bytes], night.redis.lrange(keys.TOMBSTONES, 0, -1))
    with atomic_writer(out / TOMBSTONES) as handle:
        for tombstone in tombstones:
            record = RawRecord(keys.TOMBSTONES.encode(), "string", tombstone)
            handle.write(night_line(orjson.dumps(record.to_json())) + b"\n")
    waiting = _waiting_media(night.redis)  # after the turns: a file is kept before its turn is written
    with atomic_writer(out / WAITING) as handle:
        handle.writelines(orjson.dumps(asdict(one)) + b"\n" for one in waiting)
    imports = take(night, out)
    return {
        "keys": len(names),
        "records": written + from_journal + imports["records"],
        "from_journal": from_journal,
        "vanished": len(names) - written,
        "media": len(waiting),
        "tombstones": len(tombstones) + sum(one["tombstones"] for one in imports["files"].values()),
        "imports": imports,
    }


def _only_in_journal(night: Night, names: set[bytes]) -> Iterator[RawRecord]:
    """Turns that a lost Redis does not have any more, where the journal is a directory that this host reads: no dispatcher has put them back yet.

    Others that are there only, because an earlier night has flushed them since, are found archived.
    """
    from shared.delivery.journal.state import read_journal

    settings = night.settings
    if not settings.journal or settings.journal_host:
        return
    try:
        state = read_journal(Path(settings.journal))
    except OSError as error:  # on another host, or closed to the night's user: the dispatcher puts back what is missing
        log.info("the journal of the day is not read", reason=str(error))
        return
    for key, known in sorted(state.turns.items()):
        name = key.encode("utf-8", "surrogateescape")
        if name not in names and not state.covered(key, known):
            yield RawRecord(name, "string", known.value)


def _waiting_media(client: Redis) -> list[WaitingFile]:
    """Files of messages that are to be kept (KEEP_MEDIA), whatever the setting is by now."""
    names = [cast(bytes, key) for key in client.scan_iter(match=f"{keys.KEPT}:*", count=5000)]
    listed = cast(dict[bytes, bytes], client.hgetall(keys.KEPT)) if client.type(keys.KEPT) == b"hash" else {}
    return list(waiting_files(listed, names))


def turn_keys(client: Redis) -> list[bytes]:
    """All keys under `hcli:memory:`, each once, sorted."""
    return sorted({cast(bytes, key) for key in client.scan_iter(match=f"{keys.MEMORY_PREFIX}*", count=5000)})


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
