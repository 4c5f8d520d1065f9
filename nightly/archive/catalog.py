"""The catalog: what a night must know of the archive, in a database, so that it reads the new segment and not all of them.

    HMEM_NIGHT_DIR/catalog.sqlite    each segment with its size, times and hash; record -> segment; the last version of each turn and where it
                                     stands; keys of model-written texts; what was erased; tombstones; for each chat its number of turns and a
                                     digest of them. No words.

It follows from the segments and may be deleted at any time. A file whose size and times are as recorded counts as unchanged. What shows nothing
of a failing disk is found otherwise: the turns of a chat are compared with the chat's digest when they are read, each line with the hash of its
record; and each segment is hashed again every seventh night.
Where something does not follow from the segments as they are now, the catalog is made anew; what a killed night has changed, SQLite undoes. Nothing
is deleted because of what it says: flush reads the segments themselves.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from nightly.archive.segments import RawRecord, Segment, event_of, is_texts, readable_turn
from nightly.archive.tables import LAYOUT, SCHEMA, Outdated, Place, SegmentRows, Stat, Tables
from nightly.night.folder import Night, is_damage
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.errors import StorageError, without_words
from shared.release.integrity import is_due
from shared.system.archive_folder import archive_files
from shared.system.faults import crash_point

CATALOG = "catalog.sqlite"


@contextmanager
def open_catalog(night: Night, *, before: int | None = None, scrub: bool = False) -> Iterator[Catalog]:
    """The catalog of the archive as it is now, of runs below `before`. `scrub`: read those segments again whose turn it is; ArchiveDamaged."""
    with closing(Catalog(night.settings.hmem_night_dir, night.report.say)) as catalog:
        try:
            catalog.refresh(before=before, scrub=night.run if scrub else None)
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


def archived_turns(night_dir: Path, chat_id: str | None, ids: Collection[str] | None) -> Iterator[dict[str, Any]]:
    """Every version of every turn (of this chat, if one is named; of these ids), segment by segment: {turn_id, chat_id, timestamp, words, title,
    kept}. And every event with words, as {turn_id, chat_id, timestamp, words, event: true}.

    `words` includes what the turn replies to; `kept`: [SHA-256, size] of each file that is kept.
    """
    directory = night_dir / "archive"
    for _, name in archive_files(directory):
        for said in map(_said, Segment(directory / name)):
            if said and chat_id in (None, said["chat_id"]) and (ids is None or said["turn_id"] in ids):
                yield said


def _said(line: dict[str, Any]) -> dict[str, Any] | None:
    """What somebody said in a line of the archive."""
    if line["kind"] == "event":
        event = event_of(line)
        about = {"turn_id": event.turn_id, "chat_id": event.chat_id, "timestamp": event.began_at}
        return None if event.state is None else about | {"words": "\n".join(event.texts), "event": True}
    turn = readable_turn(RawRecord.from_json(line)) if line["kind"] in ("turn", "quarantine") else None
    return None if turn is None else {
        "turn_id": turn.turn_id, "chat_id": turn.chat_id, "timestamp": turn.timestamp, "words": turn.words,
        "title": turn.title, "kept": [[one.sha256, one.size] for one in turn.media if one.kept],
    }  # fmt: skip


class Catalog(Tables):
    """One reader and writer: the night, which has the lock of HMEM_NIGHT_DIR."""

    def __init__(self, night_dir: Path, say: Callable[[str], None], folder: Path | None = None) -> None:
        """`folder`: where its files are, if not in `night_dir` (one that is made to be compared, or to write nothing there)."""
        self._directory, self._say = night_dir / "archive", say
        self.path = (folder or night_dir) / CATALOG
        self.connection = sqlite3.connect(self.path, isolation_level=None)

    def close(self) -> None:
        self.connection.close()

    def distrust(self) -> None:
        """Have the next night make it anew, because it does not say what a segment says, or the segment is damaged: making it anew tells."""
        for name in (CATALOG, f"{CATALOG}-journal"):
            self.path.with_name(name).unlink(missing_ok=True)

    def places_of(self, chat_id: str, *, by_time: bool = False) -> Iterator[Place]:
        """Where the last version of each turn of a chat is, in the order of the segments, or `by_time` in that of time; StorageError if they are not
        those of its digest."""
        if not self.is_whole(chat_id):
            self.distrust()
            raise StorageError(
                f"The archive's catalog {self.path} is damaged: it does not have the turns of chat {chat_id} that it says it has. "
                "Nothing was built from it. Run the night again: it makes the catalog anew from the segments. Check the disk."
            )
        return self.places(chat_id, by_time=by_time)

    def refresh(self, *, before: int | None = None, scrub: int | None = None) -> None:
        """Bring the catalog up to date with the archive; ArchiveDamaged names a segment that fails. `scrub`: run of the night that reads those again
        whose turn it is."""
        try:
            try:
                self._update(before, scrub)
            except Outdated as why:
                self._make_anew(str(why), before)
            except sqlite3.DatabaseError as error:
                self._make_anew(f"it cannot be read ({without_words(error)})", before)
        except sqlite3.Error as error:
            raise StorageError(
                f"The catalog {self.path} cannot be written ({without_words(error)}). Make room or check the disk, then run the night again."
            ) from error

    def _make_anew(self, why: str, before: int | None) -> None:
        self._say(f"  The archive's catalog is made anew from the segments: {why}.")
        self.connection.close()
        self.distrust()
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self._update(before, None)

    def _update(self, before: int | None, scrub: int | None) -> None:
        """Make the tables follow from the segments. Outdated where that takes a new catalog."""
        self.connection.execute("PRAGMA cache_size = -65536")
        (layout,) = self.connection.execute("PRAGMA user_version").fetchone()
        if layout not in (0, LAYOUT):
            raise Outdated("another version of the program wrote it")
        wanted = [(run, name) for run, name in archive_files(self._directory) if _precedes(run, name, before)]
        known = self.stats() if layout else {}
        new = self._new_segments(wanted, known) if layout else wanted
        again = {name for name, stat in known.items() if stat_of(self._directory / name) != stat}
        again |= {name for name in known if scrub is not None and is_due(name, scrub)}
        if not (layout == 0 or new or again):
            return
        self.connection.execute("BEGIN IMMEDIATE")
        if layout == 0:
            self._create()
        self._follow(new, again)
        crash_point("catalog:changed")
        self.connection.execute("COMMIT")

    def _create(self) -> None:
        for statement in filter(str.strip, SCHEMA.split(";")):
            self.connection.execute(statement)
        self.connection.execute(f"PRAGMA user_version = {LAYOUT}")

    def _follow(self, new: Iterable[tuple[int, str]], again: set[str]) -> None:
        """Read these segments. `again`: the ones that may have changed."""
        chats, segments = set[str](), self.segments
        self.read_tombstones()  # the ones that the digests cover
        for name in sorted(again):
            stat, segment = stat_of(self._directory / name), Segment(self._directory / name)
            if segment.sha256 != segments[name]:
                raise Outdated(f"{name} has changed since it was read")
            sql = "UPDATE segments SET size = ?, modified = ?, changed = ? WHERE name = ?"
            self.connection.execute(sql, (*stat, name))
        for run, name in new:
            stat = stat_of(self._directory / name)  # before it is read
            SegmentRows(self, Segment(self._directory / name), chats).add(run, stat)
        self.read_tombstones()
        for chat_id in chats:
            digest, turns = self.digest_of(chat_id)
            self.connection.execute("INSERT OR REPLACE INTO chats VALUES (?,?,?)", (chat_id, turns, digest))

    def _new_segments(self, wanted: list[tuple[int, str]], known: Iterable[str]) -> list[tuple[int, str]]:
        if gone := set(known) - {name for _, name in wanted}:
            raise Outdated(f"it has {min(gone)}, which is not in the archive or belongs to this night")
        new = [(run, name) for run, name in wanted if name not in known]
        (last,) = self.connection.execute("SELECT max(run) FROM segments WHERE name LIKE 'seg-%'").fetchone()
        if early := [name for run, name in new if not is_texts(name) and run < (last or 0)]:
            raise Outdated(f"{early[0]} was added to the archive later than newer segments")
        return new


def _precedes(run: int, name: str, before: int | None) -> bool:
    """Texts say nothing about turns, so those of a killed attempt of this run do not matter."""
    return before is None or run < before or is_texts(name)


def stat_of(path: Path) -> Stat:
    """Size and times of a file."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
