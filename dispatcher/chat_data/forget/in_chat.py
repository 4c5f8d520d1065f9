"""What `/forget` selects in its own chat: turns that contain words, the last exchange or that of a task, those of today, or the whole chat.

Such a request only hides, as `/memory forget` does: immediately, and in all later nights. Release and day are read turn by turn, because an index
of words does not find parts of words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dispatcher.memory.tombstones import hidden_by
from shared.release.manifest import current_release
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
    shown: tuple[Turn, ...] = ()
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
    turns = sorted(_known(settings, day, waiting, chat_id), key=lambda turn: (turn.timestamp, turn.role != "user"))
    meant = _meant(turns, asked, words, since)
    everything, began = asked.kind == "all", int(asked.before or 0)
    ids = sorted(turn.turn_id for turn in meant)
    late = sorted(turn.turn_id for turn in meant if turn.timestamp >= began)
    memories = day.requests.made_of(chat_id, None if everything else ids) if day.wanted else []
    return replace(
        asked,
        turn_ids=tuple(late if everything else ids),
        messages=len(ids),
        memories=len(memories),
        shown=tuple(meant[:SHOWN_TURNS]),
        first=meant[0].timestamp if meant else 0.0,
        last=meant[-1].timestamp if meant else 0.0,
    )


def _meant(turns: list[Turn], asked: ChatSelection, words: str, since: float | None) -> list[Turn]:
    from dispatcher.chat_data.forget.request import folded

    if asked.kind == "words":
        return [turn for turn in turns if folded(words) in folded(turn.words)]
    if asked.kind == "task":
        return [turn for turn in turns if turn.task_id == words]
    if asked.kind == "today":
        return [turn for turn in turns if since is None or turn.timestamp >= since]
    if asked.kind == "all" or not turns:
        return turns
    # A bot may tell the time of a message in whole seconds, so an answer tells better which exchange is the last one.
    newest = max(turns, key=lambda turn: (turn.timestamp, len(turn.turn_id), turn.turn_id))
    return [turn for turn in turns if turn.task_id == newest.task_id]


def _known(settings: Settings, day: DayMemory, waiting: Iterable[Turn], chat_id: str) -> Iterator[Turn]:
    """The chat's turns that are not hidden, each once."""
    hidden, before = hidden_by(day.forgotten.of(chat_id))
    seen = set(hidden)
    for turn in _everywhere(settings, day, waiting, chat_id):
        if turn.turn_id not in seen and (before is None or turn.timestamp >= before):
            yield turn
        seen.add(turn.turn_id)


def _everywhere(settings: Settings, day: DayMemory, waiting: Iterable[Turn], chat_id: str) -> Iterator[Turn]:
    from shared.search.recall import OpenRelease

    yield from waiting
    if day.wanted:
        yield from day.turns.back(chat_id)
    if (current := current_release(settings.hmem_memory_dir)) is not None:
        with closing(OpenRelease(settings, current)) as release:
            yield from release.turns_back(chat_id, with_files=True)
