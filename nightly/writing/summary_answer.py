"""Summaries written by a model (SUMMARY_MODEL): its answer, tidied. If it fails, the chat gets the extractive summary tonight."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from nightly.writing.answer_lines import WhatWasRead
from shared.text.format import shorten
from shared.turns.chunking import clean

#: Bound of a model's text, in characters; with what is put back it fits the default budget's share of a summary.
WRITTEN_CHARACTERS = 1400
#: With less room no line is begun.
LEAST_ROOM = 40
#: As repeatable as a model can be; room for the prompt also where a character is a token, and an end to endless answers.
OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "num_ctx": 8192, "num_predict": 700}

_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Tidied:
    """Plain lines without thoughts, headings and blank lines, at most WRITTEN_CHARACTERS; `left_out`: how many the chat does not bear out."""

    lines: tuple[str, ...]
    left_out: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def fault(self) -> str | None:
        """Why it is no summary."""
        if not self.lines and not self.left_out:
            return "the answer is empty, or has no whole line"
        if self.left_out > len(self.lines):
            return "most lines of the answer are repeated, or not from the chat"
        return None


def refuse(answer: str, prompt: str) -> str | None:
    """What is wrong with an answer."""
    return tidy(answer, prompt).fault


def tidy(answer: str, prompt: str) -> Tidied:
    """An answer to this prompt. What a line says that the chat does not bear out, or says again, is left out."""
    read, seen, lines, left_out, room = WhatWasRead(prompt), set[str](), list[str](), 0, WRITTEN_CHARACTERS
    for line in clean(_THOUGHTS.sub("", answer)).split("\n"):
        plain = line.strip().lstrip("#").strip()
        if plain in seen or not read.bears_out(plain):
            left_out += bool(plain)
        elif plain and room >= LEAST_ROOM:
            seen.add(plain)
            lines.append(shorten(plain, room))
            room -= len(lines[-1]) + 1
    return Tidied(tuple(lines), left_out)
