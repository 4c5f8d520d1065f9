"""Notes of turns: what a model reads at a time, some consecutive turns of one session as data inside a fence, and its answer, notes as JSON, read and
bounded. They are keys only: no prompt and no reader ever gets their words.

A window begins where a session does, or where the one before is full. So a chat that goes on changes its last window only, and the notes of all
others are known by the hash of their prompt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from nightly.writing.model_texts import prompt_of
from nightly.writing.summary_answer import has_none_of
from shared.ranking.question import WEIGHTS, query_words
from shared.text.format import date_text, one_line, shorten, storable
from shared.turns.chunk import Chunk
from shared.turns.chunking import clean
from shared.turns.origin_words import replying

#: Bounds of a window: more takes a small model's attention, and its context of 8,192 tokens where a character is a token.
WINDOW_CHARACTERS, WINDOW_TURNS = 5000, 16
#: Of one turn; an answer says at its beginning what it is about.
TURN_CHARACTERS = 1200


@dataclass
class Window:
    """Turns of one chat, each as its chunks, in the order of time."""

    chat_id: str
    turns: list[list[Chunk]] = field(default_factory=list)
    characters: int = 0

    @property
    def turn_ids(self) -> list[str]:
        return [chunks[0].turn_ids[0] for chunks in self.turns]

    def prompt(self, zone: ZoneInfo) -> str:
        """What the model is asked."""
        lines = (f"[{number}] {_line(turn, zone)}" for number, turn in enumerate(self.turns, 1))
        return prompt_of("notes.txt.j2", "\n".join(lines))

    def has_room_for(self, turn: list[Chunk]) -> bool:
        """Whether this turn belongs to the same session and still fits."""
        pause = turn[0].started_at - self.turns[-1][0].started_at
        fits = len(self.turns) < WINDOW_TURNS and self.characters + _length(turn) <= WINDOW_CHARACTERS
        return turn[0].chat_id == self.chat_id and pause <= WEIGHTS.session_gap_seconds and fits

    def add(self, turn: list[Chunk]) -> None:
        self.turns.append(turn)
        self.characters += _length(turn)


def windows_of(chunks: Iterable[Chunk]) -> Iterator[Window]:
    """The windows of these chunks, which are in the order of chat and time."""
    window: Window | None = None
    for turn in (list(passages) for _, passages in groupby(chunks, key=lambda chunk: chunk.turn_ids)):
        if window is None or not window.has_room_for(turn):
            if window:
                yield window
            window = Window(turn[0].chat_id)
        window.add(turn)
    if window:
        yield window


def _length(turn: list[Chunk]) -> int:
    return min(TURN_CHARACTERS, sum(len(chunk.text) for chunk in turn))


def _line(turn: list[Chunk], zone: ZoneInfo) -> str:
    first, text = turn[0], one_line(" ".join(chunk.text for chunk in turn))
    said = shorten(text, TURN_CHARACTERS)
    return f"{date_text(first.started_at, zone)} {first.who()}{replying(first.origin)}: {said}"


# ── The answer.


#: A line of the prompt: who, and what.
_MESSAGE = re.compile(r"^\[\d+\] \S+ (.+)$", re.MULTILINE)
#: From so many characters on something was said that is worth a note.
TELLS_CHARACTERS = 2000
#: Of one turn, so that no turn is found by everything; and of one note.
MOST_FACTS, MOST_QUESTIONS, NOTE_CHARACTERS = 8, 3, 300


class TurnNotes(BaseModel):
    """What the model says of the turn with this number."""

    model_config = ConfigDict(extra="ignore")
    message: int = 0  # missing in the last one of an answer that was cut off
    facts: list[str] = []
    questions: list[str] = []


class NotesAnswer(BaseModel):
    """A whole answer."""

    model_config = ConfigDict(extra="ignore")
    notes: Annotated[list[TurnNotes], Field(max_length=200)]


def refuse(answer: str, prompt: str = "") -> str | None:
    """What is wrong with an answer; one without notes is right where little was said, one that only repeats the "…" of the example is not."""
    try:
        notes = _read(answer).notes
    except ValueError:
        return "the answer is not the JSON that was asked for"
    texts = [text for said in notes for text in (*said.facts, *said.questions)]
    said = "\n".join(_MESSAGE.findall(prompt))
    if not any(map(query_words, texts)) and (texts or len(said) >= TELLS_CHARACTERS):
        return "no note of the answer has a word"
    missing = has_none_of(said, "\n".join(texts))
    return "the answer has none of the names, numbers and links of the messages" if missing else None


def _read(answer: str) -> NotesAnswer:
    """ValueError if it is of another shape. One that was cut off has all but its last words."""
    return NotesAnswer.model_validate(from_json(answer, allow_partial=True))


def notes_of(answer: str, window: Window) -> list[Chunk]:
    """The notes of a window's turns as chunks of their own: `text` is the note, `chunk_id` that of the passage which it describes, and a number.

    A note of a turn that the window does not have is left out; an empty answer has none.
    """
    found: list[Chunk] = []
    for said in _read(answer).notes if answer else ():
        if 1 <= said.message <= len(window.turns):
            turn = window.turns[said.message - 1]
            texts = [*said.facts[:MOST_FACTS], *said.questions[:MOST_QUESTIONS]]
            found += [_note(turn, text) for text in dict.fromkeys(map(_tidy, texts)) if query_words(text)]
    return list(_numbered(found))


def _tidy(text: str) -> str:
    return shorten(one_line(clean(storable(text))), NOTE_CHARACTERS)


def _note(turn: list[Chunk], text: str) -> Chunk:
    """The note as a chunk under the id of the passage that has most of its words."""
    words = set(query_words(text))
    passage = max(turn, key=lambda chunk: (len(words & set(query_words(chunk.text))), -chunk.passage))
    return replace(passage, text=text)


def _numbered(notes: list[Chunk]) -> Iterator[Chunk]:
    """With `~1`, `~2`, … after the id of their passage; a turn that the answer has twice counts on."""
    counted = Counter[str]()
    for note in notes:
        counted[note.chunk_id] += 1
        yield replace(note, chunk_id=f"{note.chunk_id}~{counted[note.chunk_id]}")
