"""A chunk: what is ranked and recalled, and how it stands in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from shared.turns.message_origin import NOWHERE, OF_A_FILE, Origin
from shared.turns.origin_words import said_by
from shared.turns.speakers import Speaker, label

#: The columns of a chunk, in the order of its fields.
COLUMNS = "chunk_id, chat_id, exchange, turn_ids, role, speaker, text, started_at, ended_at, passage, passages, user_id, origin"


@dataclass(frozen=True)
class Chunk:
    """A turn, or a passage of a long turn. Times are POSIX seconds; `exchange` is the task id that pairs question and answer.

    `user_id` is the speaker's, by which two people of one name are told apart; None where it is not known. `origin`: whose words a forward holds,
    and, shortly, what the turn replies to; neither is part of `text`.
    """

    chunk_id: str
    chat_id: str
    exchange: str
    turn_ids: tuple[str, ...]
    role: str
    speaker: str
    text: str
    started_at: float
    ended_at: float
    passage: int = 1
    passages: int = 1
    user_id: str | None = None
    origin: Origin = NOWHERE

    def who(self, mark: str = "") -> str:
        """What stands ahead of its words; `mark` tells people of one name apart (shared/turns/speakers.py)."""
        return said_by(label(self.role, self.speaker, mark), self.origin)

    @property
    def task_id(self) -> str:
        """That of its turn; an answer of another assistant has not that of its question."""
        return self.turn_ids[0].rpartition(":")[0]

    @property
    def of_a_file(self) -> bool:
        """Whether it is a passage of a document that came with its turn."""
        return self.origin.forward is not None and self.origin.forward.kind == OF_A_FILE

    @property
    def sayings(self) -> tuple[str, ...]:
        """Its text, and that which it replies to."""
        return (self.text, self.origin.quote.text) if self.origin.quote else (self.text,)

    @property
    def words(self) -> str:
        """All that it holds of anybody's words."""
        return "\n".join((self.text, *self.origin.texts))

    @property
    def person(self) -> Speaker:
        return self.role, self.speaker, self.user_id


def values_of(chunk: Chunk) -> tuple[Any, ...]:
    """A chunk as a row of `COLUMNS`."""
    origin = orjson.dumps(chunk.origin.to_json()).decode() if chunk.origin != NOWHERE else None
    values = vars(chunk) | {"turn_ids": orjson.dumps(chunk.turn_ids).decode(), "origin": origin}
    return tuple(values[name] for name in COLUMNS.split(", "))


def chunk_of(row: Sequence[Any]) -> Chunk:
    """The chunk of such a row."""
    chunk_id, chat_id, exchange, turn_ids, *rest, origin = row
    read = Origin.parse(orjson.loads(origin)) if origin else NOWHERE
    return Chunk(chunk_id, chat_id, exchange, tuple(orjson.loads(turn_ids)), *[*rest, read])


def turn_order(chunk_id: str) -> tuple[str, bool, int]:
    """What chunks of the same instant are ordered by: task id, the question before the answer, passage."""
    turn_id, _, passage = chunk_id.rpartition("#")
    task_id, _, role = turn_id.rpartition(":")
    return task_id, role != "user", int(passage) if passage.isdecimal() else 0
