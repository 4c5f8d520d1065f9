"""Indexes in parts: which are taken over, and that a release of many nights' parts is the one that a single night would have built."""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightly.index import previous
from nightly.steps import build
from shared.errors import StorageError
from shared.release import parts
from shared.release.manifest import LEXICAL, VECTORS, Manifest, seal
from shared.release.parts import FANOUT, LEAST_ROWS, absorbed, level, new_part, part_files
from shared.search import lexical
from shared.search.lexical import LexicalIndex
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.turns.chunk import Chunk
from shared.turns.chunking import chunks_of
from shared.turns.records import Turn
from shared.vectors import searching
from shared.vectors.sqlite.files import VectorFile, read_content
from tests.support.night.builds import Nights, said, talk
from tests.support.night.index_world import DIMENSIONS, IDENTITY, MadeUp, settings_for

DAY = 86_400.0
NOON = 1_700_000_000.0

# ----------------------------------------------------------------------------------------------------- which are taken over


@dataclass
class Kept:
    """The parts of an index over many nights, by the policy alone."""

    rows: dict[str, int] = field(default_factory=dict)
    rewritten: dict[str, list[int]] = field(
        default_factory=dict
    )  # part -> level of each part that its oldest row was in
    written: int = 0

    def night(self, number: int, new: int) -> set[str]:
        gone = absorbed(self.rows, new)
        size = new + sum(self.rows.pop(name) for name in gone)
        past = max((self.rewritten.pop(name) for name in gone), key=len, default=[])
        if size:
            self.rows[str(number)] = size
            self.rewritten[str(number)] = [*past, level(size)]
            self.written += size
        return gone


nights_of_rows = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 60_000), st.just(0)), min_size=1, max_size=400)


@settings(max_examples=60, deadline=None)
@given(nights_of_rows)
def test_there_are_few_parts_and_no_row_is_written_often(nights: list[int]) -> None:
    kept = Kept()
    for number, new in enumerate(nights):
        before = dict(kept.rows)
        gone = kept.night(number, new)
        assert new or not gone, "nothing is written anew for nothing"
        assert not gone or len(gone) >= FANOUT - 1
        assert absorbed(dict(reversed(before.items())), new) == gone, "in whatever order they are told"
        for lowest in range(level(sum(nights)) + 1):
            assert sum(level(rows) == lowest for rows in kept.rows.values()) < FANOUT
    assert sum(kept.rows.values()) == sum(nights)
    for past in kept.rewritten.values():
        assert past == sorted(past), "a part never falls to a lower level"
        for one in range(1, level(sum(nights)) + 1):
            assert past.count(one) < FANOUT, "each rewriting within a level adds what is as large as its smallest part"


def test_a_thousand_nights_of_one_size_write_each_row_once_a_level() -> None:
    """What the module promises: log_8(n / 512) times from LEAST_ROWS on, and below it files that are small."""
    for new in (40, 700, 5000):
        kept = Kept()
        for number in range(1000):
            kept.night(number, new)
        for past in kept.rewritten.values():
            above = [one for one in past if one]
            assert len(above) == len(set(above))
        levels = sum(level(new) < one for one in range(level(1000 * new) + 1))
        small = 1000 / (FANOUT - 1) * LEAST_ROWS  # written together every seventh night, at most that many
        assert kept.written <= 1000 * new * (1 + levels) + small * (level(new) == 0)


def test_a_part_is_named_after_its_night_and_they_come_in_the_order_of_nights(tmp_path: Path) -> None:
    for name in ("10", "2", "2-10", "2-2", "1", "odd"):
        (tmp_path / f"{name}.sqlite").touch()
    (tmp_path / "2.sqlite-journal").touch()
    assert [path.stem for path in part_files(tmp_path)] == ["odd", "1", "2", "2-2", "2-10", "10"]
    assert new_part(tmp_path, 3).name == "3.sqlite"
    assert new_part(tmp_path, 1).name == "1-2.sqlite", "the first one is another night's, taken over"
    assert part_files(tmp_path / "1.sqlite") == [tmp_path / "1.sqlite"]
    assert part_files(tmp_path / "nothing") == []


