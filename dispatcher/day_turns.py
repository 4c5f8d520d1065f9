"""The turns of the day as they are ranked: read from the medium store, kept in memory until one of them changes, and given their vectors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dispatcher.day_embedder import packed, unpacked
from shared.records import Turn
from shared.settings import Settings

if TYPE_CHECKING:
    from dispatcher.day_embedder import DayEmbedder
    from dispatcher.store.summaries import Summaries
    from dispatcher.store.turns import StoredTurn, Turns
    from shared.day_index import DayItems, DayTurn
    from shared.embedding import Vectors
    from shared.recall import DayRecall

#: Chats whose day is kept in memory, and turns of one chat's day that are ranked: the newest.
CHATS_KEPT, TURNS_RANKED, LONG_SUMMARIES = 64, 5_000, 200
#: The end of time, for queries (POSIX seconds).
FOREVER = 1e12


class DayTurns:
    """Thread-safe. StoreUnavailable where the store is away."""

    def __init__(
        self, settings: Settings, embedder: DayEmbedder, turns: Turns, summaries: Summaries, recall: DayRecall
    ) -> None:
        self._settings, self._embedder, self._recall = settings, embedder, recall
        self._turns, self._summaries = turns, summaries
        self._kept: OrderedDict[str, tuple[str, DayItems]] = OrderedDict()
        self._lock = threading.Lock()

    def items(self, chat_id: str) -> DayItems | None:
        """The chat's turns of the day, and summaries that became searchable; the same object until something changes."""
        key = f"{self._turns.revision(chat_id)} {self._embedder.model}"
        with self._lock:
            kept = self._kept.get(chat_id)
        if kept and kept[0] == key:
            return kept[1]
        stored = self._turns.get_recent(chat_id, FOREVER, TURNS_RANKED, now=0.0)
        chunks = [turn for one in stored for turn in self._day_turns(one)] + self._long_summaries(chat_id)
        made = self._recall.items(chat_id, chunks, kept[1] if kept else None)
        with self._lock:
            self._kept[chat_id] = (key, made)
            self._kept.move_to_end(chat_id)
            while len(self._kept) > CHATS_KEPT:
                self._kept.popitem(last=False)
        return made

    def _day_turns(self, stored: StoredTurn) -> list[DayTurn]:
        from shared.day_index import day_turns

        model = self._embedder.model
        embedding = stored.embedding if model and stored.embedding_model == model else None
        return day_turns(stored.turn, self._settings.timezone, embedding, self._embedder.dimensions)

    def _long_summaries(self, chat_id: str) -> list[DayTurn]:
        """Summaries that became searchable. Each stands for its turns: it goes as soon as the release, or a tombstone, has one of them."""
        from shared.day_index import DayTurn
        from shared.lexical import Chunk

        return [
            DayTurn(
                Chunk(
                    f"{summary.last_turn}~{summary.summary_id}#1",
                    chat_id,
                    summary.summary_id,
                    summary.turn_ids,
                    "asst",
                    "summary of a conversation",
                    summary.text,
                    summary.ended_at,
                    summary.ended_at,
                ),
                summary.text,
                self._vector(summary.embedding, summary.embedding_model),
            )
            for summary in self._summaries.list(chat_id, LONG_SUMMARIES, "long")
        ]

    def _vector(self, embedding: bytes | None, model: str | None) -> Vectors | None:
        return unpacked(embedding) if embedding and model == self._embedder.model else None

    def store(self, turns: Sequence[Turn]) -> None:
        """Into the medium store, with language and vectors where they can be told."""
        from dispatcher.store.turns import StoredTurn
        from shared.language import detect

        embeddings = self._embedded(turns) or [None] * len(turns)
        stored = [
            StoredTurn(
                turn,
                user=turn.name,
                language=detect(turn.content),
                embedding=embedding,
                embedding_model=self._embedder.model if embedding else None,
            )
            for turn, embedding in zip(turns, embeddings, strict=True)
        ]
        if stored:
            self._turns.store(stored)

    def embed_missing(self, limit: int) -> None:
        """Vectors for turns and summaries that have none of the present model. A text that it refuses is not asked for again; one that it could
        not be asked for is."""
        model = self._embedder.model
        if model is None:
            return
        for summary in self._summaries.needing_embedding(model, limit):
            vectors = self._embedder.embedded([summary.text])
            if vectors is None:
                return
            made = None if vectors[0] is None else packed(vectors[0])
            self._summaries.update_embedding(summary.chat_id, summary.summary_id, made, model)
        missing = self._turns.needing_embedding(model, limit)
        embeddings = self._embedded([one.turn for one in missing])
        for stored, embedding in zip(missing, embeddings or (), strict=embeddings is not None):
            turn = stored.turn
            self._turns.update_embedding(turn.chat_id, turn.turn_id, embedding, model, content=turn.content)

    def _embedded(self, turns: Sequence[Turn]) -> list[bytes | None] | None:
        """Vectors of each turn's chunks as the store keeps them, None for a turn that has none; None if the embedder cannot be asked."""
        from shared.chunking import chunks_of, indexed_text

        chunks = [chunks_of(turn) for turn in turns]
        texts = [indexed_text(chunk, self._settings.timezone) for some in chunks for chunk in some]
        made = self._embedder.embedded(texts)
        if made is None:
            return None
        from shared.day_index import embedding_of

        vectors = iter(made)
        return [embedding_of([next(vectors) for _ in some]) for some in chunks]
