"""Whatever was said, in whichever versions and chats, and whatever is erased of it: the catalog that followed is the one that is made anew, and the
segments that it names for a tombstone are those that have something to erase."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from nightly.archive import erasing
from nightly.archive.catalog import CATALOG, Catalog
from nightly.archive.segments import RawRecord, Segment, WrittenText, write_segment, write_texts
from shared.system.archive_folder import archive_files, run_of
from shared.turns.records import Tombstone, Turn
from tests.nightly.archive.test_catalog import refuse_unless_equal

CHATS, TASKS, TIMES = st.sampled_from(["1", "1", "1", "1", "2"]), st.sampled_from(["a", "b", "c"]), st.integers(1, 6)


@st.composite
def records(draw: st.DrawFn) -> RawRecord:
    key = f"hcli:memory:{draw(TASKS)}:user"
    if draw(st.integers(0, 15)) == 15:  # rarely: a segment with such a record is always read
        return RawRecord(key.encode(), "string", b'{"chat_id": "%s", "content": "cut of' % draw(CHATS).encode())
    turn = Turn(key.split(":")[2], "user", draw(CHATS), draw(st.sampled_from(["x", "y"])), float(draw(TIMES)))
    return RawRecord(key.encode(), "string", turn.to_json())


@st.composite
def tombstones(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(st.none() | st.frozensets(TASKS.map(lambda task: f"{task}:user"), min_size=1))
    before = None if ids else float(draw(TIMES))
    return {"chat_id": draw(CHATS), "turn_ids": ids, "before": before, "erase": draw(st.booleans())}


NIGHTS = st.lists(
    st.tuples(
        st.lists(records(), max_size=4),
        st.none() | tombstones(),
        st.none() | st.tuples(CHATS, st.frozensets(TASKS.map(lambda task: f"{task}:user"))),
    ),
    min_size=1,
    max_size=6,
)


def lines_of(said: list[RawRecord], stone: Tombstone | None, eraser: erasing.Eraser | None, run: int) -> Iterator[Any]:
    for record in said:
        yield (eraser and eraser.erased(record, run)) or {"kind": "turn", **record.to_json()}
    if stone:
        yield {"kind": "tombstone", "tombstone": orjson.loads(stone.to_json())}


def night(folder: Path, catalog: Catalog, run: int, said: list[RawRecord], stone: Tombstone | None, text: Any) -> None:
    """What the archive step does, without Redis: a new segment, texts, and erasing."""
    archive = folder / "archive"
    eraser = erasing.eraser_of(catalog, [stone] if stone else [], run)
    if lines := [*lines_of(said, stone, eraser, run)]:
        write_segment(archive / f"seg-{run}.jsonl", run, lines)
    if text:
        chat, turns = text
        write_texts(archive, run, [WrittenText(f"k{run}", "m", "d", chat, "words", tuple(sorted(turns)))])
    catalog.refresh()
    if (eraser := erasing.eraser_of(catalog)) is None:
        return
    covered = {
        name
        for _, name in archive_files(archive)
        if any(eraser.rewritten(line, run_of(name) or 0) != line for line in Segment(archive / name))
    }
    named = catalog.files_with([stone] if stone and stone.erase else [])
    assert covered <= named | {f"seg-{run}.jsonl", f"texts-{run}.jsonl"}
    for name in sorted(covered):
        erasing._rewrite(archive, name, eraser)


#: What two catalogs of one archive have in common; the numbers of segments are their own.
TABLES = {
    "segments": "SELECT name, sha256, original, quarantined FROM segments",
    "records": "SELECT r.sha256, name FROM records AS r JOIN segments USING (segment)",
    "turns": "SELECT turn_id, chat_id, said_at, t.sha256, name, start, length FROM turns AS t JOIN segments USING (segment)",
    "other versions": "SELECT chat_id, turn_id, name FROM others JOIN segments USING (segment)",
    "events": "SELECT key, state, name FROM events JOIN segments USING (segment)",
    "texts": "SELECT key, chat_id, name FROM texts JOIN segments USING (segment)",
    "erased turns": "SELECT turn_id, chat_id, said_at FROM erased",
    "tombstones": "SELECT tombstone_id, run, record FROM tombstones",
    "chats": "SELECT chat_id, turns, digest FROM chats",
}


def rows(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        return {name: sorted(connection.execute(sql), key=repr) for name, sql in TABLES.items()}


@settings(max_examples=40, deadline=None)
@given(NIGHTS)
def test_a_catalog_that_followed_is_the_one_that_is_made_anew(nights: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, said = Path(name), list[str]()
        (folder / "archive").mkdir()
        for run, (turns, stone, text) in enumerate(nights, start=1):
            made = Tombstone(f"s{run}", created_at=9.0, **stone) if stone else None
            with closing(Catalog(folder, said.append)) as catalog:
                catalog.refresh()
                night(folder, catalog, run, turns, made, text)
            with closing(Catalog(folder, said.append)) as catalog:
                catalog.refresh()
        assert said == [], "it was never made anew"
        followed = rows(folder / CATALOG)
        (folder / CATALOG).unlink()
        refuse_unless_equal(folder)
        assert followed == rows(folder / CATALOG)