# ----------------------------------------------------------------------------------------------------------- what is equal


def ordered(turns: Sequence[Turn]) -> list[Chunk]:
    """The chunks of these turns, as the night orders them."""
    by_time = sorted(turns, key=lambda turn: (turn.chat_id, turn.timestamp, turn.task_id, turn.role != "user"))
    return [chunk for turn in by_time for chunk in chunks_of(turn)]


@contextmanager
def anew(chunks: list[Chunk]) -> Iterator[Path]:
    """The indexes of these chunks as a first night builds them."""
    with tempfile.TemporaryDirectory() as folder:
        nights = Nights(Path(folder), "sqlite")
        nights.build(chunks)
        assert [len(part_files(nights.built / place)) for place in (LEXICAL, VECTORS)] == [1, 1]
        yield nights.built


def _items(index: LexicalIndex, chat: str) -> list[Any]:
    items = index.items(chat)
    assert items is not None
    features, near = items.features, items.features.neighbours
    arrays = (
        items.starts,
        features.tokens,
        features.lengths,
        features.asks,
        features.timed,
        near.total,
        near.continues,
    )
    spoken = [items.speakers[number] for number in items.said_by]
    return [items.chat_id, items.chunk_ids, spoken, *(array.tolist() for array in arrays)]


def _where(index: LexicalIndex, chat: str, terms: list[str]) -> dict[str, list[tuple[int, int]]]:
    items = index.items(chat)
    assert items is not None
    found = index.postings(items, terms)
    assert list(found) == sorted(found)
    return {
        term: sorted(zip(places.tolist(), counts.tolist(), strict=True)) for term, (places, counts) in found.items()
    }


def same_words(one: LexicalIndex, other: LexicalIndex, chunks: list[Chunk]) -> None:
    """Bit for bit."""
    assert one.all_chunks() == other.all_chunks() == chunks
    assert one.chunks_per_chat() == other.chunks_per_chat()
    assert {chat for chat, _ in one.first_texts(9)} == {chat for chat, _ in other.first_texts(9)}
    for chat in other.chunks_per_chat():
        own = [chunk for chunk in chunks if chunk.chat_id == chat]
        assert _items(one, chat) == _items(other, chat)
        terms = one.terms(re.findall(r"\w+", " ".join(chunk.text for chunk in own)))
        assert _where(one, chat, terms) == _where(other, chat, terms)
        assert one.questions_of(own, chat) == other.questions_of(own, chat)
        assert one.holding(chat, [c.turn_ids[0] for c in chunks]) == {c.turn_ids[0] for c in own}
        for query in QUESTIONS:
            assert one.search(query, chat, 50) == other.search(query, chat, 50)


def same_vectors(one: VectorFile, other: VectorFile, chunks: list[Chunk]) -> None:
    assert one.chats() == other.chats()
    for chat in other.chats():
        mine, wanted = one.chat(chat), other.chat(chat)
        assert mine is not None and wanted is not None
        assert mine.rows.keys() == wanted.rows.keys() == {c.chunk_id for c in chunks if c.chat_id == chat}
        assert sorted(mine.ids) == sorted(wanted.ids)
        for chunk_id, row in mine.rows.items():
            assert np.array_equal(mine.vectors[row], wanted.vectors[wanted.rows[chunk_id]])
            assert mine.ids[row] == wanted.ids[wanted.rows[chunk_id]], "the same chunk stands for all that repeat it"


def same(built: Path, chunks: list[Chunk]) -> None:
    """What these files hold, and answer, is what one night would have made of the same chunks."""
    with anew(chunks) as other:
        with closing(LexicalIndex(built / LEXICAL)) as words, closing(LexicalIndex(other / LEXICAL)) as wanted:
            same_words(words, wanted, chunks)
        with (
            closing(VectorFile(built / VECTORS, DIMENSIONS)) as vectors,
            closing(VectorFile(other / VECTORS, DIMENSIONS)) as exact,
        ):
            same_vectors(vectors, exact, chunks)


