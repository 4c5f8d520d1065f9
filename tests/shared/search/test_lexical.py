"""Keyword search: whose words are found, which words are asked for, in what order, and which damage is seen before a release."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.errors import HmemError, LedgerMismatch, StorageError
from shared.search.lexical import LexicalIndex, build, check
from shared.system.files import sha256_file
from shared.turns.chunk import Chunk
from tests.support.night.archives import every_chunk
from tests.support.night.builds import talk
from tests.support.night.indexes.damage import flip_page, sql

PROPERTY = settings(max_examples=60)
CHATS = ["9912", "-100123", "c1", "c2", "A", "a", 'q"uote', "chat:c1", "* OR 1", "%", "чат"]
Open = Callable[..., LexicalIndex]


def chunk(
    chunk_id: str, text: str, chat: str = "9912", role: str = "user", exchange: str = "t1", passage: int = 1
) -> Chunk:
    return Chunk(chunk_id, chat, exchange, (f"{exchange}:{role}",), role, "anna", text, 5.0, 6.0, passage, 2)


def found(index: LexicalIndex, query: str, chat: str = "9912") -> list[str]:
    return sorted(index.finding(query, chat))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Builds an index of chunks and opens it."""
    indexes: list[LexicalIndex] = []

    def make(*chunks: Chunk) -> LexicalIndex:
        path = tmp_path / str(len(indexes))
        build(path, 1, [(one, one.text) for one in sorted(chunks, key=lambda one: one.chat_id)])
        indexes.append(LexicalIndex(path))
        return indexes[-1]

    yield make
    for index in indexes:
        index.close()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LexicalIndex]:
    """The same words in every chat, beside a word of its own."""
    path = tmp_path_factory.mktemp("crowd") / "lexical"
    build(
        path,
        1,
        [
            (chunk(f"{chat}#{n}", text := f"canary c1 c2 chat body own{number} note {n}", chat), text)
            for number, chat in enumerate(CHATS)
            for n in range(3)
        ],
    )
    index = LexicalIndex(path)
    yield index
    index.close()


TRICKS = (
    """canary own3 c1 "c2" chat:"c2" chat:c2 -chat:c1 OR AND NOT NEAR( ) ( * " ^ : {chat body}: + ' ;-- % \\""".split(
        " "
    )
)

queries = st.text(max_size=60) | st.lists(st.sampled_from(TRICKS)).map(" ".join)


@PROPERTY
@given(queries, st.sampled_from(CHATS))
@example('canary" OR chat:"c2', "9912")
@example("canary OR chat:c2", "c1")
@example('x") OR chat:("c2" OR "c3', "A")
def test_no_query_reaches_another_chat(crowd: LexicalIndex, query: str, chat: str) -> None:
    own = {f"{chat}#{n}" for n in range(3)}
    assert set(found(crowd, query, chat)) <= own
    assert set(found(crowd, f"canary {query}", chat)) == own, "and whatever stands in the query, its words are found"


def test_chunks_of_another_chat_are_not_found_by_id(crowd: LexicalIndex) -> None:
    everything = [f"{chat}#0" for chat in CHATS]
    assert list(crowd.chunks(everything, "c1")) == ["c1#0"]
    assert crowd.chunks(everything, "nobody") == crowd.chunks([], "c1") == {}
    assert crowd.chunks(["c1#0"], "c1")["c1#0"].text == "canary c1 c2 chat body own2 note 0"


def test_rows_of_another_chat_do_not_come_out_even_if_the_file_says_so(tmp_path: Path) -> None:
    build(tmp_path, 1, [(chunk(chat, "canary", chat), "canary") for chat in ("A", "B")])
    damage = sqlite3.connect(tmp_path / "1.sqlite", isolation_level=None)
    damage.executescript("UPDATE chats SET chat_no = -chat_no; UPDATE chats SET chat_no = chat_no + 3;")
    damage.close()
    with closing(LexicalIndex(tmp_path)) as index:
        assert index.chunks(found(index, "canary", "A"), "A") == {}
    with pytest.raises(LedgerMismatch):
        check(tmp_path, {"A": 1, "B": 1})


