"""The archive step's part for files of messages: what waits in Redis is brought into the archive once its turn is there, each file accounted for.

    exported = archived + already archived + waiting (its turn is not archived yet) + orphaned (there is no such turn) + forgotten + refused

What becomes of each is written down for `flush`, which deletes from Redis. A turn that says it has a file which is nowhere (Redis lost it, or an
import, which brings no files) is reported, and the night goes on.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import orjson

from nightly.archive.catalog import Catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.media.places import is_intact, is_there, kept_paths, path_of, put
from nightly.archive.segments import RawRecord, readable_turn
from nightly.night.folder import Night
from shared.errors import LedgerMismatch
from shared.system.files import atomic_writer
from shared.wire import keys
from shared.wire.media import WaitingFile

#: File of the export step: what waits in Redis. File of the archive step: what became of it.
WAITING, DONE = "waiting_media.jsonl", "media.jsonl"
#: A file without a turn is removed after so long: until then its task may still be answered. Seconds.
ORPHANED_SECONDS = 2 * 86_400.0
OUTCOMES = ("archived", "already_archived", "waiting", "orphaned", "forgotten", "refused", "vanished")
ARCHIVED, ALREADY, AWAITED, ORPHANED, FORGOTTEN, REFUSED, VANISHED = OUTCOMES
#: Names of lost files that a result has.
NAMED = 1_000


@dataclass(frozen=True)
class MediaOutcome:
    """What became of a file that waits. `path`: its place in the archive, "" where it has none; `sha1`: of its bytes in Redis, "" if not read."""

    task_id: str
    sha256: str
    outcome: str
    path: str = ""
    sha1: str = ""

    @property
    def waiting(self) -> WaitingFile:
        return WaitingFile(self.task_id, self.sha256)


def outcomes(path: Path) -> Iterator[MediaOutcome]:
    """As the archive step has written them."""
    with path.open("rb") as lines:
        yield from (MediaOutcome(**orjson.loads(line)) for line in lines)


class MediaBringer:
    """Of one night; `catalog` is as the archive is now, this night's segment included."""

    def __init__(self, night: Night, catalog: Catalog) -> None:
        self._night, self._catalog = night, catalog
        self._archive_dir, self._now = night.archive_dir, time.time()
        self._reader = ChatReader(catalog, night.archive_dir)
        self._erasing = [one for one in catalog.tombstones.values() if one.erase]
        self._missing = set[str]()

    def bring(self, exported: Iterable[RawRecord], out: Path) -> dict[str, Any]:
        """The counts; `lost`: paths that a turn of tonight names, of which there is no file."""
        counts = Counter(dict.fromkeys(OUTCOMES, 0))
        with self._reader, atomic_writer(out / DONE) as handle:
            for one in _read(self._night.output("export") / WAITING):
                done = self._brought(one)
                counts[done.outcome] += 1
                handle.write(orjson.dumps(asdict(done)) + b"\n")
        if counts.total() != self._night.result("export").get("media", 0):
            raise LedgerMismatch(
                f"{counts.total()} files of messages have an account, and another number was exported. Report this."
            )
        not_kept = self._look_at(exported)
        lost = sorted(self._missing)
        return {
            "exported": counts.total(),
            **counts,
            "lost": lost[:NAMED],
            "lost_in_all": len(lost),
            "not_kept": not_kept,
        }

    def _brought(self, one: WaitingFile) -> MediaOutcome:
        place, chat_id = self._catalog.place_of(one.turn_id), self._catalog.owner_of(one.turn_id)
        if place is None or chat_id is None:
            return self._without_turn(one, erased=chat_id is not None)
        turn = self._reader.read(place, chat_id)
        path = path_of(chat_id, one.task_id, one.sha256)
        if path not in kept_paths(turn):
            return self._without_turn(one, erased=False)
        content = self._content(one)
        if content is None:
            self._missing |= set() if is_there(self._archive_dir, path) else {path}
            return MediaOutcome(one.task_id, one.sha256, VANISHED, path)
        if hashlib.sha256(content).hexdigest() != one.sha256:
            return MediaOutcome(one.task_id, one.sha256, REFUSED)
        already = is_intact(self._archive_dir, path)
        if not already:
            put(self._archive_dir, path, content)
        return MediaOutcome(one.task_id, one.sha256, ALREADY if already else ARCHIVED, path, _sha1(content))

    def _content(self, one: WaitingFile) -> bytes | None:
        """Its bytes; None if it is not there, nothing if its key has another type."""
        kind = self._night.redis.type(one.key)
        if kind not in (b"string", b"none"):
            return b""
        return cast(bytes | None, self._night.redis.get(one.key))

    def _without_turn(self, one: WaitingFile, *, erased: bool) -> MediaOutcome:
        """There is no such turn in the archive, or it does not name this file."""
        outcome = AWAITED
        if erased or any(_reaches(tombstone, one) for tombstone in self._erasing):
            outcome = FORGOTTEN
        elif self._now - one.at > ORPHANED_SECONDS and not self._is_in_redis(one):
            outcome = ORPHANED
        content = self._content(one) if outcome != AWAITED else None
        return MediaOutcome(one.task_id, one.sha256, outcome, "", _sha1(content or b""))

    def _is_in_redis(self, one: WaitingFile) -> bool:
        return self._night.redis.type(keys.turn(one.task_id, "user")) != b"none"

    def _look_at(self, exported: Iterable[RawRecord]) -> int:
        """Note what tonight's turns say is kept, and is nowhere; the number of files that by day could not be kept."""
        not_kept = 0
        for record in exported:
            if b'"kept"' not in record.value or (turn := readable_turn(record)) is None:
                continue
            not_kept += sum(one.kept is False for one in turn.media)
            if self._catalog.has_version(turn.turn_id):  # else it is forgotten
                self._missing.update(path for path in kept_paths(turn) if not is_there(self._archive_dir, path))
        return not_kept


def _reaches(tombstone: Any, one: WaitingFile) -> bool:
    """Of a task that left no turn: by the time at which its file was kept."""
    return bool(tombstone.chat_id == one.chat_id and one.at and tombstone.reaches(one.turn_id, one.at))


def _read(path: Path) -> Iterator[WaitingFile]:
    with suppress(FileNotFoundError), path.open("rb") as lines:
        yield from (WaitingFile(**orjson.loads(line)) for line in lines)


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
