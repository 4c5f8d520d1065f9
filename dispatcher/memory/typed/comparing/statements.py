"""A fact as parts that can be compared: subject, verb, value; whether it is negated, and whether it is in the past. Pure functions.

Not a parser: it finds the first known verb, and splits the text there. All forms and synonyms of a word get one spelling.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dispatcher.memory.typed.comparing.wording import (
    ATTRIBUTES,
    DENIALS,
    EXCLUSIVE,
    FOREIGN,
    LABELS,
    LIGHT,
    NUMBERS,
    OPPOSITES,
    PAST,
    SEVERAL,
    STATES,
    SYNONYMS,
    TIMELESS,
    VERBS,
)
from shared.text.caches import cached
from shared.text.words.stemming import stem


@dataclass(frozen=True)
class Word:
    """A word as written, as compared, and its kind: "number", "name", a set of wording.EXCLUSIVE, or "word"."""

    text: str
    root: str
    kind: str

    @property
    def light(self) -> bool:
        return self.text in LIGHT and self.kind == "word"


@dataclass(frozen=True)
class Statement:
    """A text in parts. `verb` is "" if there is no known verb: then everything is subject."""

    subject: tuple[Word, ...]
    verb: str
    value: tuple[Word, ...]
    denied: bool
    past: bool
    foreign: bool

    @cached_property
    def content(self) -> tuple[Word, ...]:
        """The content words in their order, with the verb unless it is "be" or "have"."""
        verb = [Word(self.verb, self.verb, "word")] if self.verb not in ("", "be", "have") else []
        return tuple(word for word in (*self.subject, *verb, *self.value) if not word.light)

    @cached_property
    def bag(self) -> frozenset[str]:
        return frozenset(word.root for word in self.content)

    @cached_property
    def about(self) -> Counter[str]:
        """The subject's content words."""
        return Counter(word.root for word in self.subject if not word.light)


_WORDS = re.compile(r"\d+\.(?!\w)|\w+(?:[-.:/@]\w+)*|[—–=:]")
_PRONOUN = "i|he|she|it|they|ich|er|sie|es|je|il|elle|я|он|она"
_CLAUSE = re.compile(
    rf";\s+|,\s+(?:and|but|und|aber|sondern|et|mais|и|а|но)\s+|,\s+(?=(?:{_PRONOUN})\b)"
    rf"|\s+(?:and|but|und|aber)\s+(?=(?:{_PRONOUN}|do|does|is|are|has|have|don['’]t|doesn['’]t|isn['’]t)\b)",
    re.IGNORECASE,
)
_REWRITES = [
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in [
        (r"\b(?:actually|in fact|correction|update)\b\s*[,:]\s*", ""),
        (r"\bcannot\b|\bcan['’]t\b", "can not"),
        (r"\bwon['’]t\b", "will not"),
        (r"n['’]t\b", " not"),
        (r"\bcan not (?:stand|bear)\b", "hates"),
        (r"\b(he|she|it|that|there|who)['’]s\b", r"\1 is"),
        (r"\bi['’]m\b", "i am"),
        (r"['’]s\b|(?<=s)['’](?=\s)", ""),
        (r"\b(?:no longer|not any ?more|(?:has |have )?(?:stopped|quit|given up|gave up)|used to)\b", "not"),
        (r",? instead of [^,]+$|(?:,| and) not [^,]+$", ""),
        (r"\b(?:has |have |had |was |is |got |been )*(?:changed|renamed|switched|updated|reset|set|postponed|rescheduled|moved)"
         r"(?: from \S+)? to (?=\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day)", "is "),
        (r"\b(?:has |have |was |is |got |been )+(?:changed|renamed|switched|updated|reset|set)(?: from \S+)? to\b", "is"),
        (r"\b(?:has |have |had )?(?:moved|relocated) (?:from \S+ )?to\b", "lives in"),
        (r"\b(?:has |have |had )?(?:moved|relocated) into\b", "lives in"),
        (r"\b(?:is|are|am) (?:now )?living\b", "lives"),
        (r"\b(?:is|are|am) (?:now )?(?:working|employed) (?=as|at|for|in)\b", "works "),
        (r"\b(?:is|are|am) (?:now )?based\b", "lives"),
        (r"\bgot (?=married|divorced|engaged)", "is "),
        (r"\bdate of birth\b", "birthday"),
        (r"\b(?:half an?|a half) hour\b", "30 minutes"),
        (r"\b(\d+)(?:st|nd|rd|th)\b", r"\1."),
        (r"\b(?:was|is) born (?:on|in)\b", "birthday is"),
        (r"\b(?:is|am) (\w+) years? old\b", r"age is \1"),
        (r"\b(?:is|am) aged (\d+)\b", r"age is \1"),
        (r"\b(?:is|are) called\b|\bgoes by(?: the name(?: of)?)?\b", "name is"),
        (r"\bheißt\b|\bheisst\b", "name ist"),
        (r"\bs['’]appelle\b", "nom est"),
        (r"\b(?:d|l|j|c|qu|n|s|m|t)['’]", " "),
    ]
]  # fmt: skip
_OF = re.compile(
    r"\b((?:[\w-]+ )?[\w-]+) of ((?:the |my |a |an )?(?:[\w-]+ ?){1,3}?)(?= (?:is|are|was)\b|:|$)", re.IGNORECASE
)
_CYRILLIC = re.compile("[а-яё]", re.IGNORECASE)


