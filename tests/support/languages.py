"""The turns and questions of tests/data/languages.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shared.turns.records import Turn
from tests.support.day.day_recall import NOON

DATA = Path(__file__).parents[1] / "data"
DAY = 86_400.0


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
