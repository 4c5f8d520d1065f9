"""The catalog: what a night must know of the archive, in a database, so that it reads the new segment and not all of them.

    HMEM_NIGHT_DIR/catalog.sqlite    each segment with its size, times and hash; record -> segment; the last version of each turn and where it
                                     stands, and the segments of other versions; keys of model-written texts; what was erased; tombstones; for
                                     each chat its number of turns and a digest of them. No words.
    HMEM_NIGHT_DIR/catalog.json      how a night left that file: its size and times, and a token that is in it too

It follows from the segments and may be deleted at any time. A file whose size and times are as recorded counts as unchanged. What shows nothing
of a failing disk is found otherwise: the turns of a chat are compared with the chat's digest when they are read, each line with the hash of its
record; and in turns each segment is hashed again, all of them within a week, and within ten weeks compared with what the catalog says
of it.
`catalog.json` is removed before the catalog is changed, so that a crash leaves none: then, and where something does not follow from the segments
as they are now, the catalog is made anew. Nothing is deleted because of what it says: flush reads the segments themselves.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from nightly.archive.segments import RawRecord, Segment, event_of, is_texts
from nightly.archive.tables.rows import Outdated, SegmentRows
from nightly.archive.tables.tables import LAYOUT, SCHEMA, Place, Stat, Tables
from nightly.night.folder import Night, is_damage
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.errors import StorageError, without_words
from shared.system.archive_folder import archive_files
from shared.system.faults import crash_point
from shared.system.files import fsync_dir, write_atomic
from shared.turns.records import RecordRefused, Tombstone, Turn

CATALOG, LEFT = "catalog.sqlite", "catalog.json"
_DAY_SECONDS = 86_400.0
#: How many times `Night.scrub_days` may pass until the rows of a segment are compared with it.
ROWS_TIMES = 10


@contextmanager
def open_catalog(night: Night, *, before: int | None = None, scrub: bool = False) -> Iterator[Catalog]:
    """The catalog of the archive as it is now, of runs below `before`. `scrub`: read those segments again whose turn it is; ArchiveDamaged."""
    days = night.scrub_days if scrub else None
    with closing(Catalog(night.settings.hmem_night_dir, night.report.say)) as catalog:
        try:
            catalog.refresh(before=before, scrub_days=days)
            yield catalog
        except sqlite3.DatabaseError as error:
            if not is_damage(error):  # perhaps of another file
                raise
            catalog.distrust()
            raise StorageError(
                f"{catalog.path} cannot be read ({without_words(error)}). Check the disk, then run the night again: it makes the catalog anew."
            ) from error


@contextmanager
def recomputed(settings: Settings, report: Reporter) -> Iterator[Catalog]:
    """A catalog made from the segments alone, in a temporary folder: for who may not change the night's own, or compares the two."""
    with (
        tempfile.TemporaryDirectory(prefix="hmem-catalog-") as folder,
        closing(Catalog(settings.hmem_night_dir, report.say, Path(folder))) as made,
    ):
        made.refresh()
        yield made


def is_as_it_was(path: Path) -> bool:
    """Whether a catalog is as a night left it, by size, times and token."""
    if (left := _left(path)) is None or not path.exists():
        return False
    with closing(_connect(path, "ro")) as connection:
        return left == [_token(connection), *_stat(path)]