def clauses(text: str) -> list[str]:
    """The self-contained parts of a text."""
    return [part for part in _CLAUSE.split(text.strip()) if part and part.strip()]


@cached(20_000)
def statement(text: str) -> Statement:
    """A text in its parts."""
    plain = text.strip().rstrip(".!")
    for pattern, other in _REWRITES:
        plain = pattern.sub(other, plain)
    plain = _OF.sub(r"\2 \1", plain)
    tokens = _WORDS.findall(plain)
    foreign = bool(_CYRILLIC.search(plain)) or any(token.lower() in FOREIGN for token in tokens)
    denials = sum(token.lower() in DENIALS for token in tokens)
    words = [
        _word(token, first=not at, foreign=foreign) for at, token in enumerate(tokens) if token.lower() not in DENIALS
    ]
    at = _verb_place(words)
    verb = "" if at is None else words[at].root
    past = not foreign and _is_past(words, at)
    return Statement(
        tuple(words[:at]), verb, () if at is None else tuple(words[at + 1 :]), denials % 2 == 1, past, foreign
    )


def _verb_place(words: Sequence[Word]) -> int | None:
    """The first form of "be", else the first known verb. A noun that is spelled like a verb may be taken for it, and then fewer facts match."""
    forms = [at for at, word in enumerate(words) if word.root == "be" and word.text != "be"]
    return next(
        iter(forms or [at for at, word in enumerate(words) if word.kind == "word" and word.root in STATES]), None
    )


def _is_past(words: Sequence[Word], at: int | None) -> bool:
    verbs = [words[at].text] if at is not None else [word.text for word in words]
    return any(text in PAST or (text.endswith("ed") and text not in TIMELESS) for text in verbs)


def _word(token: str, *, first: bool, foreign: bool) -> Word:
    lower = token.lower()
    if lower in NUMBERS:
        return Word(lower, NUMBERS[lower], "number")
    if any(character.isdigit() for character in token):
        return Word(lower, lower, "number")
    if lower in EXCLUSIVE and not (lower in ("may", "march") and token.islower()):
        return Word(lower, lower.removesuffix("s") if lower.endswith("days") else lower, EXCLUSIVE[lower])
    if token[:1].isupper() and not first and not foreign and lower not in LIGHT and lower != "i":
        return Word(lower, lower, "name")
    return Word(lower, root(lower), "word")


@cached(20_000)
def root(word: str) -> str:
    """The common spelling of all forms and synonyms of a word."""
    return VERBS.get(word) or SYNONYMS.get(word) or _BY_STEM.get(_stem(word)) or _stem(word)


@cached(20_000)
def _stem(word: str) -> str:
    if _CYRILLIC.search(word):
        return stem(word)
    from snowballstemmer.english_stemmer import EnglishStemmer

    found: str = EnglishStemmer().stemWord(word)
    return found or word


#: Stem → the common spelling of the tables' words.
_BY_STEM = {
    _stem(word): word for word in (*STATES, *ATTRIBUTES, *SEVERAL, *LABELS, *(w for pair in OPPOSITES for w in pair))
}
_BY_STEM |= {_stem(word): VERBS.get(first, first) for word, first in SYNONYMS.items()}
