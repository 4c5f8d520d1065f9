"""What seven languages call days and months: whole tables, typed with accents and without."""

from __future__ import annotations

import re

import pytest

from shared.text.dates.calendar_words import WORDS, either, index_of, number_of


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_every_language_has_all_of_its_words(words: dict[str, list[str]]) -> None:
    assert [len(words[kind]) for kind in ("weekdays", "months", "month_short", "numbers", "days")] == [7, 12, 12, 15, 5]
    assert list(words["units"]) == "minute hour day week weekend month quarter year".split()


def test_accents_may_be_left_out() -> None:
    for typed in ("märz", "maerz", "marz", "ma\u0308rz"):
        assert index_of(typed, WORDS["de"]["months"]) == 2
    assert re.fullmatch(either(["трёх", "май"]), "трех")
    assert not re.fullmatch(either(["май"]), "маи"), "й is a letter of its own"
    assert number_of("ein paar", WORDS["de"]) == 3
    with pytest.raises(ValueError, match="smarch"):
        index_of("smarch", WORDS["en"]["months"])
