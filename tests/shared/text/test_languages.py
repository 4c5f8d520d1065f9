"""Languages: Russian words are found in other forms, its function words and times are understood, and each message's language is told."""

from __future__ import annotations

import unicodedata
from contextlib import closing
from typing import Any

import pytest

from shared.ranking.question import query_terms, query_words
from shared.ranking.tokeniser import Tokeniser
from shared.text.language import detect
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
    with closing(Tokeniser()) as tokeniser:
        assert not set(tokeniser.terms("лодка собака")) & set(tokeniser.terms("лад собор сервер"))


def test_function_words_of_a_russian_question_are_not_asked_for() -> None:
    assert query_terms(query_words("А что я тебе говорил про её лодку?")) == ["говорил", "лодку"]
    assert query_terms(query_words("что это?")) == ["что", "это"], "unless there is nothing else"


MESSAGES = """
    en|did the plumber call back?
    en|scan 192.168.1.1 with nmap
    en|HELP ME PLEASE
    ru|привет, как дела?
    ru|напомни завтра в 9:00 позвонить врачу
    uk|завтра я їду до Львова
    de|guten Morgen
    fr|j'ai acheté un nouveau vélo
    es|hasta mañana entonces
    it|come si chiama il ristorante
    pt|não consigo ir amanhã
    pl|kupiłem wczoraj nowy rower
    tr|günaydın
    el|πότε θα έρθει;
    ar|كيف حالك اليوم
    zh|你好，今天天气怎么样？
    ja|明日また会いましょう
    ko|내일 만나요
""".strip().splitlines()


@pytest.mark.parametrize("line", [line.strip() for line in MESSAGES])
def test_the_language_of_a_short_message(line: str) -> None:
    code, _, text = line.partition("|")
    assert detect(text) == code


@pytest.mark.parametrize(
    "text",
    [
        *("", " \n", "ok", "12345", "👍", "hi", "да", "!!!", "lol", "Coco", "\x00" * 9, "\ud800", "x" * 100_000),
        *("192.168.1.1:22", "def f(x): return x+1", "https://example.com/a/b?c=1", "ls -la /var/log | grep err"),
    ],
)
def test_what_is_too_short_or_no_language_has_none(text: str) -> None:
    assert detect(text) is None


def test_what_stands_beside_code_and_addresses_counts() -> None:
    assert detect("look:\n```\nimport os\nfor x in y: pass\n```\nwhat is wrong here?") == "en"
    assert detect("посмотри `ls -la /tmp` и скажи, что там https://example.com/what/is/this") == "ru"
    assert detect("\ud800 hello my friend\nhow are you") == "en"
