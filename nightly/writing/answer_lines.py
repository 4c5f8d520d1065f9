"""Lines of a model's summary that the chat does not bear out, as a pure function of what the model has read.

A small model repeats its instructions and itself, changes a word of what somebody said, or puts it into the mouth of another. What a line means
nobody checks here, only what can be seen: a line in the form of the record is a quotation, so its speaker must have said it on that day. An amount,
a telephone number or a link that is nowhere in the chat is taken for invented; dates are not looked at, since the model is asked to work them out.
"""

from __future__ import annotations

import re

#: A line of the record: date, speaker, words.
_SAID = re.compile(r"^(\d{4}-\d\d-\d\d) ([^\n]+?): ([^\n]+)$", re.MULTILINE)
_RECORD_MARK = re.compile(r"</?record\b")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_LINK = re.compile(r"https?://[^\s<>\"')\]]+")
_NUMBER = re.compile(r"\d(?:[\d.,:/-]*\d)?")
#: Shorter numbers may be counted or worked out.
LEAST_DIGITS = 3


class WhatWasRead:
    """A prompt: instructions, and the record in it."""

    def __init__(self, prompt: str) -> None:
        self._said: dict[str, list[tuple[str, str]]] = {}  # speaker → dates and words
        for date, speaker, words in _SAID.findall(prompt):
            self._said.setdefault(speaker, []).append((date, words))
        lines = (line.strip() for line in prompt.split("\n"))
        self._instructions = {line for line in lines if line and not _SAID.match(line)}
        self._prompt, self._numbers = prompt, _numbers(prompt)

    def bears_out(self, line: str) -> bool:
        """Whether a line may be kept: it is no instruction, mark or false quotation, and has no number or link of its own."""
        if line in self._instructions or _RECORD_MARK.search(line) or self._misquotes(line.lstrip("-*• ")):
            return False
        links = [link.rstrip(".,:/-") for link in _LINK.findall(line)]
        numbers = _numbers(_LINK.sub(" ", _DATE.sub(" ", line)))
        return all(link in self._prompt for link in links) and all(
            any(number in known for known in self._numbers) for number in numbers if len(number) >= LEAST_DIGITS
        )

    def _misquotes(self, line: str) -> bool:
        if not (quoted := _SAID.match(line)) or quoted[2] not in self._said:
            return False
        return not any(date == quoted[1] and quoted[3] in words for date, words in self._said[quoted[2]])


def _numbers(text: str) -> set[str]:
    """The digits of each number, however it is written: "09:15" is "9:15"."""
    return {re.sub(r"\D", "", number).lstrip("0") for number in _NUMBER.findall(text)}