def same_recall(built: Path, chunks: list[Chunk], root: Path) -> None:
    """The same hits in the same order with the same scores, to the last bit but for the cosines, whose sums are of another order."""
    with anew(chunks) as other, settings_for([], root) as made:
        opened = [OpenRelease(made, sealed(one, root / str(number))) for number, one in enumerate((built, other))]
        for one in opened:
            one.open_vectors()
            assert one.vectors_missing is None
        for chat in sorted({chunk.chat_id for chunk in chunks}):
            for query in QUESTIONS:
                found, wanted = (one.recall(Query(chat, query, 10, now=NOON + 60 * DAY)) for one in opened)
                assert found.degraded == wanted.degraded == []
                assert [_told(hit) for hit in found.hits] == [_told(hit) for hit in wanted.hits]
                for hit, expected in zip(found.hits, wanted.hits, strict=True):
                    assert hit.scores == pytest.approx(expected.scores, abs=1e-6)
        for one in opened:
            one.close()


def _told(hit: Any) -> tuple[Any, ...]:
    return hit.chunk, hit.question, hit.also, hit.lexical, hit.scores["bm25"]


def sealed(built: Path, path: Path) -> Path:
    """A release of what was built."""
    shutil.copytree(built, path, ignore=shutil.ignore_patterns("result.json"))
    with closing(LexicalIndex(path / LEXICAL)) as index:
        per_chat = index.chunks_per_chat()
    seal(path, Manifest(1, None, {}, 1, 1, "UTC", ["sqlite"], IDENTITY, per_chat, per_chat, {}, {}))
    return path


# --------------------------------------------------------------------------------------------------- nights, of made-up talk


TEXTS = (
    "the boiler code is 4711", "the heron came to the pond", "OK", "when does the train leave?", "at nine o'clock on Monday",
    "the engineer mends the boiler tomorrow", "Größe 42, naïve café", "no boiler, no heron, no pond", "a boiler. " * 250,
    "heron and train. " * 120 + "OK",
)  # fmt: skip
QUESTIONS = (
    "what is the boiler code?",
    "heron pond",
    "when did Anna say OK?",
    "nothing of the kind",
    "train on Monday cafe",
)
NAMES = (None, "Anna", "Boris", "the assistant")

#: One thing that happens: which turn (chat, task, role), what it says from now on (None: it is forgotten), when, and who said it.
happening = st.tuples(
    st.sampled_from("12"), st.integers(0, 12), st.sampled_from(("user", "asst")),
    st.none() | st.sampled_from(TEXTS), st.integers(0, 6), st.sampled_from(NAMES),
)  # fmt: skip
lives = st.lists(st.lists(happening, min_size=0, max_size=5), min_size=2, max_size=12)


def lived(life: Sequence[Sequence[tuple[Any, ...]]]) -> Iterator[list[Chunk]]:
    """After each night all chunks that there are."""
    turns: dict[tuple[str, str, str], Turn] = {}
    for night in life:
        for chat, number, role, text, hour, name in night:
            turn = Turn(f"t{number}c{chat}", role, chat, text or "", NOON + 3600.0 * hour, name)
            turns[chat, turn.task_id, role] = turn
        yield ordered([turn for turn in turns.values() if turn.content])


@settings(max_examples=12, deadline=None)
@given(lives)
def test_whatever_was_said_changed_or_forgotten_in_whichever_night(life: list[list[tuple[Any, ...]]]) -> None:
    """Late turns, turns of the same instant, of another speaker, repeated and long ones: they are all drawn here."""
    with tempfile.TemporaryDirectory() as folder:
        nights = Nights(Path(folder), "sqlite")
        for chunks in lived(life):
            nights.published(chunks)
        same(nights.built, chunks)
        _hold_nothing_else(nights.built, chunks)


def _hold_nothing_else(built: Path, chunks: list[Chunk]) -> None:
    """Each chunk is in one part of each index, all passages of a turn in the same, and no part holds another."""
    wanted = sorted((chunk.chat_id, chunk.chunk_id) for chunk in chunks)
    texts = [lexical.part_ids(path) for path in part_files(built / LEXICAL)]
    assert sorted((chat, one) for ids in texts for chat, some in ids.items() for one in some) == wanted
    turns = [{one.rpartition("#")[0] for some in ids.values() for one in some} for ids in texts]
    assert sum(map(len, turns)) == len(set[str]().union(*turns))
    vectors = [read_content(path) for path in part_files(built / VECTORS)]
    held = [
        (chat, one) for c in vectors for by_chat in (c.ids, c.repeats) for chat, some in by_chat.items() for one in some
    ]
    assert sorted(held) == wanted


