"""What is asked to be forgotten, and whether something is covered by it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from shared.errors import InvalidInput
from shared.turns.records import ROLES, RecordRefused, Tombstone, Turn, loads_object, task_id_of

#: The shortest text that is matched. Characters.
SHORTEST_MATCH = 3

_CHAT_ID = re.compile(rb'"chat_id"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?\d+))')
_TIMESTAMP = re.compile(rb'"timestamp"\s*:\s*(\d+(?:\.\d+)?)')


def folded(text: str) -> str:
    """As texts are compared: NFKC, case folded, blanks collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass(frozen=True)
class ForgetRequest:
    """The owner's words. `chat_id` is given for the kind `chat`, and narrows the other two down."""

    kind: Literal["chat", "turn", "matching"]
    chat_id: str | None = None
    before: float | None = None
    turn_ids: tuple[str, ...] = ()
    text: str = ""
    hidden: bool = False  # the turns that wishes from chats have hidden; one that is gone by now is passed over

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value}

    def without_words(self) -> dict[str, Any]:
        """For the receipt, which outlives what was forgotten."""
        return {name: value for name, value in self.to_json().items() if name != "text"}

    def holds(self, text: str) -> bool:
        """Whether a text holds the one that was asked for."""
        return self.kind == "matching" and folded(self.text) in folded(text)

    def concerns(self, chat_id: str) -> bool:
        return self.chat_id in (None, chat_id)


def asked_turns(given: Iterable[str]) -> tuple[str, ...]:
    """Turn ids as they were typed: `task:role`, or a task id for both of its turns."""
    found: list[str] = []
    for one in given:
        name, separator, role = one.rpartition(":")
        try:
            if not separator:
                found += [f"{task_id_of(one)}:{each}" for each in ROLES]
            elif role in ROLES:
                found.append(f"{task_id_of(name)}:{role}")
            else:
                raise RecordRefused("its role is neither user nor asst")
        except RecordRefused as error:
            raise InvalidInput(
                f"--turn {one!r} is no turn's id: {error}. Write TASK:user, TASK:asst, or TASK for both; hmem search shows them."
            ) from error
    return tuple(dict.fromkeys(found))


def asked_text(text: str) -> str:
    if len(folded(text).encode("utf-8", "replace")) < SHORTEST_MATCH:
        raise InvalidInput(
            f"--matching needs at least {SHORTEST_MATCH} characters, or it would meet nearly everything. Write more of the text."
        )
    return text


@dataclass
class Scope:
    """What is covered: the tombstones, and beside them, for a text, whatever holds it.

    `memory_chats`: chats with a typed memory that goes; `tasks` and `sessions`: those of the covered turns, as far as they were known at the start;
    `chosen`: these are complete, and what is not among them came later.
    """

    asked: ForgetRequest
    stones: list[Tombstone]
    memory_chats: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    chosen: bool = False

    @property
    def chats(self) -> list[str]:
        """Every chat of which something is forgotten, or may be held by what is under way there."""
        whole = {self.asked.chat_id} if self.asked.kind == "chat" and self.asked.chat_id else set[str]()
        return sorted({stone.chat_id for stone in self.stones} | self.memory_chats | whole)

    @property
    def whole_chat(self) -> str | None:
        """The chat of which everything up to now goes."""
        return self.asked.chat_id if self.asked.kind == "chat" and self.asked.before is None else None

    def until(self, chat_id: str) -> float | None:
        """The time before which everything of a chat goes; None where only some of it does."""
        times = [
            stone.created_at if stone.before is None else stone.before
            for stone in self.stones
            if stone.chat_id == chat_id and stone.turn_ids is None
        ]
        return max(times, default=None)

    def covers(self, turn: Turn) -> bool:
        return any(stone.covers(turn) for stone in self.stones)

    def covers_said(self, chat_id: str, task_id: str, at: float | None, text: str = "") -> bool:
        """Whether a task, or words that are not kept as a turn, are covered; `at` is when they were said, None for unknown."""
        if not self.asked.concerns(chat_id):
            return False
        until = self.until(chat_id)
        if until is not None and (at is None or at < until):
            return True
        return self.names(chat_id, task_id) or (bool(text) and self.asked.holds(text))

    def names(self, chat_id: str, task_id: str) -> bool:
        """Whether a tombstone of the chat names a turn of this task."""
        ids = {f"{task_id}:{role}" for role in ROLES}
        return any(stone.chat_id == chat_id and stone.named & ids for stone in self.stones)

    def covers_bytes(self, raw: bytes, at: float | None = None) -> bool:
        """The same for what cannot be read as a record: its bytes say whose it is, and when it was said unless that is known."""
        chat_id = chat_in(raw)
        if chat_id is None:
            return (
                self.asked.kind == "matching"
                and self.asked.chat_id is None
                and self.asked.holds(raw.decode("utf-8", "replace"))
            )
        dated = _TIMESTAMP.search(raw)
        return self.covers_said(chat_id, "", float(dated[1]) if dated else at, raw.decode("utf-8", "replace"))


def chat_in(raw: bytes) -> str | None:
    """The chat id that bytes name, readable or not; None where they name none, or several."""
    try:
        value = loads_object(raw).get("chat_id")
        if isinstance(value, int | str) and not isinstance(value, bool):
            return str(value)
    except RecordRefused:
        pass
    named = {(text or number).decode("utf-8", "replace") for text, number in _CHAT_ID.findall(raw)}
    return named.pop() if len(named) == 1 else None
