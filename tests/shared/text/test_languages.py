"""Languages: Russian words are found in other forms, and its function words are understood."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from shared.ranking.question import query_terms, query_words
from shared.ranking.tokeniser import Tokeniser
from shared.text.marks import skeleton
from shared.text.writing import MOST_MARKS, folded, spaced


def test_many_marks_on_one_letter_are_cut_before_they_are_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """NFC and NFKD sort a run of marks in quadratic time: of 40,000 the first ones remain."""
    given: list[str] = []
    normalize = unicodedata.normalize

    def noting(form: Any, text: str) -> str:
        given.append(text)
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", noting)
    marked = "a" + "\u0301\u0316" * 20_000 + "b"
    folded.cache_clear()
    assert [spaced(marked), folded(marked), skeleton(marked)] == [spaced(marked[:31] + "b"), "ab", "ab"]
    assert given
    assert max(map(len, given)) == 2 + MOST_MARKS


def test_other_words_stay_other_words() -> None:
    tokeniser = Tokeniser()
    assert not set(tokeniser.terms("лодка собака")) & set(tokeniser.terms("лад собор сервер"))


def test_function_words_of_a_russian_question_are_not_asked_for() -> None:
    assert query_terms(query_words("А что я тебе говорил про её лодку?")) == ["говорил", "лодку"]
    assert query_terms(query_words("что это?")) == ["что", "это"], "unless there is nothing else"
