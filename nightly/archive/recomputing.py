"""`hmem-night verify`: what one night leaves for the next, recomputed from the segments and compared: the catalog, and the counts of each chat."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from nightly.archive.catalog import CATALOG, Catalog, is_as_it_was
from nightly.archive.chat_chunks import ChatReader
from nightly.index.previous import LAST, kept_accounts
from nightly.night.lease import night_lock
from nightly.night.ledger import ENDS
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.errors import NightRunning, StorageError, without_words

#: What two catalogs of one archive have in common; numbers of segments, and when each was read, are their own.
_TABLES = {
    "segments": "SELECT name, sha256, original, quarantined FROM {0}.segments",
    "records": "SELECT r.sha256, name FROM {0}.records AS r JOIN {0}.segments USING (segment)",
    "turns": "SELECT turn_id, chat_id, said_at, t.sha256, name, start, length FROM {0}.turns AS t JOIN {0}.segments USING (segment)",
    "other versions": "SELECT chat_id, turn_id, name FROM {0}.others JOIN {0}.segments USING (segment)",
    "events": "SELECT key, state, name FROM {0}.events JOIN {0}.segments USING (segment)",
    "texts": "SELECT key, chat_id, name FROM {0}.texts JOIN {0}.segments USING (segment)",
    "erased turns": "SELECT turn_id, chat_id, said_at FROM {0}.erased",
    "tombstones": "SELECT tombstone_id, run, record FROM {0}.tombstones",
    "chats": "SELECT chat_id, turns, digest FROM {0}.chats",
}


@contextmanager
def recomputed(settings: Settings, report: Reporter) -> Iterator[Catalog]:
    """A catalog made from the segments alone, in a temporary folder: for who may not change the night's own, or compares the two."""
    with (
        tempfile.TemporaryDirectory(prefix="hmem-catalog-") as folder,
        closing(Catalog(settings.hmem_night_dir, report.say, Path(folder))) as made,
    ):
        made.refresh()
        yield made


def compare_with_segments(settings: Settings, report: Reporter, made: Catalog) -> dict[str, int]:
    """Counts of what was compared with a recomputed catalog; StorageError if something differs. Nothing while a night runs."""
    try:
        with night_lock(settings):
            made.refresh()  # of a night that has ended meanwhile
            _compare_catalogs(settings.hmem_night_dir / CATALOG, made.path)
            return {"chats": _compare_chats(settings, made, report)}
    except NightRunning:
        report.say("  A night is running: its catalog and counts are not compared.")
        return {}


def _compare_catalogs(kept: Path, made: Path) -> None:
    """One that is not as a night left it is made anew by the next, and one that lacks a segment is brought up to date: nothing to compare then."""
    if not is_as_it_was(kept):
        return
    with closing(sqlite3.connect("file::memory:", uri=True)) as connection:
        for name, path in (("kept", kept), ("made", made)):
            connection.execute(f"ATTACH ? AS {name}", (f"{path.absolute().as_uri()}?mode=ro",))
        try:
            names = "SELECT group_concat(name) FROM (SELECT name FROM {0}.segments ORDER BY name)"
            known, now = (connection.execute(names.format(one)).fetchone() for one in ("kept", "made"))
            if known != now:
                return
            for what, sql in _TABLES.items():
                kept_rows, made_rows = sql.format("kept"), sql.format("made")
                for one, other in ((kept_rows, made_rows), (made_rows, kept_rows)):
                    if connection.execute(f"{one} EXCEPT {other} LIMIT 1").fetchone():
                        raise _differs(kept, f"its {what} are not those of the segments")
        except sqlite3.DatabaseError as error:
            raise _differs(kept, f"it cannot be read ({without_words(error)})") from error


def _differs(path: Path, why: str) -> StorageError:
    return StorageError(
        f"The archive's catalog {path} is wrong: {why}. Delete it; the next night makes it anew from the segments."
    )


def _compare_chats(settings: Settings, catalog: Catalog, report: Reporter) -> int:
    """Cut each chat that has no news, and compare its counts with those that nights carry on; how many."""
    digests, compared = catalog.digests(), 0
    with ChatReader(catalog, settings.hmem_night_dir / "archive", settings.timezone) as reader:
        for chat_id, digest, account in kept_accounts(settings.hmem_night_dir):
            if digests.get(chat_id) != digest:
                continue
            made = reader.cut(chat_id)
            counts = made.account | {"turns": made.turns, "keywords": len(made.chunks)}
            known = {name: account.get(name, 0) for name in ("turns", "archived", *ENDS, "chunks", "keywords")}
            if counts != known:
                raise StorageError(
                    f"What the last night left of chat {chat_id} in {settings.hmem_night_dir / LAST} is not what the archive gives: "
                    f"{known} instead of {counts}. Delete that directory; the next night does every chat."
                )
            compared += 1
    report.say(f"  {compared} chats counted anew.")
    return compared
