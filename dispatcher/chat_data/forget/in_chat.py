"""What `/forget` selects in its own chat: turns that contain words, the last exchange or that of a task, those of today, or the whole chat.

Such a request only hides, as `/memory forget` does: immediately, and in all later nights. Release and day are read turn by turn, because an index
of words does not find parts of words.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dispatcher.memory.tombstones import hidden_by
from shared.errors import StorageError
from shared.turns.records import RecordRefused, Tombstone, Turn, dumps, timestamp_of

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from shared.config.settings import Settings

#: A selection of more turns is refused: one tombstone names them all, and each prompt compares with it.
MOST_TURNS = 5_000
#: Turns that a preview shows.
SHOWN_TURNS = 5
KINDS = ("words", "last", "task", "today", "all")


@dataclass(frozen=True)
class ChatTurn:
    """A turn as a preview shows it; several ids where repeated turns share a chunk. `words`: all that it holds of anybody's words."""

    turn_ids: tuple[str, ...]
    at: float
    speaker: str
    text: str
    words: str

    @property
    def role(self) -> str:
        return self.turn_ids[0].rpartition(":")[2]

    @property
    def exchanges(self) -> set[str]:
        """The tasks that it belongs to."""
        return {turn_id.rpartition(":")[0] for turn_id in self.turn_ids}


@dataclass(frozen=True)
class ChatSelection:
    """`turn_ids` are sorted. Of the whole chat everything said before the second of `before` (POSIX seconds) is meant, and `turn_ids` are the ones
    shown with a later time: a bot may tell the time of a message in whole seconds, so one sent after the preview may have an
    earlier time than it.

    `messages` and `memories`: how many there are. `shown` and the times `first` and `last` are only for the preview.
    """

    kind: str
    user: str
    turn_ids: tuple[str, ...] = ()
    before: float | None = None
    messages: int = 0
    memories: int = 0
    shown: tuple[ChatTurn, ...] = ()
    first: float = 0.0
    last: float = 0.0

    def digest(self, chat_id: str) -> str:
        """Names exactly this selection of this person in this chat."""
        return hashlib.sha256(dumps([chat_id, self.to_json()])).hexdigest()[:16]

    def tombstones(self, chat_id: str, now: float) -> list[Tombstone]:
        """One, and of a whole chat a second one for the turns that have a later time. Their ids are the same whenever they are made."""
        name, ids = f"chat-{self.digest(chat_id)}", frozenset(self.turn_ids)
        if self.before is None:
            return [Tombstone(name, chat_id, now, turn_ids=ids)]
        late = [Tombstone(f"{name}-late", chat_id, now, turn_ids=ids)] if ids else []
        return [Tombstone(name, chat_id, now, float(int(self.before))), *late]

    def to_json(self) -> dict[str, Any]:
        """Ids and numbers, no words."""
        names = ("kind", "user", "before", "messages", "memories")
        return {name: getattr(self, name) for name in names} | {"turn_ids": list(self.turn_ids)}

    @classmethod
    def parse(cls, record: dict[str, Any]) -> ChatSelection:
        """RecordRefused for a record of another form."""
        kind, user, before, ids = (record.get(name) for name in ("kind", "user", "before", "turn_ids"))
        if kind not in KINDS or not isinstance(user, str) or not isinstance(ids, list):
            raise RecordRefused("it is not a selection")
        if not all(isinstance(one, str) for one in ids) or not (ids or kind == "all"):
            raise RecordRefused("its turns are not those of its kind")
        messages, memories = (
            value if isinstance(value := record.get(name), int) else 0 for name in ("messages", "memories")
        )
        until = timestamp_of(before) if kind == "all" else None
        return cls(kind, user, tuple(ids), until, messages, memories)


def select(
    settings: Settings,
    day: DayMemory,
    waiting: Iterable[Turn],
    chat_id: str,
    asked: ChatSelection,
    *,
    words: str = "",
    since: float | None = None,
) -> ChatSelection:
    """`asked` says what kind is meant, and by whom; the whole chat has a `before`. `waiting`: turns in Redis that the day store may lack.

    StorageError, StoreUnavailable or ReleaseRefused if something cannot be read: then nothing is shown, because more might be meant.
    """
    turns = sorted(_known(settings, day, waiting, chat_id), key=lambda turn: (turn.at, turn.role != "user"))
    meant = _meant(turns, asked, words, since)
    everything, began = asked.kind == "all", int(asked.before or 0)
    ids = sorted({turn_id for turn in meant for turn_id in turn.turn_ids})
    late = sorted({turn_id for turn in meant if turn.at >= began for turn_id in turn.turn_ids})
    memories = day.requests.made_of(chat_id, None if everything else ids) if day.wanted else []
    return replace(
        asked,
        turn_ids=tuple(late if everything else ids),
        messages=len(ids),
        memories=len(memories),
        shown=tuple(meant[:SHOWN_TURNS]),
        first=meant[0].at if meant else 0.0,
        last=meant[-1].at if meant else 0.0,
    )


def _meant(turns: list[ChatTurn], asked: ChatSelection, words: str, since: float | None) -> list[ChatTurn]:
    from dispatcher.chat_data.forget.request import folded

    if asked.kind == "words":
        return [turn for turn in turns if folded(words) in folded(turn.words)]
    if asked.kind == "task":
        return [turn for turn in turns if words in turn.exchanges]
    if asked.kind == "today":
        return [turn for turn in turns if since is None or turn.at >= since]
    if asked.kind == "all" or not turns:
        return turns
    # A bot may tell the time of a message in whole seconds, so an answer tells better which exchange is the last one.
    newest = max(turns, key=lambda turn: (turn.at, len(turn.turn_ids[0]), turn.turn_ids[0]))
    return [turn for turn in turns if newest.exchanges & turn.exchanges]


def _known(settings: Settings, day: DayMemory, waiting: Iterable[Turn], chat_id: str) -> Iterator[ChatTurn]:
    """The chat's turns that are not hidden, each once."""
    hidden, before = hidden_by(day.forgotten.of(chat_id))
    seen = set[str]()
    for turn in _everywhere(settings, day, waiting, chat_id):
        left = tuple(one for one in turn.turn_ids if one not in hidden and one not in seen)
        seen.update(left)
        if left and (before is None or turn.at >= before):
            yield replace(turn, turn_ids=left)


def _everywhere(settings: Settings, day: DayMemory, waiting: Iterable[Turn], chat_id: str) -> Iterator[ChatTurn]:
    from dispatcher.chat_data.forget.select import released_turns

    yield from map(_of_turn, waiting)
    if day.wanted:
        yield from map(_of_turn, day.turns.back(chat_id))
    try:
        for passages in released_turns(settings, chat_id):
            first = passages[0]
            text = " ".join(one.text for one in passages)
            words = " ".join(one.words for one in passages)
            yield ChatTurn(tuple(first.turn_ids), first.started_at, first.who(), text, words)
    except sqlite3.Error as error:
        raise StorageError(f"The release cannot be read: {error}. Nothing was forgotten; run hmem doctor.") from error


def _of_turn(turn: Turn) -> ChatTurn:
    return ChatTurn((turn.turn_id,), turn.timestamp, turn.speaker, turn.content, turn.words)