def test_a_question_of_another_chat_is_not_shown_with_an_answer(opened: Open) -> None:
    index = opened(
        chunk("q2", "second passage of the question", passage=2),
        chunk("q1", "first passage of the question"),
        chunk("a", "an answer", role="asst"),
        chunk("foreign", "an answer elsewhere", chat="77", role="asst"),
        chunk("alone", "an answer to nothing", role="asst", exchange="t9"),
    )
    every = {one.chunk_id: one for one in every_chunk(index)}
    asked = {"t1": "first passage of the question"}
    assert index.questions_of([every["a"], every["alone"], every["q1"]], "9912") == asked
    assert index.questions_of([every["alone"], every["q1"]], "9912") == {}
    assert index.questions_of([every["foreign"]], "77") == index.questions_of([every["foreign"]], "9912") == {}


def test_a_built_file_stands_alone_and_is_read_without_a_trace(tmp_path: Path) -> None:
    folder = tmp_path / "odd?name#1 %20"
    path = folder / "1.sqlite"
    build(folder, 1, [(chunk("1", "the boiler"), "the boiler")])
    before = sha256_file(path)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    path.chmod(0o444)
    folder.chmod(0o555)
    index = LexicalIndex(folder)
    try:
        assert found(index, "boiler") == ["1"], "an immutable file is read without a lock"
        writer.execute("ROLLBACK")
        for statement in ("DELETE FROM chunks", "CREATE TABLE more (x)"):
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                index._rows(statement, ())
    finally:
        writer.close()
        index.close()
        folder.chmod(0o755)
    assert [entry.name for entry in folder.iterdir()] == ["1.sqlite"]
    assert sha256_file(path) == before
    assert path.read_bytes()[18:20] == b"\x01\x01", "no WAL"


LEXICAL_DAMAGE: dict[str, tuple[Callable[[Path], object], type[HmemError], str]] = {
    "a chunk is gone": (sql("DELETE FROM chunks WHERE chunk_no = 3"), LedgerMismatch, "holds 39 chunks"),
    "a chunk that nobody made": (
        sql("INSERT INTO chunks SELECT 99, 'x', chat_id, exchange, turn_ids, role, speaker, text, 1, 1, 1, 1, NULL, NULL FROM chunks LIMIT 1"),
        LedgerMismatch,
        "holds 41 chunks",
    ),
    "a chunk of another chat": (sql("UPDATE chunks SET chat_id = '77' WHERE chunk_no = 3"), LedgerMismatch, "holds"),
    "another count of a word": (sql("UPDATE postings SET counts = x'0900' WHERE term = 'note'"), LedgerMismatch, "by keyword"),
    "a word is gone": (sql("DELETE FROM postings WHERE chat_no = 1 AND term = 'note'"), LedgerMismatch, "finds 19 by keyword"),
    "words of nobody": (
        sql("INSERT INTO postings SELECT 7, term, ordinals, counts FROM postings WHERE chat_no = 1"), LedgerMismatch, "finds 40 by keyword"),
    "two chats changed their words": (
        sql("UPDATE items SET chat_no = -chat_no", "UPDATE items SET chat_no = chat_no + 3"), LedgerMismatch, "by keyword"),
    "a flipped byte": (lambda p: flip_page(p, 2), StorageError, "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEXICAL_DAMAGE)
def test_damage_to_closed_keywords_is_seen(tmp_path: Path, name: str) -> None:
    damage, error, why = LEXICAL_DAMAGE[name]
    build(tmp_path, 1, [(chunk, chunk.text) for chunk in talk(20)])
    (part,) = tmp_path.iterdir()
    before = sha256_file(part)
    assert check(tmp_path, {"9912": 20, "-100123": 20}) == {"9912": 20, "-100123": 20}
    assert (sha256_file(part), list(tmp_path.iterdir())) == (before, [part]), "the proof leaves no trace"
    damage(part)
    with pytest.raises(error, match=why):
        check(tmp_path, {"9912": 20, "-100123": 20})