@pytest.fixture
def recalling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "open_embedder", lambda settings: MadeUp())


@pytest.mark.usefixtures("recalling")
def test_forty_nights_recall_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parts become large ones on the way, one chat speaks every third night only, and each turn has several speakers' neighbours."""
    monkeypatch.setattr(parts, "LEAST_ROWS", 16)
    chance, nights, turns = random.Random(7), Nights(tmp_path, "sqlite"), list[Turn]()
    seen = set[int]()
    for night in range(40):
        for number in range(chance.randint(0, 4) if night != 20 else 30):
            chat = "rare" if night % 3 == 0 and number == 0 else chance.choice("12")
            late = chance.choice((0, 0, 0, 9))  # days
            moment = NOON + (night - late) * DAY + 3600.0 * chance.randint(0, 3)
            text = chance.choice(TEXTS) if chance.random() < 0.5 else f"note {len(turns)}: {chance.choice(TEXTS)}"
            role = chance.choice(("user", "asst"))
            turns.append(Turn(f"t{len(turns) // 2}{chat}", role, chat, text, moment, chance.choice(NAMES)))
        turns = list({(turn.chat_id, turn.turn_id): turn for turn in turns}.values())
        nights.published(chunks := ordered(turns))
        seen.add(len(part_files(nights.built / LEXICAL)))
        assert len(part_files(nights.built / LEXICAL)) <= 3 * (FANOUT - 1)
    assert 3 <= len(part_files(nights.built / LEXICAL)) < 40, "of several parts, not one for each night"
    assert len(seen) > 3
    same(nights.built, chunks)
    same_recall(nights.built, chunks, tmp_path)


# ------------------------------------------------------------------------------------------------------- what a night takes


