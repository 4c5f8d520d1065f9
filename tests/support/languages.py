"""The turns and questions of tests/data/languages.toml, and where each question's turn is found by words alone.

`python -m tests.support.languages` prints a row for each language: how many turns are found first for questions, of the release and of the day,
for words alone, and for the questions that were held out.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shared.turns.records import Turn
from tests.support.day.day_recall import NOON, holding, ids

DATA = Path(__file__).parents[1] / "data"
DAY = 86_400.0
#: Where neither the release nor the day has the turn among the hits.
NOWHERE = 99


@dataclass(frozen=True)
class Talk:
    """The turns of one language, a day apart, and its questions with the number of the turn that answers each."""

    turns: Sequence[Turn]
    questions: Sequence[tuple[int, str]]
    words: Sequence[tuple[int, str]] = ()
    held_out: Sequence[tuple[int, str]] = ()


@cache
def talks(name: str = "languages.toml") -> dict[str, Talk]:
    """By language (ISO 639-1)."""
    read = tomllib.loads((DATA / name).read_text(encoding="utf-8"))
    return {language: _talk(**texts) for language, texts in read.items()}


def _talk(turns: str, questions: str, words: str = "", held_out: str = "") -> Talk:
    said = turns.strip().splitlines()
    first = NOON - (len(said) + 30) * DAY
    return Talk(
        [Turn(f"t{number}", "user", "9912", text, first + number * DAY) for number, text in enumerate(said)],
        _numbered(questions),
        _numbered(words),
        _numbered(held_out),
    )


def _numbered(lines: str) -> list[tuple[int, str]]:
    return [(int(number), asked) for number, asked in (line.split(" ", 1) for line in lines.strip().splitlines())]


def ranks(talk: Talk, asked: Sequence[tuple[int, str]] | None = None, *, by_day: bool = False) -> list[int]:
    """The place, from 1, of the turn that each question is for; by day all turns are the day's, else all are in the release."""
    with holding([] if by_day else talk.turns) as side:
        day = side.day(talk.turns) if by_day else None
        return [_place(ids(side.hits(question, day)), number) for number, question in asked or talk.questions]


def _place(found: Sequence[str], number: int) -> int:
    wanted = f"t{number}:user#1"
    return found.index(wanted) + 1 if wanted in found else NOWHERE


if __name__ == "__main__":
    for language, talk in talks(*sys.argv[1:]).items():
        released, today = ranks(talk), ranks(talk, by_day=True)
        words, later = (ranks(talk, asked) if asked else [] for asked in (talk.words, talk.held_out))
        counts = [f"{found.count(1)} of {len(found)}" for found in (released, today, words, later)]
        print(language, *counts, released, words, later, sep=" | ")
