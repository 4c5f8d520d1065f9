"""Summaries written by a model (WRITER): its answer, tidied, and what it lacks. If it fails, the chat gets the extractive summary tonight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.ranking.extractive_summary import Sentence
from shared.ranking.question import query_words
from shared.text.format import shorten
from shared.turns.chunking import clean

#: Bound of a model's text, in characters; with what is put back it fits the default budget's share of a summary.
WRITTEN_CHARACTERS = 1400
#: How the first line of a summary ends that a model wrote, but for the model's name.
BY_MODEL = "Notes written by the model"
#: An answer of less than this share of what was read says nothing; of a chat with so many names, numbers and links it has at least one.
LEAST_SHARE, FACTS = 1 / 50, 10
#: With less room no line is begun.
LEAST_ROOM = 40
#: As repeatable as a model can be; room for the prompt also where a character is a token, and an end to endless answers.
OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "num_ctx": 8192, "num_predict": 700}

_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Tidied:
    """Plain lines without thoughts, headings and blank lines, at most WRITTEN_CHARACTERS; `left_out`: how many the chat does not bear out;
    `lacks`: what a summary of this chat would have."""

    lines: tuple[str, ...]
    left_out: int
    lacks: str | None = None

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
        return self.lacks


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
    return Tidied(tuple(map(read.attributed, lines)), left_out, read.lacking("\n".join(lines)))


# ── Lines that the chat does not bear out. A small model repeats its instructions and itself, changes a word of what somebody said, or puts it
# into the mouth of another. What a line means nobody checks here, only what can be seen: a line in the form of the record is a quotation, so its
# speaker must have said it on that day. An amount, a telephone number or a link that is nowhere in the chat is taken for invented; dates are not
# looked at, since the model is asked to work them out.


#: A line of the record: date, speaker, words.
_SAID = re.compile(r"^(\d{4}-\d\d-\d\d) ([^\n]+?): ([^\n]+)$", re.MULTILINE)
_RECORD_MARK = re.compile(r"</?record\b")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_LINK = re.compile(r"https?://[^\s<>\"')\]]+")
_DIGITS = re.compile(r"\d(?:[\d.,:/-]*\d)?")
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
        self._prompt, self._numbers = prompt, _digits(prompt)

    def bears_out(self, line: str) -> bool:
        """Whether a line may be kept: it is no instruction, mark or false quotation, and has no number or link of its own."""
        if line in self._instructions or _RECORD_MARK.search(line) or self._misquotes(line.lstrip("-*• ")):
            return False
        links = [link.rstrip(".,:/-") for link in _LINK.findall(line)]
        numbers = _digits(_LINK.sub(" ", _DATE.sub(" ", line)))
        return all(link in self._prompt for link in links) and all(
            any(number in known for known in self._numbers) for number in numbers if len(number) >= LEAST_DIGITS
        )

    def attributed(self, line: str) -> str:
        """The line with whoever said most of it, where several people speak and it does not begin with that name: a claim must not become a fact. A
        name elsewhere in it may be anybody's, who may call themselves as they like."""
        if len(self._said.keys() - {"assistant"}) < 2:
            return line
        words, begun = {*query_words(line)}, line.lstrip("-*•0123456789 ")
        shared = (
            (len(words.intersection(query_words(said))), begun.startswith(who), who != "assistant", who)
            for who, some in self._said.items()
            for _, said in some
        )
        most, named, _, speaker = max(shared)
        return f"{line} ({speaker})" if most > 1 and most * 2 >= len(words) and not named else line

    def lacking(self, text: str) -> str | None:
        """What says that a text is about nothing of this."""
        said = "\n".join(words for some in self._said.values() for _, words in some)
        if len(text) < len(said) * LEAST_SHARE:
            return "the answer is too short to say anything of the chat"
        missing = has_none_of(said, text)
        return "the answer has none of the names, numbers and links of the chat" if missing else None

    def _misquotes(self, line: str) -> bool:
        if not (quoted := _SAID.match(line)) or quoted[2] not in self._said:
            return False
        return not any(date == quoted[1] and quoted[3] in words for date, words in self._said[quoted[2]])


def _digits(text: str) -> set[str]:
    """The digits of each number, however it is written: "09:15" is "9:15"."""
    return {re.sub(r"\D", "", number).lstrip("0") for number in _DIGITS.findall(text)}


# ── What a model left out: names, numbers, dates and links of the extractive summary that its text lacks. A summary that reads well but has lost
# the one number that a user asks for is worse than none. So each chosen sentence with such a word is added again word for word, until the space is
# used up. A number counts as present only if it is written the same way ("110" is not in "1100", and "27 November" is not "2026-11-27"): an extra
# sentence is cheaper than a missing fact.


_NUMBER = re.compile(r"[\w.,:/@+%-]*\d[\w.,:/@+%-]*")
_WORD = re.compile(r"[^\W\d_]+")
#: After these a capital says nothing: a sentence begins.
_OPENING = tuple(".!?…:\"“„'‘")
_EDGES = ".,:/-+@"


def put_back(chosen: Sequence[Sentence], written: str, characters: int) -> tuple[list[Sentence], int]:
    """(sentences that hold what `written` lacks, in the order given; how many such words had no room)."""
    present = present_in(written)
    missing = {sentence: facts(sentence.text) - present for sentence in chosen}
    back: set[Sentence] = set()
    lost: set[str] = set()
    for sentence in sorted(chosen, key=lambda s: (-len(missing[s]), -s.order)):
        wanted = missing[sentence] - present
        cost = len(sentence.text) + len(sentence.speaker) + len("- 2026-11-20 : \n")
        if wanted and cost <= characters:
            back.add(sentence)
            characters -= cost
            present |= facts(sentence.text)
        elif wanted:
            lost |= wanted
    return [sentence for sentence in chosen if sentence in back], len(lost - present)


def facts(text: str) -> set[str]:
    """Links as they are; numbers, dates and names without regard to case."""
    return _links(text) | _numbers(text) | _names(text)


def has_none_of(said: str, text: str) -> bool:
    """Whether a text about what was said, with so many such words, has not one of them."""
    wanted = facts(said)
    return len(wanted) >= FACTS and not wanted & present_in(text)


def present_in(text: str) -> set[str]:
    """Which of such words a text has."""
    return _links(text) | _numbers(text) | {word.casefold() for word in _WORD.findall(text)}


def _links(text: str) -> set[str]:
    return {link.rstrip(_EDGES) for link in _LINK.findall(text)}


def _numbers(text: str) -> set[str]:
    return {number.strip(_EDGES).casefold() for number in _NUMBER.findall(_LINK.sub(" ", text))}


def _names(text: str) -> set[str]:
    """Words with a capital that do not begin a sentence."""
    text = _LINK.sub(" ", text)
    found = set()
    for match in _WORD.finditer(text):
        before = text[: match.start()].rstrip().lstrip(" -*•")
        if len(match[0]) > 1 and match[0][0].isupper() and before and not before.endswith(_OPENING):
            found.add(match[0].casefold())
    return found