def record_as_left(path: Path) -> None:
    """Write down how the catalog is now."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
    with closing(_connect(path, "ro")) as connection:
        token = _token(connection)
    write_atomic(path.with_name(LEFT), orjson.dumps([token, *_stat(path)]))


def files_of(night_dir: Path, chats: Collection[str]) -> set[str] | None:
    """The files of the archive that may have something of these chats; None if the catalog does not know: it is not as a night left it, or the
    archive is not as it says. For readers without the lock."""
    path, directory = night_dir / CATALOG, night_dir / "archive"
    with suppress(OSError, sqlite3.Error):
        if not is_as_it_was(path):
            return None
        tables = Tables()
        with closing(_connect(path, "ro")) as tables.connection:
            stats = {name: _stat(directory / name) for _, name in archive_files(directory)}
            if tables.stats() == stats:
                return tables.files_with(Tombstone("all", chat_id, 0.0) for chat_id in chats)
    return None


def archived_turns(night_dir: Path, chats: Collection[str]) -> Iterator[dict[str, Any]]:
    """Every version of every turn (of these chats, if any are named), segment by segment: {turn_id, chat_id, timestamp, content, words, title, kept}.
    And every event with words, as {turn_id, chat_id, timestamp, words, event: true}.

    `words` includes what the turn replies to; `kept`: [SHA-256, size] of each file that is kept. Of named chats only the segments are read that the
    catalog names, if it can.
    """
    directory, wanted = night_dir / "archive", files_of(night_dir, chats) if chats else None
    for _, name in archive_files(directory):
        if wanted is not None and name not in wanted:
            continue
        for line in Segment(directory / name):
            if line["kind"] == "event":
                yield from _words_of_event(line, chats)
            if line["kind"] not in ("turn", "quarantine") or line["redis_type"] != "string":
                continue
            raw = RawRecord.from_json(line)
            try:
                turn = Turn.parse(raw.key, raw.value)
            except RecordRefused:
                continue
            if not chats or turn.chat_id in chats:
                yield {
                    "turn_id": turn.turn_id, "chat_id": turn.chat_id, "timestamp": turn.timestamp, "content": turn.content, "words": turn.words,
                    "title": turn.title, "kept": [[one.sha256, one.size] for one in turn.media if one.kept],
                }  # fmt: skip


def _words_of_event(line: dict[str, Any], chats: Collection[str]) -> Iterator[dict[str, Any]]:
    event = event_of(line)
    if event.state is not None and (not chats or event.chat_id in chats):
        about = {"turn_id": event.turn_id, "chat_id": event.chat_id, "timestamp": event.began_at}
        yield about | {"words": "\n".join(event.texts), "event": True}


class Catalog(Tables):
    """One reader and writer: the night, which has the lock of HMEM_NIGHT_DIR."""

    def __init__(self, night_dir: Path, say: Callable[[str], None], folder: Path | None = None) -> None:
        """`folder`: where its files are, if not in `night_dir` (one that is made to be compared, or to write nothing there)."""
        self._directory, self._say = night_dir / "archive", say
        self.path = (folder or night_dir) / CATALOG
        #: Whether something other than a night has written to it, or copied it.
        self._touched = False
        self.connection = self._opened()

    def close(self) -> None:
        self.connection.close()

    def distrust(self) -> None:
        """Have the next night make it anew, because it does not say what a segment says, or the segment is damaged: making it anew tells."""
        self.path.with_name(LEFT).unlink(missing_ok=True)

    def places_of(self, chat_id: str) -> Iterator[Place]:
        """Where the last version of each turn of a chat is, in the order of the segments; StorageError if they are not those of its digest."""
        if not self.is_whole(chat_id):
            self.distrust()
            raise StorageError(
                f"The archive's catalog {self.path} is damaged: it does not have the turns of chat {chat_id} that it says it has. "
                "Nothing was built from it. Run the night again: it makes the catalog anew from the segments. Check the disk."
            )
        return self.places(chat_id)

    def refresh(self, *, before: int | None = None, scrub_days: float | None = None) -> None:
        """Bring the catalog up to date with the archive; ArchiveDamaged names a segment that fails."""
        try:
            try:
                self._update(before, scrub_days)
            except Outdated as why:
                self._make_anew(str(why), before)
            except sqlite3.DatabaseError as error:
                self._make_anew(f"it cannot be read ({without_words(error)})", before)
        except sqlite3.Error as error:
            raise StorageError(
                f"The catalog {self.path} cannot be written ({without_words(error)}). Make room or check the disk, then run the night again."
            ) from error

    def _opened(self) -> sqlite3.Connection:
        """The catalog if it is one that a night left, or an empty one."""
        if self.path.exists():
            left = _left(self.path)
            with closing(_connect(self.path, "ro")) as connection:
                token = _token(connection)
            if left is None or left[0] != token:
                self._say("  The archive's catalog was changed or is incomplete. It is made anew from the segments.")
                self._drop()
            else:
                self._touched = left[1:] != [*_stat(self.path)]
        connection = _connect(self.path, "rwc")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA journal_mode = OFF")  # what a crash or an error leaves has no catalog.json
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def _drop(self) -> None:
        for name in (LEFT, CATALOG):
            self.path.with_name(name).unlink(missing_ok=True)

    def _make_anew(self, why: str, before: int | None) -> None:
        self._say(f"  The archive's catalog is made anew from the segments: {why}.")
        self.connection.close()
        self._drop()
        self.connection, self._touched = self._opened(), False
        self._update(before, None)

    def _update(self, before: int | None, scrub_days: float | None) -> None:
        """Make the tables follow from the segments. Outdated where that takes a new catalog."""
        (layout,) = self.connection.execute("PRAGMA user_version").fetchone()
        if layout not in (0, LAYOUT):
            raise Outdated("another version of the program wrote it")
        wanted = [(run, name) for run, name in archive_files(self._directory) if _precedes(run, name, before)]
        known = self.stats() if layout else {}
        new = self._new_segments(wanted, known) if layout else wanted
        again = {name for name, stat in known.items() if _stat(self._directory / name) != stat}
        if not (layout == 0 or new or again or scrub_days or self._touched):
            return
        self.path.with_name(LEFT).unlink(missing_ok=True)
        fsync_dir(self.path.parent)
        self.connection.execute("BEGIN IMMEDIATE")
        if layout == 0:
            self._create()
        due, compared = self._due(scrub_days) if scrub_days else (set[str](), set[str]())
        self._follow(new, again | due, {*known} if self._touched else compared)
        self.connection.execute("INSERT OR REPLACE INTO about VALUES ('token', ?)", (uuid.uuid4().hex,))
        self.connection.execute("COMMIT")
        crash_point("catalog:changed")
        record_as_left(self.path)
        self._touched = False

    def _create(self) -> None:
        for statement in filter(str.strip, SCHEMA.split(";")):
            self.connection.execute(statement)
        self.connection.execute(f"PRAGMA user_version = {LAYOUT}")

    def _follow(self, new: Iterable[tuple[int, str]], again: set[str], compared: set[str]) -> None:
        """Read these segments. `again`: those that may have changed; `compared`: those that the rows are compared with, too."""
        chats = set[str]()
        self.read_tombstones()  # those that the digests are of
        for name in sorted(again | compared):
            rows = self._rows_of(name, chats)
            if rows.is_erased():
                rows.follow_erasing()
            else:
                rows.compare(rows=name in compared)
        for run, name in new:
            self._rows_of(name, chats).add(run)
        self.read_tombstones()
        for chat_id in chats:
            digest, turns = self.digest_of(chat_id)
            self.connection.execute("INSERT OR REPLACE INTO chats VALUES (?,?,?)", (chat_id, turns, digest))

    def _rows_of(self, name: str, chats: set[str]) -> SegmentRows:
        path = self._directory / name
        stat = _stat(path)  # before it is read
        return SegmentRows(self, Segment(path), stat, chats)

    def _new_segments(self, wanted: list[tuple[int, str]], known: Iterable[str]) -> list[tuple[int, str]]:
        if gone := set(known) - {name for _, name in wanted}:
            raise Outdated(f"it has {min(gone)}, which is not in the archive or belongs to this night")
        new = [(run, name) for run, name in wanted if name not in known]
        (last,) = self.connection.execute("SELECT max(run) FROM segments WHERE name LIKE 'seg-%'").fetchone()
        if early := [name for run, name in new if not is_texts(name) and run < (last or 0)]:
            raise Outdated(f"{early[0]} was added to the archive later than newer segments")
        return new

    def _due(self, days: float) -> tuple[set[str], set[str]]:
        """The segments that are read again tonight, and those that the rows are compared with, which takes much longer than to hash them."""
        now = time.time()
        row = self.one("SELECT value FROM about WHERE name = ?", "scrubbed_at")
        passed = max(0.0, now - row[0]) / _DAY_SECONDS if row else 0.0
        self.connection.execute("INSERT OR REPLACE INTO about VALUES ('scrubbed_at', ?)", (now,))
        return self._oldest("read_at", now, passed, days), self._oldest("compared_at", now, passed, ROWS_TIMES * days)

    def _oldest(self, column: str, now: float, passed: float, days: float) -> set[str]:
        """By this time the oldest up to a night's share, and each that would be too old at the next night."""
        due = set[str]()
        segments = self.connection.execute(f"SELECT name, size, {column} FROM segments ORDER BY {column}").fetchall()  # noqa: S608 - one of two
        share = min(1.0, passed / days) * sum(size for _, size, _ in segments)
        for name, size, read_at in segments:
            if share > 0 or not 0 <= (now - read_at) / _DAY_SECONDS < days - passed:
                due.add(name)
                share -= size
        return due


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)


def _token(connection: sqlite3.Connection) -> str | None:
    """The token in a catalog; None if it cannot be read as one."""
    with suppress(sqlite3.DatabaseError):
        row = connection.execute("SELECT value FROM about WHERE name = 'token'").fetchone()
        return str(row[0]) if row else None
    return None


def _left(path: Path) -> list[object] | None:
    """[token, size, modification time, change time] as they were when a night left the catalog; None if that cannot be read."""
    try:
        left = orjson.loads(path.with_name(LEFT).read_bytes())
    except (OSError, ValueError):
        return None
    return left if isinstance(left, list) and len(left) == 4 else None


def _precedes(run: int, name: str, before: int | None) -> bool:
    """Texts say nothing about turns, so those of a killed attempt of this run do not matter."""
    return before is None or run < before or is_texts(name)


def _stat(path: Path) -> Stat:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
