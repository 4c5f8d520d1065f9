"""The words of phrases.toml: what seven languages call days, months, numbers and units of time, with and without accents."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

#: One language's tables, as phrases.toml explains them.
CalendarWords = Mapping[str, Any]
#: By language (ISO 639-1).
WORDS: Mapping[str, CalendarWords] = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8"))


def with_or_without_accents(pattern: str) -> str:
    """A pattern that also matches words typed without their accents, or with accents as characters of their own (NFD).

    Accented letters must not be in brackets; й is a letter of its own.
    """
    return "".join(_letter(one) for one in pattern)


def _letter(letter: str) -> str:
    apart = unicodedata.normalize("NFD", letter)
    if len(apart) == 1 or letter == "й":
        return letter
    spelled = f"|{apart[0]}e" if letter in "äöü" else ""
    return f"(?:{letter}{spelled}|{apart}?)"


def either(patterns: Iterable[str]) -> str:
    """One group that matches any of them, without accents too."""
    return f"(?:{with_or_without_accents('|'.join(patterns))})"


def index_of(said: str, *tables: Iterable[str]) -> int:
    """The place, from 0, that a word has in the first of the tables of forms that know it. ValueError if none does."""
    for table in tables:
        for index, form in enumerate(table):
            if _whole(form).fullmatch(said):
                return index
    raise ValueError(said)


def counts(words: CalendarWords) -> list[tuple[str, int]]:
    """All numbers with what they mean; a longer one ("ein paar") comes before the one that it begins with."""
    exact = [(form, number) for number, form in enumerate(words["numbers"], start=1)]
    return [(form, int(number)) for number, form in words["roughly"].items()] + exact[::-1]


def number_of(said: str, words: CalendarWords) -> int:
    """What a number means, in figures or in words. ValueError for any other word."""
    known = counts(words)
    return int(said) if said.isdigit() else known[index_of(said, [form for form, _ in known])][1]


@cache
def _whole(form: str) -> re.Pattern[str]:
    return re.compile(with_or_without_accents(form))
