"""Turns to chunks: what cleaning takes away and keeps, how a long turn is cut, what is indexed."""

from __future__ import annotations

import base64
import hashlib
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.turns.chunking import PASSAGE_CHARACTERS, chunks_of, clean, indexed_text, passages, sentences
from shared.turns.records import Turn

PROPERTY = settings(max_examples=60)
BLOB = base64.b64encode(b"".join(hashlib.sha256(bytes([n])).digest() for n in range(16))).decode()
words = st.text("abcdefghij", min_size=1, max_size=12)


def turn(content: str, name: str | None = None) -> Turn:
    return Turn("t1", "user", "9912", content, 1_707_500_000.0, name)


def visible(text: str) -> str:
    return "".join(text.split())


@PROPERTY
@given(st.text("abc ÄÖñ漢字🙂.,;:!?()[]{}<>#*`'\"|\\~^%$&=0123456789\n", max_size=200))
@example("[31m and ]0; are plain text here")
def test_cleaning_keeps_every_visible_character_of_plain_text(text: str) -> None:
    assert visible(clean(text)) == visible(text)


@pytest.mark.parametrize(
    "data", [BLOB, f"data:image/png;base64,{BLOB}", BLOB.replace("+", "-").replace("/", "_"), BLOB.encode().hex()]
)
def test_encoded_data_is_replaced_by_its_length(data: str) -> None:
    cleaned = clean(f"look: {data}\n\nand say")
    assert cleaned.startswith("look: [")
    assert "characters of encoded data]" in cleaned
    assert cleaned.endswith("and say")
    assert len(cleaned) < 70


@pytest.mark.parametrize(
    "kept",
    [
        hashlib.sha512(b"x").hexdigest(),
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
        "Donaudampfschifffahrtsgesellschaftskapitän",
        "a" * 400,
        "https://example.org/a/very/long/path/with?query=1&more=2#and-a-fragment",
    ],
)
def test_hashes_keys_links_and_long_words_are_kept(kept: str) -> None:
    assert clean(f"it is {kept} indeed") == f"it is {kept} indeed"


@PROPERTY
@given(st.text("ab .!?\n\"')é。", max_size=300), st.integers(1, 60))
@example("a" * 100, 7)
@example("\n\nab ab\n\n\nab. ab", 3)
def test_passages_lose_nothing_keep_the_order_and_the_limit(text: str, limit: int) -> None:
    cut = passages(text, limit)
    assert visible("".join(cut)) == visible(text)
    assert all(0 < len(part) <= limit for part in cut)


@pytest.mark.slow
@PROPERTY
@given(
    st.lists(st.lists(words, min_size=1, max_size=4).map(lambda found: " ".join(found) + "."), min_size=1, max_size=12)
)
def test_a_sentence_is_never_cut_where_it_fits(found: list[str]) -> None:
    text = " ".join(found)
    longest = max(map(len, found))
    cut = passages(text, longest)
    assert " ".join(cut) == text
    assert [sentence for part in cut for sentence in sentences(part)] == found


def test_a_short_turn_is_one_chunk_that_says_where_it_comes_from() -> None:
    (chunk,) = chunks_of(turn("the code is \x1b[1m4711\x1b[0m", name=" Anna\n# Maria\x07 "))
    assert (chunk.chunk_id, chunk.turn_ids, chunk.exchange, chunk.chat_id) == ("t1:user#1", ("t1:user",), "t1", "9912")
    assert (chunk.text, chunk.speaker, chunk.role) == ("the code is 4711", "Anna # Maria", "user")
    assert (chunk.started_at, chunk.ended_at, chunk.passage, chunk.passages) == (1_707_500_000.0, 1_707_500_000.0, 1, 1)


@pytest.mark.parametrize("content", ["", " \n\t ", "\x1b[0m\x00", "\ud800"])
def test_a_turn_without_readable_text_has_no_chunks(content: str) -> None:
    assert chunks_of(turn("x"))
    assert chunks_of(turn(content)) == []


def test_what_is_indexed_has_speaker_and_the_date_of_the_zone() -> None:
    (chunk,) = chunks_of(turn("the code is 4711", name="Anna"))
    assert indexed_text(chunk, ZoneInfo("UTC")) == "Anna, 9 February 2024: the code is 4711"
    assert indexed_text(chunk, ZoneInfo("Asia/Tokyo")) == "Anna, 10 February 2024: the code is 4711"


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("a" * 1_000_000, 1_000_000),
        (". " * 500_000, 500_000),
        ("\n " * 500_000, 0),
        ("\x1b[" + ";" * 1_000_000, 1_000_001),
        (("\x1b]" + "a" * 900) * 1_100, 990_000),
        (BLOB.rstrip("=") * 1_400, 32),
        (base64.encodebytes(BLOB.encode() * 1_400).decode(), 90),
    ],
    ids=lambda value: value[:9].encode("unicode_escape").decode() if isinstance(value, str) else str(value),
)
def test_a_megabyte_of_anything_is_chunked(content: str, kept: int) -> None:
    chunks = chunks_of(turn(content))
    seen = sum(len(visible(chunk.text)) for chunk in chunks)
    assert seen == kept if kept > 100 or kept == 0 else 0 < seen <= kept
    assert max((len(chunk.text) for chunk in chunks), default=0) <= PASSAGE_CHARACTERS
