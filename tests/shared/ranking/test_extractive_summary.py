"""The summary of one chat: bounded, repeatable, recent sentences first, with absolute dates."""

from __future__ import annotations

import re
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightly.steps import summarise
from shared.ranking.extractive_summary import LONGEST_SENTENCE, SUMMARY_CHARACTERS
from shared.ranking.extractive_summary import summarise as extract
from shared.turns.chunk import Chunk
from tests.support.samples import NOW, chunk

PROPERTY = settings(max_examples=60)
DAY = 86_400.0
words = st.text("abcdeéß", min_size=1, max_size=12)
lines = st.lists(words, min_size=1, max_size=60).map(" ".join)


talk = st.lists(
    st.builds(chunk, st.lists(lines, min_size=1, max_size=5).map(". ".join), st.floats(0, NOW), st.text("xyz", min_size=1, max_size=80)),
    max_size=30,
)  # fmt: skip


def texts(chunks: list[Chunk]) -> list[str]:
    return [sentence.text for sentence in extract(chunks)]


def written(chunks: list[Chunk], zone: str = "UTC") -> str:
    """The summary of a chat."""
    return summarise._extract(chunks, ZoneInfo(zone))


def many(number: int, length: int = 0) -> list[Chunk]:
    """Sentences of different words, one a day."""
    word = [f"{a}{b}{c}" for a in "bcdfghk" for b in "aeiou" for c in "lmnprst"]
    said = [
        f"the {word[n % 240]}one {word[(7 * n + 3) % 240]}two to {word[(11 * n + 5) % 240]}three" for n in range(number)
    ]
    said = [" ".join([text, *(f"{text[4:7]}{k}x{n}" for k in range(length))]) for n, text in enumerate(said)]
    return [chunk(f"{text}.", NOW - (number - n) * DAY, number=n) for n, text in enumerate(said)]


@PROPERTY
@given(talk)
def test_a_summary_is_bounded_repeatable_and_word_for_word(chunks: list[Chunk]) -> None:
    chosen = extract(chunks)
    assert sum(sentence.cost for sentence in chosen) <= SUMMARY_CHARACTERS
    assert all(len(sentence.text) <= LONGEST_SENTENCE for sentence in chosen)
    assert chosen == extract(list(chunks))
    for one in chosen:
        words_said = one.text.removesuffix("…").rstrip()
        assert any(words_said in c.text for c in chunks if (c.speaker, c.started_at) == (one.speaker, one.timestamp))
    assert [sentence.order for sentence in chosen] == sorted({sentence.order for sentence in chosen})


def test_recent_sentences_come_before_older_ones_of_the_same_worth() -> None:
    days = [(NOW - sentence.timestamp) / DAY for sentence in extract(many(400))]
    assert len(days) > 20
    assert max(days) < 100
    newest = chunk("a word about the new topic of gardens", NOW + 3_650 * DAY)
    assert newest.text in texts([*many(400), newest])


WORTH = ["The boiler code is 4711 and 12.", "see https://example.org/manual now", "we sat, Anna and Bert, near Lyon"]


@pytest.mark.parametrize("worth", WORTH)
def test_numbers_links_and_names_are_kept_before_small_talk(worth: str) -> None:
    others = [chunk(one.text, NOW) for one in many(100)]
    plain = re.sub(r"[\d:/]", "", worth).casefold()
    assert plain not in texts([*others, chunk(plain, NOW)])
    assert worth in texts([*others, chunk(worth, NOW)])


def test_a_repeated_sentence_stands_once_and_it_is_the_newest() -> None:
    said = "The boiler code is 4711, do not forget it."
    chunks = [chunk(said, NOW + n * DAY, number=1_000 + n) for n in range(5)]
    again = chunk("Please do not forget: the boiler code is 4711!", NOW - 9 * DAY)
    found = [one for one in extract([*many(100), again, *chunks]) if "4711" in one.text]
    assert [(one.text, one.timestamp) for one in found] == [(said, NOW + 4 * DAY)]


def test_a_chat_of_few_turns_stands_in_it_whole() -> None:
    said = ["my cat is Mina", "ok", "sie ist drei", "猫很可爱", "thanks!"]
    told = ["my cat is Mina", "sie ist drei", "猫很可爱"]
    assert texts([chunk(text, NOW + n, number=n) for n, text in enumerate(said)]) == told


def test_each_of_the_latest_conversations_has_a_place() -> None:
    """However much was said in the last one."""
    before = [
        chunk(f"The {word} was sold to Kiel for {n}00 euros", NOW - n * DAY, number=n)
        for n, word in ((3, "boat"), (2, "house"))
    ]
    long = [replace(one, started_at=NOW + n, ended_at=NOW + n) for n, one in enumerate(many(200, 8))]
    assert {one.text for one in before} <= set(texts([*before, *long]))


def test_the_file_tells_what_was_said_with_absolute_dates_newest_first() -> None:
    chunks = [
        chunk("We leave for Lyon tomorrow at 7.", NOW - 2 * DAY, number=1),
        chunk("The garden gate has number 12.", NOW, "bert", number=2),
        chunk("The boiler code is 4711 today.", NOW + 600, number=3),
    ]
    assert written(chunks).rstrip() == (
        "3 turns on 2 days, 2024-02-07 to 2024-02-09: anna (2), bert (1). As they were said, newest first.\n\n"
        "- 2024-02-09 anna: The boiler code is 4711 today.\n- 2024-02-09 bert: The garden gate has number 12.\n"
        "- 2024-02-07 anna: We leave for Lyon tomorrow at 7."
    )
    assert "- 2024-02-10 bert" in written(chunks, "Asia/Tokyo"), "dates are those of the chat's zone"
