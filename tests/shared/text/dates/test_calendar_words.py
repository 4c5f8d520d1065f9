"""What five languages call days and months: whole tables, of which each name reads as what it is shown for."""

from __future__ import annotations

import re
import unicodedata

import pytest

from shared.text.dates.calendar_words import ENGLISH, GERMAN, RUSSIAN, WORDS, CalendarWords, either, index_of, number_of


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_a_name_that_is_shown_is_read_as_the_same(words: CalendarWords) -> None:
    assert (len(words.weekdays), len(words.months), len(words.numbers)) == (7, 12, 15)
    assert (len(words.weekday_short) in (0, 7), len(words.month_short)) == (True, 12)
    assert list(words.units) == "minute hour day week weekend month quarter year".split()
    for names, forms in ((words.weekdays, words.weekday_forms), (words.months, words.month_forms)):
        for index, name in enumerate(names):
            for typed in (name.lower(), unicodedata.normalize("NFD", name.lower())):
                assert index_of(typed, forms) == index


def test_accents_may_be_left_out() -> None:
    for typed in ("märz", "maerz", "marz", "ma\u0308rz"):
        assert index_of(typed, GERMAN.month_forms) == 2
    assert re.fullmatch(either(["трёх", "май"]), "трех")
    assert not re.fullmatch(either(["май"]), "маи"), "й is a letter of its own"


@pytest.mark.parametrize(
    ("said", "words", "number"),
    [("14", ENGLISH, 14), ("a few", ENGLISH, 3), ("ein paar", GERMAN, 3), ("einem", GERMAN, 1), ("пару", RUSSIAN, 2)],
)
def test_numbers(said: str, words: CalendarWords, number: int) -> None:
    assert number_of(said, words) == number


def test_a_word_that_no_table_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="smarch"):
        index_of("smarch", ENGLISH.month_forms)
