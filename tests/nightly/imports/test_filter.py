"""Whatever is archived, exported, erased and imported: a filter that asks the catalog judges as one that has the whole archive in memory."""

from __future__ import annotations

import tracemalloc
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nightly.archive.catalog import Catalog
from nightly.archive.segments import RawRecord, WrittenText
from nightly.imports.candidates import Candidate
from nightly.imports.import_filter import ImportVerdict
from nightly.imports.matching import NEAR_SECONDS
from nightly.imports.staging import StagedImport, classify_by_file, open_filter, stage
from shared.config.settings import load_settings
from shared.turns.records import Tombstone, Turn
from tests.nightly.imports.test_staging import NOON, archive, exact, judged, other, raw
from tests.support.night.whole_archive import Erased

LONG = "it has two open ports, 22 and 443, and both are filtered"
CHATS, ROLES = st.sampled_from(["1", "2"]), st.sampled_from(["user", "asst"])
TIMES = st.sampled_from([NOON, NOON + 5, NOON + NEAR_SECONDS, NOON + NEAR_SECONDS + 1, NOON + 9000])
WORDS = st.sampled_from(["ok", "OK!", LONG, LONG.upper(), LONG[:30], "something else"])
TURNS = st.builds(Turn, st.sampled_from(["a", "b", "c", "d"]), ROLES, CHATS, WORDS, TIMES)
IDS = st.builds("{}:{}".format, st.sampled_from(["a", "b", "e"]), ROLES)
ERASED = st.dictionaries(IDS, st.builds(Erased, CHATS, TIMES, st.just(1)), max_size=2)


def stone(number: int, chat: str, at: float, ids: frozenset[str] | None, erase: bool, said_at: float) -> Tombstone:
    dated = dict.fromkeys(ids, said_at) if erase and ids else {}
    return Tombstone(f"s{number}", chat, at, turn_ids=ids, erase=erase, said_at=dated)


WHICH = st.none() | st.frozensets(IDS, min_size=1, max_size=2)
STONES = st.lists(
    st.builds(stone, st.integers(0, 9), CHATS, st.sampled_from([NOON - 1, NOON + 2]), WHICH, st.booleans(), TIMES),
    max_size=2,
    unique_by=lambda one: one.tombstone_id,
)


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    found = list[Candidate]()
    for unit in range(draw(st.integers(1, 3))):
        for turn in draw(st.lists(TURNS, max_size=5)):
            kind = draw(st.sampled_from(["exact", "other", "other", "quarantined"]))
            if kind == "quarantined":
                found.append(Candidate("jsonl", unit, raw(turn), quarantined=True))
            else:
                found.append(exact(turn, unit) if kind == "exact" else other(turn, unit))
        odd = draw(st.integers(0, 9))
        found += {
            0: [Candidate("jsonl", unit, RawRecord(b"hcli:memory:odd", "hash", b"\x00"))],
            1: [Candidate("jsonl", unit, text=WrittenText("k", "m", "d", draw(CHATS), "words"))],
            2: [Candidate("jsonl", unit, tombstone=Tombstone("s1", "1", NOON))],
        }.get(odd, [])
    return found


@settings(max_examples=150, deadline=None)
@given(
    st.lists(TURNS, max_size=4, unique_by=lambda one: one.turn_id),
    ERASED,
    STONES,
    st.lists(TURNS, max_size=2, unique_by=lambda one: one.turn_id),
    candidates(),
    STONES,
)
def test_it_judges_as_one_with_the_whole_archive_in_memory(
    known: Any, erased: Any, archived: Any, exported: Any, imported: Any, staged: Any
) -> None:
    gone = {turn_id: one for turn_id, one in erased.items() if turn_id not in {turn.turn_id for turn in known}}
    judged(archive(*known, stones=archived, erased=gone), imported, [raw(turn) for turn in exported], staged)


def test_an_import_is_held_neither_by_who_stages_it_nor_by_who_judges_it(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    words = "x" * 2000
    tracemalloc.start()
    try:
        with stage(tmp_path / "imports", "jsonl") as staging:
            for number in range(5000):
                staging.add(exact(Turn(f"t{number}", "user", "5", words, float(number))))
        assert staging.path
        with ExitStack() as stack:
            catalog = stack.enter_context(closing(Catalog(tmp_path, print)))
            catalog.refresh()
            staged = StagedImport(staging.path)
            known = stack.enter_context(
                open_filter(load_settings(hmem_night_dir=tmp_path), catalog, tmp_path, [staged], [], [])
            )
            assert sum(verdict is ImportVerdict.NEW for _, verdict in classify_by_file(known, staged)) == 5000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < staging.path.stat().st_size / 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "catalog.json", "catalog.sqlite", "imports"]
