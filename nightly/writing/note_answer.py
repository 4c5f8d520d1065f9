"""A model's answer about one window: notes as JSON, read and bounded. They are keys only: no prompt and no reader ever gets their words."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from nightly.writing.note_windows import Window
from shared.ranking.question import query_words
from shared.text.format import one_line, shorten, storable
from shared.turns.chunk import Chunk
from shared.turns.chunking import clean

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


def refuse(answer: str, _: str = "") -> str | None:
    """What is wrong with an answer; one without notes is right, one that only repeats the "…" of the example is not."""
    try:
        notes = _read(answer).notes
    except ValueError:
        return "the answer is not the JSON that was asked for"
    texts = [text for said in notes for text in (*said.facts, *said.questions)]
    return "no note of the answer has a word" if texts and not any(map(query_words, texts)) else None


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
    return _numbered(found)


def _tidy(text: str) -> str:
    return shorten(one_line(clean(storable(text))), NOTE_CHARACTERS)


def _note(turn: list[Chunk], text: str) -> Chunk:
    """The note as a chunk under the id of the passage that has most of its words."""
    words = set(query_words(text))
    passage = max(turn, key=lambda chunk: (len(words & set(query_words(chunk.text))), -chunk.passage))
    return replace(passage, text=text)


def _numbered(notes: list[Chunk]) -> list[Chunk]:
    """With `~1`, `~2`, … after the id of their passage; a turn that the answer has twice counts on."""
    counted: dict[str, int] = {}
    found = []
    for note in notes:
        number = counted[note.chunk_id] = counted.get(note.chunk_id, 0) + 1
        found.append(replace(note, chunk_id=f"{note.chunk_id}~{number}"))
    return found
