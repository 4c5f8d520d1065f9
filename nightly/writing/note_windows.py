"""What a model reads at a time: some consecutive turns of one session, numbered, as data inside a fence.

A window begins where a session does, or where the one before is full. So a chat that goes on changes its last window only, and the notes of all
others are known by the hash of their prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from nightly.writing.model_texts import prompt_of
from shared.ranking.question import WEIGHTS
from shared.text.format import date_text, one_line, shorten
from shared.turns.chunk import Chunk
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
    for turn in _turns(chunks):
        if window is None or not window.has_room_for(turn):
            if window:
                yield window
            window = Window(turn[0].chat_id)
        window.add(turn)
    if window:
        yield window


def _turns(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    turn: list[Chunk] = []
    for chunk in chunks:
        if turn and chunk.turn_ids != turn[0].turn_ids:
            yield turn
            turn = []
        turn.append(chunk)
    if turn:
        yield turn


def _length(turn: list[Chunk]) -> int:
    return min(TURN_CHARACTERS, sum(len(chunk.text) for chunk in turn))


def _line(turn: list[Chunk], zone: ZoneInfo) -> str:
    first, text = turn[0], one_line(" ".join(chunk.text for chunk in turn))
    said = shorten(text, TURN_CHARACTERS)
    return f"{date_text(first.started_at, zone)} {first.who()}{replying(first.origin)}: {said}"
