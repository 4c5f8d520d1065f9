"""Summaries written by a model (SUMMARY_MODEL): its answer, tidied. If it fails, the chat gets the extractive summary tonight."""

from __future__ import annotations

import re
from typing import Any

from shared.text.format import shorten
from shared.turns.chunking import clean

#: Bound of a model's text, in characters; with what is put back it fits the default budget's share of a summary.
WRITTEN_CHARACTERS = 1400
#: As repeatable as a model can be; room for the prompt also where a character is a token, and an end to endless answers.
OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "num_ctx": 8192, "num_predict": 700}

_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def refuse(answer: str) -> str | None:
    """What is wrong with an answer."""
    return None if tidy(answer) else "the answer is empty"


def tidy(answer: str) -> str:
    """Plain lines without thoughts, headings and blank lines, at most WRITTEN_CHARACTERS."""
    lines: list[str] = []
    room = WRITTEN_CHARACTERS
    for line in clean(_THOUGHTS.sub("", answer)).split("\n"):
        plain = shorten(line.strip().lstrip("#").strip(), room)
        if plain:
            lines.append(plain)
            room -= len(plain) + 1
        if room < 2:
            break
    return "\n".join(lines)
