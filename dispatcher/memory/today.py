"""The turns of the day for ranking: read from the day store, cached until one of them changes, with their vectors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachetools import LRUCache

from dispatcher.memory.embedder import packed, unpacked
from shared.config.settings import Settings
from shared.turns.records import Turn

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.embedder import DayEmbedder
    from dispatcher.memory.store.rows import Revisions
    from dispatcher.memory.store.summaries import SessionSummary, Summaries
    from dispatcher.memory.store.turns import StoredTurn, Turns
    from shared.search.day_items import DayItems, DayTurn
    from shared.search.recall import DayRecall

#: Chats in the cache; the newest turns of one chat's day that are ranked; long summaries that are searched.
CHATS_KEPT, TURNS_RANKED, LONG_SUMMARIES = 64, 5_000, 200
#: Turns that are embedded before it is looked whether somebody asks, and that get their vectors in one transaction.
TURNS_AT_ONCE, TURNS_PER_COMMIT = 4, 32
#: How many summaries of earlier sessions a prompt gets.
EARLIER_SUMMARIES = 2


@dataclass(frozen=True)
class Today:
    """One chat's day in the store, at one revision."""

    key: tuple[str, str | None]  # the store's revision of the chat's turns, and the model of the vectors
    items: DayItems
    #: Session → ids of its turns.
    sessions: Mapping[str | None, Collection[str]]
    #: The sessions that ended last, oldest first.
    ended: Sequence[SessionSummary]
    #: Id of a turn or a long summary → the stored one, and the chunks made of it.
    made: Mapping[str, tuple[StoredTurn | SessionSummary, list[DayTurn]]]


class DayTurns:
    """Thread-safe. StoreUnavailable if the store cannot be reached."""

    def __init__(
        self, settings: Settings, embedder: DayEmbedder, turns: Turns, summaries: Summaries, recall: DayRecall
    ) -> None:
        self._settings, self._embedder, self._recall = settings, embedder, recall
        self._turns, self._summaries = turns, summaries
        self._kept: LRUCache[str, Today] = LRUCache(CHATS_KEPT)
        self._lock = threading.Lock()

    def today(self, chat_id: str, at: Revisions | None = None, connection: Connection | None = None) -> Today:
        """The chat's day; the same object until something changes. `at`: the store's revisions, if they were just read in this transaction."""
        at = at or self._turns.revisions(chat_id)
        key = at.turns, self._embedder.model
        with self._lock:
            earlier = self._kept.get(chat_id)
        if earlier and earlier.key == key:
            return earlier
        known = earlier.made if earlier and earlier.key[1] == key[1] else {}
        stored = self._turns.newest(chat_id, TURNS_RANKED, connection)
        ended = self._summaries.list(chat_id, EARLIER_SUMMARIES, connection=connection) if at.summarised else []
        long = self._summaries.list(chat_id, LONG_SUMMARIES, "long", connection) if at.summarised else []
        every = {one.turn.turn_id: one for one in stored} | {one.summary_id: one for one in long}
        made: dict[str, tuple[StoredTurn | SessionSummary, list[DayTurn]]] = {}
        for name, one in every.items():
            was = known.get(name)
            made[name] = was if was and was[0] == one else (one, self._chunks(one))
        items = self._recall.items(chat_id, [chunk for _, some in made.values() for chunk in some])
        sessions: dict[str | None, set[str]] = {}
        for one in stored:  # one that is resumed has far fewer turns
            sessions.setdefault(one.turn.session, set()).add(one.turn.turn_id)
        found = Today(key, items, sessions, ended, made)
        with self._lock:
            self._kept[chat_id] = found
        return found

    def _chunks(self, stored: StoredTurn | SessionSummary) -> list[DayTurn]:
        """Of a turn, or of a summary that became searchable. That represents its turns: it is left out once the release, or a tombstone, has one of
        them."""
        from dispatcher.memory.store.turns import StoredTurn
        from shared.search.day_items import DayTurn, day_turns
        from shared.turns.chunk import Chunk

        embedding = stored.embedding if stored.embedding_model == self._embedder.model else None
        if isinstance(stored, StoredTurn):
            return day_turns(stored.turn, self._settings.timezone, embedding, self._embedder.dimensions)
        chunk = Chunk(
            f"{stored.last_turn}~{stored.summary_id}#1",
            stored.chat_id,
            stored.summary_id,
            stored.turn_ids,
            "asst",
            "summary of a conversation",
            stored.text,
            stored.ended_at,
            stored.ended_at,
        )
        return [DayTurn(chunk, stored.text, unpacked(embedding) if embedding else None)]

    def embed_missing(self, limit: int, may_go_on: Callable[[], bool]) -> None:
        """Embed turns and summaries that have no vector of the current model, some at a time while `may_go_on`. A text that the model refuses is not
        tried again; after a failure of the embedder it is."""
        model = self._embedder.model
        if model is None:
            return
        for summary in self._summaries.needing_embedding(model, limit):
            vectors = self._embedder.embedded([summary.text]) if may_go_on() else None
            if vectors is None:
                return
            made = None if vectors[0] is None else packed(vectors[0])
            self._summaries.update_embedding(summary.chat_id, summary.summary_id, made, model)
        missing = [stored.turn for stored in self._turns.needing_embedding(model, limit)]
        while missing and self._embed_turns(missing[:TURNS_PER_COMMIT], model, may_go_on):
            missing = missing[TURNS_PER_COMMIT:]

    def _embed_turns(self, turns: Sequence[Turn], model: str, may_go_on: Callable[[], bool]) -> bool:
        """Embed these turns and store the vectors in one transaction, because each costs the chat's next question a reading of its day. False if
        the embedder is unavailable, or it may not go on: then the ones made so far are stored."""
        made: list[tuple[Turn, bytes | None]] = []
        for first in range(0, len(turns), TURNS_AT_ONCE):
            some = turns[first : first + TURNS_AT_ONCE]
            embeddings = self._embedded(some) if may_go_on() else None
            if embeddings is None:
                break
            made += zip(some, embeddings, strict=True)
        if made:
            with self._turns.transaction() as connection:
                for turn, one in sorted(made, key=lambda pair: pair[0].chat_id):
                    self._turns.update_embedding(turn, one, model, connection)
        return len(made) == len(turns)

    def _embedded(self, turns: Sequence[Turn]) -> list[bytes | None] | None:
        """Each turn's vectors in the store's format, None for a turn without any; None instead of the list if the embedder is unavailable."""
        from shared.turns.chunking import chunks_of, embedded_text

        chunks = [chunks_of(turn) for turn in turns]
        texts = [embedded_text(chunk) for some in chunks for chunk in some]
        made = self._embedder.embedded(texts)
        if made is None:
            return None
        from shared.search.day_items import embedding_of

        vectors = iter(made)
        return [embedding_of([next(vectors) for _ in some]) for some in chunks]
