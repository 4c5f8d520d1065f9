"""The request: what is to be forgotten, and whether it covers something."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shared.errors import InvalidInput
from shared.turns.events import Event
from shared.turns.records import ROLES, RecordRefused, Tombstone, Turn, task_id_of
from shared.wire.json import record_of

#: The shortest text that may be searched for. Bytes of UTF-8.
SHORTEST_MATCH = 3

_CHAT_ID = re.compile(rb'"chat_id"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?\d+))')
_TIME = re.compile(rb'"(?:timestamp|said_at)"\s*:\s*(\d+(?:\.\d+)?)')


def folded(text: str) -> str:
    """The form in which texts are compared: NFKC, case folded, blanks collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass(frozen=True)
class ForgetRequest:
    """The owner's request. `chat_id` is set for the kind `chat`, and limits the other two to that chat."""

    kind: Literal["chat", "turn", "matching", "import"]
    chat_id: str | None = None
    before: float | None = None
    turn_ids: tuple[str, ...] = ()
    text: str = ""
    copies: tuple[str, ...] = ()  # directories with copies of the archive, which are to lose the words, too
    batch: str = ""  # of the kind `import`: what only this import has brought, which may come in again
    hidden: bool = False  # turns hidden by requests from chats; missing ones are skipped
    typed: bool = False  # as an argument of a command, so that a shell's history has the text

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value}

    def without_words(self) -> dict[str, Any]:
        """For the receipt, which remains after the text is erased."""
        return {name: value for name, value in self.to_json().items() if name != "text"}

    def holds(self, text: str) -> bool:
        """Whether a text contains the requested one."""
        return self.kind == "matching" and folded(self.text) in folded(text)

    def concerns(self, chat_id: str) -> bool:
        return self.chat_id in (None, chat_id)


def asked_turns(given: Iterable[str]) -> tuple[str, ...]:
    """The turn ids of `--turn`: `task:role`, or a task id for both of its turns."""
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
                f"--turn {one!r} is not the id of a turn: {error}. Write TASK:user, TASK:asst, or TASK for both; hmem search shows them."
            ) from error
    return tuple(dict.fromkeys(found))


def asked_text(text: str) -> str:
    if len(folded(text).encode("utf-8", "replace")) < SHORTEST_MATCH:
        raise InvalidInput(
            f"--matching needs at least {SHORTEST_MATCH} characters, or it would match nearly everything. Write more of the text."
        )
    return text


def erasing(name: str, chat_id: str, at: float, times: Mapping[str, float | None], *, undo: bool = False) -> Tombstone:
    """For the turns of a chat with these ids; of some it is known when they were said. `undo`: of an import, which may come again."""
    said_at = {} if undo else {turn_id: said for turn_id, said in times.items() if said is not None}
    return Tombstone(name, chat_id, at, turn_ids=frozenset(times), erase=True, said_at=said_at, undo=undo)


def erasing_each(
    name: str, at: float, by_chat: Mapping[str, Mapping[str, float | None]], *, first: int = 1, undo: bool = False
) -> list[Tombstone]:
    """One for the turns of each chat; their names are numbered from `first` on."""
    return [
        erasing(f"{name}{number}", chat_id, at, times, undo=undo)
        for number, (chat_id, times) in enumerate(sorted(by_chat.items()), first)
        if times
    ]


@dataclass
class Scope:
    """What is covered: the tombstones, and for a text also everything that contains it.

    `memory_chats`: chats with a covered typed memory; `tasks` and `sessions`: those of the covered turns that were known at the start;
    `files`: (task id, SHA-256, size) of the files that are kept with them; `chosen`: these are complete, and anything not among them came later.
    """

    asked: ForgetRequest
    tombstones: list[Tombstone]
    memory_chats: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    files: set[tuple[str, str, int]] = field(default_factory=set)
    chosen: bool = False

    @property
    def chats(self) -> list[str]:
        """Every chat of which something is forgotten, or whose running tasks may contain it."""
        whole = {self.asked.chat_id} if self.asked.kind == "chat" and self.asked.chat_id else set[str]()
        return sorted({tombstone.chat_id for tombstone in self.tombstones} | self.memory_chats | whole)

    @property
    def whole_chat(self) -> str | None:
        """The chat of which everything up to now is forgotten."""
        return self.asked.chat_id if self.asked.kind == "chat" and self.asked.before is None else None

    def until(self, chat_id: str) -> float | None:
        """The time before which everything of a chat is forgotten; None if only parts of it are."""
        whole = [one for one in self.tombstones if one.chat_id == chat_id and one.turn_ids is None]
        return max((one.created_at if one.before is None else one.before for one in whole), default=None)

    def covers(self, turn: Turn) -> bool:
        return any(tombstone.covers(turn) for tombstone in self.tombstones)

    def covers_event(self, event: Event) -> bool:
        if any(map(event.is_covered_by, self.tombstones)):
            return True
        return self.asked.concerns(event.chat_id) and any(map(self.asked.holds, event.texts))

    def covers_text(self, chat_id: str, task_id: str, at: float | None, text: str = "") -> bool:
        """Whether a task, or a text that is not stored as a turn, is covered; `at` is its time in POSIX seconds, None for unknown."""
        if not self.asked.concerns(chat_id):
            return False
        made_of = {f"{task_id}:{role}" for role in ROLES}
        return self.covers_made(chat_id, -math.inf if at is None else at, made_of) or (
            bool(text) and self.asked.holds(text)
        )

    def covers_made(self, chat_id: str, at: float, made_of: Collection[str]) -> bool:
        """Whether something of that time, which was made of these turns, is covered."""
        until = self.until(chat_id)
        return (until is not None and at < until) or any(
            one.chat_id == chat_id and not one.named.isdisjoint(made_of) for one in self.tombstones
        )

    def covers_bytes(self, raw: bytes, at: float | None = None) -> bool:
        """The same for a record of any form, valid or not: it is searched for the ids of chat and task, and for a time; else `at` is its time."""
        record, chat_id, text = record_of(raw), chat_in(raw), raw.decode("utf-8", "replace")
        if chat_id is None:
            return self.asked.chat_id is None and self.asked.holds(text)
        dated = _TIME.search(raw)
        return self.covers_text(chat_id, str(record.get("task_id", "")), float(dated[1]) if dated else at, text)


def chat_in(raw: bytes) -> str | None:
    """The chat id in a record, valid or not; None if there is none, or more than one."""
    value = record_of(raw).get("chat_id")
    if isinstance(value, int | str) and not isinstance(value, bool):
        return str(value)
    named = {(text or number).decode("utf-8", "replace") for text, number in _CHAT_ID.findall(raw)}
    return named.pop() if len(named) == 1 else None
