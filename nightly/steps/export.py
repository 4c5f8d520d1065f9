"""Export: copy everything under `hcli:memory:*` and every event, byte for byte, to the night's folder. Nothing is judged or deleted here.

SCAN returns every key that exists throughout, some twice (hence the set), but not keys that are added later: those stay for the next
night. A key that is not a string is exported as DUMP returns it. What only the last capture has, because Redis was lost since, comes from there.
Staged imports of a backfill are exported as if they were in Redis. Of the files of messages (KEEP_MEDIA) only the names are noted: each is named
by its hash, and the archive step fetches it when its turn is there.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import orjson
from redis import Redis

from nightly.archive.capture import waiting_records
from nightly.archive.catalog import open_catalog
from nightly.archive.incoming import EVENTS, RECORDS, TOMBSTONES, kind_of_key
from nightly.archive.media.bring import WAITING
from nightly.imports.staging import take
from nightly.night.folder import Night
from shared.system.files import atomic_writer
from shared.wire import keys
from shared.wire.media import WaitingFile, waiting_files


def run(night: Night, out: Path) -> dict[str, Any]:
    counts = Counter[str]()
    with ExitStack() as stack:
        known = stack.enter_context(open_catalog(night, before=night.run))
        files = {name: stack.enter_context(atomic_writer(out / name)) for name in (RECORDS, EVENTS, TOMBSTONES)}
        for record in waiting_records(night.redis, night.archive_dir, known, night.report):
            name = kind_of_key(record.key)
            files[name].write(orjson.dumps(record.to_json()) + b"\n")
            counts[name] += 1
    waiting = _waiting_media(night.redis)  # after the turns: a file is kept before its turn is written
    with atomic_writer(out / WAITING) as handle:
        handle.writelines(orjson.dumps(asdict(one)) + b"\n" for one in waiting)
    imports = take(night, out)
    return {
        "records": counts[RECORDS] + imports["records"],
        "events": counts[EVENTS],
        "media": len(waiting),
        "tombstones": counts[TOMBSTONES],
        "imports": imports,
    }


def _waiting_media(client: Redis) -> list[WaitingFile]:
    """Files of messages that are to be kept (KEEP_MEDIA), whatever the setting is by now."""
    names = [cast(bytes, key) for key in client.scan_iter(match=f"{keys.KEPT}:*", count=5000)]
    listed = cast(dict[bytes, bytes], client.hgetall(keys.KEPT)) if client.type(keys.KEPT) == b"hash" else {}
    return list(waiting_files(listed, names))
