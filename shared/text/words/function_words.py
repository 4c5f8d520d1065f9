"""Words that carry no content, the language that they show, and what shows that a message asks for a time or for advice.

The words are in words.toml. Words that form a sentence ("what", "der", "avons") are not searched for. Words of courtesy ("hello", "merci") and
words that ask for what was said ("tell", "gesprochen") are searched for, but are no evidence that a message bears on anything.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shared.text.caches import cached
from shared.text.words.stemming import KEPT_WORDS
from shared.text.writing import is_unspaced, normalized, spaced

#: Messages whose language is kept: it is asked for several times while one is answered.
KEPT_MESSAGES = 256


@cached(KEPT_WORDS)
def plain(word: str) -> str:
    """Without accents, in lower case; ё is е, and й stays a letter of its own."""
    kept = normalized("NFKD", word.lower().replace("й", "\ue000"))
    return "".join(one for one in kept if not unicodedata.combining(one)).replace("\ue000", "й")


_TABLES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def _words(kind: str) -> dict[str, frozenset[str]]:
    """The plain words of a kind, by language, as `query_words` makes them."""
    return {language: frozenset(map(plain, spaced(words).split())) for language, words in _TABLES[kind].items()}


COURTESY, TALKING, LIGHT = map(_words, ("courtesy", "talking", "light"))
ASKING, ASKER, TO_ASKER = map(_words, ("asking", "asker", "to_asker"))
_SENTENCE = _words("sentence")
#: Not searched for in any message; as they are written.
NEVER_SEARCHED = frozenset(" ".join(_TABLES["never_searched"].values()).split())
#: Words of the one who asks and of the one who is asked.
FIRST_PERSON, SECOND_PERSON = _words("i"), _words("you")
#: By which a chat's turns show their language.
SHOWN_BY: Mapping[str, list[str]] = {language: words.split() for language, words in _TABLES["shown_by"].items()}
#: What an apostrophe leaves of English words; single letters are never telling.
CUT_OFF = frozenset("ll ve re don didn doesn isn wasn won couldn shouldn".split())
#: What begins a question in any of the languages.
ANY_ASKING = frozenset().union(*ASKING.values())
#: The languages whose words are pairs of characters.
UNSPACED_LANGUAGES = frozenset({"zh", "ja", "ko", "th"})
#: What tells a time: in a text, in one that is written without blanks, and by its plain words.
TIME = re.compile(rf"\b(?:{'|'.join(_TABLES['tells_time']['in_text'])})\b", re.IGNORECASE)
UNSPACED_TIME = re.compile("|".join(_TABLES["tells_time"]["unspaced"]))
OTHER_TIMES = frozenset(_TABLES["tells_time"]["words"].split())
#: Words that together ask for a time; what asks for advice; words by which a person says what he prefers.
WHEN: list[str] = _TABLES["asks_for"]["a_time"]
ADVICE = re.compile(rf"(?:^| )(?:{'|'.join(_TABLES['asks_for']['advice'])})(?= |$)")
PREFERENCE = tuple(_TABLES["asks_for"]["preference"].split())

#: All words that speak for a language, letters, and words with their accents.
_KNOWN = {
    language: words | _SENTENCE.get(language, frozenset()) | TALKING[language] | COURTESY[language]
    for language, words in (_words("marks") | _words("times")).items()
}
_LETTERS = {language: re.compile(f"[{letters}]") for language, letters in _TABLES["letters"].items()}
_ACCENTED = {language: frozenset(words.split()) for language, words in _TABLES["accented"].items()}
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
#: By script; kana comes first, since Japanese has Chinese characters too.
_SCRIPTS = {
    "ja": re.compile("[\u3041-\u30ff]"),
    "ko": re.compile("[\uac00-\ud7a3]"),
    "th": re.compile("[\u0e01-\u0e4e]"),
    "zh": re.compile("[\u3400-\u9fff]"),
}


def language_of(words: Iterable[str]) -> str:
    """The language that the words of a message show: de, fr, es, it or pt where most are of it, ru if there is Cyrillic, zh, ja, ko or th where most
    is in their script, else en."""
    return _language(" ".join(words))


@cached(KEPT_MESSAGES)
def _language(said: str) -> str:
    words = said.split(" ")
    if not said.isascii() and (language := _language_of_script(said, words)):
        return language
    told = [plain(word) for word in words]
    counts = {language: sum(word in known for word in told) for language, known in _KNOWN.items()}
    if not said.isascii():
        for language, letters in _LETTERS.items():
            counts[language] += sum(letters.search(word) is not None for word in words)
        for language, accented in _ACCENTED.items():
            counts[language] += sum(word in accented for word in words)
    return max(counts, key=counts.__getitem__)  # the first of equals


def _language_of_script(said: str, words: list[str]) -> str | None:
    """Russian if there is Cyrillic; the language of pairs of characters, if most words are that."""
    if _CYRILLIC.search(said):
        return "ru"
    unspaced = [word for word in words if is_unspaced(word)]
    if 2 * len(unspaced) <= len(words):
        return None
    told = "".join(unspaced)
    return next((language for language, script in _SCRIPTS.items() if script.search(told)), None)


def sentence_words(language: str) -> frozenset[str]:
    """What is not searched for in a message of this language, beside the English and Russian ones."""
    return _SENTENCE.get(language, frozenset())


def is_idle_pair(word: str, language: str) -> bool:
    """Whether a pair of characters holds a particle of its language (one of UNSPACED_LANGUAGES), which makes it no word."""
    return not set(_TABLES["particles"].get(language, "")).isdisjoint(word)


def of_persons(words: set[str], language: str) -> tuple[bool, bool]:
    """Whether there are words of the one who asks, and of the one who is asked."""
    folded, letters = set(map(plain, words)), set("".join(words))
    asker, asked = (
        not (
            known.get(language, frozenset()).isdisjoint(folded) and letters.isdisjoint(_TABLES[pairs].get(language, ""))
        )
        for known, pairs in ((FIRST_PERSON, "i_in_pairs"), (SECOND_PERSON, "you_in_pairs"))
    )
    return asker, asked
