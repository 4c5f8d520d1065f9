"""A fact or a note of another program, as a turn: a forward, whose source is that program. So no line passes it off as what the person said here,
the night keeps, indexes and summarises it like any turn, and `hmem forget` reaches it like any turn. The typed memory that a dispatcher makes of it
(nightly/imports/staging.py) has the turn as its source.

Its id is made of its words and of where they stand, and never of its time: a file that was copied has another one. A note that was changed comes in
beside its earlier wording.
"""

from __future__ import annotations

from dataclasses import dataclass

from nightly.imports.candidates import MadeUpIds, ReadCandidate, Wanted, noted_by
from shared.turns.records import RecordRefused, Turn, timestamp_of


@dataclass
class ImportedFacts:
    """The facts of one import. `source`: the name of the format; `program`: as a line names it."""

    source: str
    program: str
    wanted: Wanted

    def __post_init__(self) -> None:
        self._ids = MadeUpIds(self.source)

    def read(self, where: str, words: str, at: float | None, done: int, place: str = "") -> ReadCandidate:
        """One fact. `where`: its place within the program's memory, by which equal words in two places are two facts."""
        if not words.strip():
            return ReadCandidate(done, left_out="without text")
        try:
            said_at = timestamp_of(at)
        except RecordRefused:
            return ReadCandidate(done, unreadable="it has no valid time", place=place)
        task_id = self._ids.next(self.wanted.chat, where, words)
        turn = Turn(task_id, "user", self.wanted.chat or "", words.strip(), said_at, extra=noted_by(self.program))
        return ReadCandidate(done, turn, place=place)