def names(place: Path) -> list[str]:
    return [path.name for path in part_files(place)]


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Three nights, each with a turn of each of two chats, the words "OK" among them."""
    made = Nights(tmp_path, "sqlite")
    for count in (1, 2, 3):
        made.published(three_nights()[: 3 * count])
    return made


def three_nights() -> list[Chunk]:
    """The chunks of the first night, then those of the second, then those of the third."""
    return [
        chunk
        for night in (1, 2, 3)
        for chunk in (said("1", night), said("1", 10 * night, "OK"), said("2", night, f"violet giraffe{night}"))
    ]


def test_what_is_still_wanted_is_the_same_file(nights: Nights) -> None:
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in nights.built.rglob("*.sqlite")}
    result = nights.published([*three_nights(), said("1", 4)])
    assert (result["copied_forward"], result["added"]) == (7, 1), "OK has one vector; the others are known by it"
    for place in (LEXICAL, VECTORS):
        assert names(nights.built / place) == ["1.sqlite", "2.sqlite", "3.sqlite", "4.sqlite"]
        assert {*result["places"][place]["parts"]} == {*names(nights.built / place)}
    for path, (inode, content) in before.items():
        now = nights.built / path.parent.name / path.name
        assert (now.stat().st_ino, now.read_bytes(), path.read_bytes()) == (inode, content, content)
    assert nights.report.lines == []
    same(nights.built, _in_order([*three_nights(), said("1", 4)]))


def _in_order(chunks: list[Chunk]) -> list[Chunk]:
    return sorted(chunks, key=lambda chunk: (chunk.chat_id, chunk.started_at, chunk.exchange))


def test_a_night_with_nothing_new_writes_no_part(nights: Nights) -> None:
    for _ in range(3):
        result = nights.published(three_nights())
        assert (names(nights.built / LEXICAL), names(nights.built / VECTORS)) == (
            ["1.sqlite", "2.sqlite", "3.sqlite"],
        ) * 2
    assert (result["copied_forward"], result["added"]) == (7, 0)


def test_nights_in_which_nobody_ever_spoke_have_one_empty_part(tmp_path: Path) -> None:
    nights = Nights(tmp_path, "sqlite")
    for _ in range(4):
        nights.published([])
        assert [len(part_files(nights.built / place)) for place in (LEXICAL, VECTORS)] == [1, 1]
    nights.published(talk(2))
    same(nights.built, talk(2)[2:] + talk(2)[:2])


def _newest_words(nights: Nights) -> set[str]:
    return {one for ids in lexical.part_ids(part_files(nights.built / LEXICAL)[-1]).values() for one in ids}


@pytest.mark.parametrize("night", [1, 2, 3])
def test_after_a_forget_the_part_that_held_it_is_made_anew_and_no_other(nights: Nights, night: int) -> None:
    gone = f"t{night}-2:user"
    left = [chunk for chunk in three_nights() if chunk.turn_ids != (gone,)]
    nights.published(left)
    others = [f"{one}.sqlite" for one in (1, 2, 3) if one != night]
    assert names(nights.built / LEXICAL) == names(nights.built / VECTORS) == [*others, "4.sqlite"]
    assert _newest_words(nights) == {f"t{night}-1:user#1", f"t{10 * night}-1:user#1"}, "the rest of that part"
    files = [path for top in (nights.built, nights.last) for path in top.rglob("*") if path.is_file()]
    assert len(files) == 6 + 6 + 2
    for word in (gone, f"giraffe{night}"):
        assert not [path for path in files if word.encode() in path.read_bytes()], word
    assert [line.split()[0] for line in nights.report.lines] == [f"{p}/{night}.sqlite" for p in (LEXICAL, VECTORS)]
    same(nights.built, _in_order(left))


def test_a_forgotten_first_of_equal_vectors_leaves_the_next_in_its_place(nights: Nights) -> None:
    """The later parts say whose vector theirs is: they are made anew too, the words of theirs are not."""
    left = [chunk for chunk in three_nights() if chunk.chunk_id != "t10-1:user#1"]
    nights.published(left)
    assert names(nights.built / LEXICAL) == ["2.sqlite", "3.sqlite", "4.sqlite"]
    assert names(nights.built / VECTORS) == ["4.sqlite"]
    same(nights.built, _in_order(left))


def test_a_late_turn_becomes_the_first_of_its_equals(nights: Nights) -> None:
    late = replace(said("1", 0, "OK"), started_at=0.5, ended_at=0.5)
    nights.published([late, *three_nights()])
    assert names(nights.built / LEXICAL) == ["1.sqlite", "2.sqlite", "3.sqlite", "4.sqlite"]
    assert names(nights.built / VECTORS) == ["4.sqlite"]
    same(nights.built, _in_order([late, *three_nights()]))


def test_a_changed_turn_is_in_the_new_part_alone(nights: Nights) -> None:
    changed = [replace(c, text="indigo zebra") if c.chunk_id == "t2-2:user#1" else c for c in three_nights()]
    nights.published(changed)
    assert names(nights.built / LEXICAL) == names(nights.built / VECTORS) == ["1.sqlite", "3.sqlite", "4.sqlite"]
    assert not [path for path in nights.built.rglob("*") if path.is_file() and b"giraffe2" in path.read_bytes()]
    same(nights.built, _in_order(changed))


def _rewritten(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """A new file: the old one is a link to what a night has built."""

    def damage(path: Path) -> None:
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(change(content))

    return damage


def _made_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: Mapping[str, Callable[[Path], None]] = {
    "a flipped byte": _rewritten(lambda content: content[:-1] + bytes([content[-1] ^ 1])),
    "cut": _rewritten(lambda content: content[:4096]),
    "empty": _rewritten(lambda content: b""),
    "gone": Path.unlink,
    "a directory": _made_directory,
    "another part": lambda path: _rewritten(lambda _: (path.parent / "1.sqlite").read_bytes())(path),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_part_that_is_not_as_it_was_is_made_anew(nights: Nights, name: str) -> None:
    for place in (LEXICAL, VECTORS):
        DAMAGE[name](nights.last / "3" / place / "2.sqlite")
    result = nights.published([*three_nights(), said("1", 4)])
    assert names(nights.built / LEXICAL) == names(nights.built / VECTORS) == ["1.sqlite", "3.sqlite", "4.sqlite"]
    assert (result["copied_forward"], result["added"]) == (5, 3), "but for an OK, which has no vector of its own"
    assert _newest_words(nights) == {"t2-1:user#1", "t20-1:user#1", "t2-2:user#1", "t4-1:user#1"}
    assert all("was changed, or cannot be read" in line for line in nights.report.lines)
    same(nights.built, _in_order([*three_nights(), said("1", 4)]))


def test_a_night_that_makes_all_of_it_once_more_takes_nothing(nights: Nights) -> None:
    result = nights.published(three_nights(), rebuild=True)
    assert names(nights.built / LEXICAL) == names(nights.built / VECTORS) == ["4.sqlite"]
    assert (result["copied_forward"], result["added"], nights.report.lines) == (0, 7, [])


def test_parts_of_another_model_or_layout_are_not_taken(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    nights.published(three_nights(), digest="d2")
    assert (names(nights.built / LEXICAL), names(nights.built / VECTORS)) == (
        ["1.sqlite", "2.sqlite", "3.sqlite"],
        ["4.sqlite"],
    )
    assert nights.report.lines[0].startswith("  vectors/ is built from nothing")
    monkeypatch.setattr(lexical, "LAYOUT", lexical.LAYOUT + 1)
    nights.published(three_nights(), digest="d2")
    assert (names(nights.built / LEXICAL), names(nights.built / VECTORS)) == (["5.sqlite"], ["4.sqlite"])


def test_a_night_that_is_built_twice_names_its_part_beside_the_old_one(nights: Nights) -> None:
    """As where the night directory was put back from a copy, but for what was kept for the next night."""
    nights.runs = 2
    shutil.rmtree(nights.settings.hmem_night_dir / "nights" / "3")
    nights.published([*three_nights(), said("1", 4)])
    assert (
        names(nights.built / LEXICAL)
        == names(nights.built / VECTORS)
        == ["1.sqlite", "2.sqlite", "3.sqlite", "3-2.sqlite"]
    )
    same(nights.built, _in_order([*three_nights(), said("1", 4)]))


def test_eight_nights_become_one_part_once(tmp_path: Path) -> None:
    nights = Nights(tmp_path, "sqlite")
    for night in range(1, FANOUT + 3):
        chunks = [said("1", 10 + number) for number in range(night)]
        nights.published(chunks)
    assert names(nights.built / LEXICAL) == names(nights.built / VECTORS) == ["8.sqlite", "9.sqlite", "10.sqlite"]
    record = previous._read(nights.last / "10")
    assert {name: part["rows"] for name, part in record[LEXICAL]["parts"].items()} == {
        "8.sqlite": 8,
        "9.sqlite": 1,
        "10.sqlite": 1,
    }
    same(nights.built, chunks)


class Died(BaseException):
    """As if the power had gone."""


@pytest.mark.parametrize("point", ["build:lexical-built", "build:closed"])
def test_a_build_that_dies_leaves_what_it_takes_over_as_it_was(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    night, before = nights.night([*three_nights(), said("1", 4)]), previous.hash_files(nights.last)

    def dies(name: str) -> None:
        if name == point:
            raise Died

    with monkeypatch.context() as broken:
        broken.setattr(build, "crash_point", dies)
        with pytest.raises(Died):
            build.run(night, night.begin("build"))
    assert previous.hash_files(nights.last) == before
    result = build.run(night, out := night.begin("build"))
    assert (result["copied_forward"], result["added"]) == (7, 1)
    assert names(out / LEXICAL) == names(out / VECTORS) == ["1.sqlite", "2.sqlite", "3.sqlite", "4.sqlite"]
    same(out, _in_order([*three_nights(), said("1", 4)]))


def test_a_part_that_cannot_be_linked_stops_the_night(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError(31, "Too many links")

    with monkeypatch.context() as full:
        full.setattr(os, "link", refused)
        with pytest.raises(
            StorageError, match=r"lexical/1\.sqlite could not be linked .*Too many links.* run the night again"
        ):
            nights.build([*three_nights(), said("1", 4)])
