"""What Redis holds today, byte for byte, and the way back: only keys that are not there.

Nothing is stopped for it, so the order of reading decides that no message is in none of the places (what is copied later: release, archive):

    1. the queue and all state around it      in one step (lua/moment.lua): a task is waiting, claimed or finished in it, never in between
    2. what finished tasks have left          results, and which tasks are done: a task of step 1 that was finished since is not answered again
    3. the turns                              after 2, so that a task which counts as done has its turns; after 1, so that each finished task has them
    4. files of messages that are kept        after 3, as they are written before their turn

A turn that a night deletes before step 3 reads it is verified in the archive by then, and the archive is copied after all of this.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import orjson
from redis import Redis, ResponseError

from shared.errors import BackupDamaged, BackupFailed
from shared.system.files import atomic_writer
from shared.wire import key_table, keys

#: Keys of one round trip, and of those that are large.
BATCH, LARGE_BATCH = 200, 8
_KEPT_FILES = f"{keys.KEPT}:"


def take_redis(client: Redis, path: Path) -> dict[str, int]:
    """Write the keys to a file of lines; counts."""
    names = [cast(bytes, name) for name in client.scan_iter(match=keys.ALL, count=5_000)]
    text = {name: name.decode("utf-8", "replace") for name in {*names}}
    later = (keys.MEMORY_PREFIX, _KEPT_FILES, *key_table.AFTER_THE_QUEUE)
    state = sorted(name for name, said in text.items() if not said.startswith((*later, *key_table.PASSING)))
    counts = dict.fromkeys(("state", "finished", "turns", "files"), 0)
    with atomic_writer(path) as handle:

        def write(kind: str, records: Iterable[dict[str, Any]]) -> None:
            for record in records:
                handle.write(orjson.dumps(record) + b"\n")
                counts[kind] += 1

        write("state", _at_one_moment(client, state))
        # Looked for again: what came since is wanted, too.
        write("finished", _dumped(client, _named(client, key_table.AFTER_THE_QUEUE), LARGE_BATCH))
        write("turns", _dumped(client, _named(client, (keys.MEMORY_PREFIX,)), BATCH))
        write("files", _dumped(client, _named(client, (_KEPT_FILES,)), LARGE_BATCH))
    return counts


def _at_one_moment(client: Redis, names: list[bytes]) -> Iterator[dict[str, Any]]:
    script = client.register_script((Path(__file__).parent / "lua" / "moment.lua").read_text(encoding="utf-8"))
    wanted: list[bytes | str] = [keys.WORKERS, *key_table.fixed_keys(), *names]
    found = cast(list[Any], script(keys=cast(Any, wanted), args=[keys.inflight("")]))
    now = time.time()
    for name, kind, dumped, ttl in zip(*[iter(found)] * 4, strict=True):
        yield _record(name, kind, dumped, ttl, now)


def _named(client: Redis, beginnings: tuple[str, ...]) -> list[bytes]:
    found: set[bytes] = set()
    for beginning in beginnings:
        found |= {cast(bytes, name) for name in client.scan_iter(match=f"{beginning}*", count=5_000)}
    return sorted(found)


def _dumped(client: Redis, names: list[bytes], batch: int) -> Iterator[dict[str, Any]]:
    """Keys that vanish meanwhile yield nothing."""
    for start in range(0, len(names), batch):
        some = names[start : start + batch]
        pipe = client.pipeline(transaction=False)
        for name in some:
            pipe.type(name)
            pipe.dump(name)
            pipe.pttl(name)
        answers, now = pipe.execute(), time.time()
        for name, (kind, dumped, ttl) in zip(some, zip(*[iter(answers)] * 3, strict=True), strict=True):
            if dumped is not None:
                yield _record(name, kind, dumped, ttl, now)


def _record(name: bytes, kind: bytes, dumped: bytes, ttl: int, now: float) -> dict[str, Any]:
    """`expires`: in POSIX milliseconds; None for never."""
    return {
        "key": base64.b64encode(name).decode(),
        "type": kind.decode(),
        "dump": base64.b64encode(dumped).decode(),
        "expires": int(now * 1000) + ttl if ttl >= 0 else None,
    }


def put_redis_back(client: Redis, path: Path) -> dict[str, int]:
    """Restore each key that is not there; what is there is newer, and stays. May be repeated."""
    counts = dict.fromkeys(("restored", "there", "expired"), 0)
    for record in read_records(path):
        expires = record["expires"]
        if expires is not None and expires <= time.time() * 1000:
            counts["expired"] += 1
            continue
        counts["restored" if _restore(client, record) else "there"] += 1
    return counts


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of the file, with `key` and `dump` as bytes. BackupDamaged if one is no such record."""
    with path.open("rb") as handle:
        for line in handle:
            try:
                record = orjson.loads(line)
                record["key"], record["dump"] = (
                    base64.b64decode(record[name], validate=True) for name in ("key", "dump")
                )
                record["expires"] = None if record["expires"] is None else int(record["expires"])
            except (ValueError, KeyError, TypeError) as error:
                raise BackupDamaged(
                    f"{path.name} of the backup has a line that is no key of Redis ({error!r}). Choose another snapshot."
                ) from error
            yield record


def _restore(client: Redis, record: dict[str, Any]) -> bool:
    """Whether it was missing. Redis itself refuses to replace a key."""
    try:
        client.restore(record["key"], record["expires"] or 0, record["dump"], absttl=record["expires"] is not None)
    except ResponseError as error:
        if "BUSYKEY" in str(error):
            return False
        if "version or checksum" in str(error):
            raise BackupFailed(
                "This Redis refuses keys of the backup: it is older than the one that they are from. Use that version or a newer one, then try again."
            ) from error
        raise
    return True
