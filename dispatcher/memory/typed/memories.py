"""Typed memories: what people asked to remember (facts, goals, preferences), found by meaning and by words, and shown in every prompt.

It uses the table of memories (store/memories.py), the day's embedder and two pure rules: relevance (relevance.py) for what is injected, and the
match of a search text (matching.py) for `[DONE:]` and `[FORGET:]`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from dispatcher.memory.embedder import packed, unpacked
from dispatcher.memory.relevance import relevance
from dispatcher.memory.store.memories import Memories, Memory, MemoryType
from dispatcher.memory.typed.chat_memories import ChatMemories, marks_of
from dispatcher.memory.typed.duplicates import LEAST, Verdict, judged, spoken_words
from dispatcher.memory.typed.matching import MemoryMatch, matching
from shared.embedding.known_models import likeness

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.embedder import DayEmbedder
    from dispatcher.memory.tombstones import Forgotten
    from shared.embedding.models import Vectors

#: Figures of 40 invented memories of one person, with the shipped model.
#:
#: The likeness (shared/embedding/known_models.py) of memory and message from which a memory is shown. With all-MiniLM-L6-v2, of 40 messages that
#: one memory is relevant to, 72 % show it; of 40 without a relevant memory, 23 % show one. 0.20: 82 and 57 %; 0.30: 50 and 12 %; 0.35: 38 and 7 %.
SHOWN_LIKENESS = 0.25
#: The share of a message's words (by rarity) from which a memory is shown: together with vectors, where it shows nothing more for the 40 messages
#: without a relevant memory (0.25: 2 % more), and without vectors: 33 % of the messages with a relevant memory, and 15 % of those without.
SHOWN_WORDS, SHOWN_WORDS_ALONE = 0.5, 0.15
#: Memories of a chat that are read for a prompt; chats in the cache (the most recently used), and memories in the cache (4 kB each).
MOST_READ, CHATS_KEPT, MEMORIES_KEPT = 10_000, 256, 20_000


@dataclass(frozen=True)
class Addition:
    """What to write to remember a text, planned on the store's revision `stored`.

    `same` is a memory that already says it: it is reinforced, or replaced by `made` if `replaces`. `corrected` are superseded; `near` may be about
    the same.
    """

    stored: str
    made: Memory
    same: Memory | None
    replaces: bool
    verbatim: bool = False
    corrected: tuple[Memory, ...] = ()
    near: Memory | None = None


class GroundMoved(Exception):
    """The chat's memories have changed since the plan was made. Nothing was written."""


class Remembering:
    """Thread-safe. StoreUnavailable if the store cannot be reached."""

    def __init__(self, store: Memories, embedder: DayEmbedder, forgotten: Forgotten | None = None) -> None:
        self._store, self._embedder, self._forgotten = store, embedder, forgotten
        self._loaded: LRUCache[str, ChatMemories] = LRUCache(MEMORIES_KEPT, getsizeof=_size)
        self._lock = threading.Lock()

    def add(self, chat_id: str, kind: MemoryType, text: str, *, now: float, **more: Any) -> tuple[Memory, bool]:
        """Remember a text in a separate transaction; returns the memory, and whether it is new."""
        while True:
            planned = self.plan(chat_id, kind, text, now=now, **more)
            with suppress(GroundMoved), self._store.transaction() as connection:
                return self.carry_out(planned, connection)

    def plan(
        self, chat_id: str, kind: MemoryType, text: str, *, now: float, replaced: Sequence[Memory] = (), **more: Any
    ) -> Addition:
        """What to write to remember a text in the place of `replaced`; `more` are further columns. It calls the embedder, so never call it within a
        transaction.

        A memory that says the same is reinforced instead; a goal that is repeated with another deadline replaces the old one.
        """
        (vector,) = self._embedder.statements([text])
        known = self.of_chat(chat_id)
        verdict = self._judged(known, kind, text, vector, more.get("user_id"), replaced)
        same, corrected = verdict.same, tuple(replaced)
        other_time = same is not None and more.get("deadline") not in (None, same.deadline)
        if same and other_time and kind != "goal":  # the engineer comes again: his first visit remains known
            corrected, same, other_time = (*corrected, same), None, False
        if same:  # forgetting it forgets all of its source turns; what the owner wrote is from none, and stays when a turn that says it goes
            sources = [*same.sources, *(more.get("source_turn") or "").split()]
            more["source_turn"] = " ".join(dict.fromkeys(sources)) if same.source_turn else None
        if same and other_time:
            used = {"importance": min(5, same.importance + 1), "access_count": same.access_count + 1}
            more = used | {"last_accessed": now} | more
        made = self.made(chat_id, kind, text, vector, now, more)
        near = None if corrected or same else verdict.near
        return Addition(known.stored, made, same, other_time, verdict.verbatim, corrected, near)

    def carry_out(self, planned: Addition, connection: Connection) -> tuple[Memory, bool]:
        """Write a plan; returns the memory, and whether it is new. GroundMoved if the chat's memories have changed since it was made."""
        made, same, chat_id = planned.made, planned.same, planned.made.chat_id
        self.check(chat_id, planned.stored, connection)
        if same and not planned.replaces:
            # If it was news after all, it is not lost.
            news = {} if planned.verbatim else {"wordings": [*same.wordings, made.text]}
            self._store.reinforce(same, made.created, connection=connection, source_turn=made.source_turn, **news)
            new = same
        else:
            if same:
                made = replace(made, wordings=tuple(one for one in same.texts if one != made.text))
            new = self._store.add(made, connection=connection)
            if same:
                self._store.delete(chat_id, same.memory_id, heir=new.memory_id, connection=connection)
        for one in planned.corrected:
            self._store.supersede(chat_id, one.memory_id, new.memory_id, made.created, connection=connection)
        return new, new is not same

    def check(self, chat_id: str, stored: str, connection: Connection) -> None:
        """GroundMoved unless the chat's memories have that revision; then they keep it until the transaction ends."""
        if not self._store.unchanged(chat_id, stored, connection):
            raise GroundMoved

    def new_ones(
        self,
        chat_id: str,
        kind: MemoryType,
        given: Sequence[tuple[str, float | None, dict[str, Any]]],
        user: str | None = None,
    ) -> list[Memory]:
        """Those of `given` (text, creation time in POSIX seconds or None, further columns) that no memory says, each once; stores
        nothing. What was replaced is new again if it was said later. All of them were said by this user (None: the whole chat's)."""
        known = self.of_chat(chat_id)
        until: dict[tuple[str, ...], float] = {}  # words → when what they say was replaced
        for one in known.shown:
            if one.type == kind and one.user_id == user:
                replaced = one.memory_id in known.superseded
                end = (one.superseded_at or one.created) if replaced else math.inf
                until |= {words: max(end, until.get(words, 0.0)) for words in map(spoken_words, one.texts)}
        new = []
        for text, created, more in given:
            words = spoken_words(text)
            if words not in until or (created is not None and created > until[words]):
                until[words] = math.inf
                new.append((text, time.time() if created is None else created, more))
        vectors = self._embedder.statements([text for text, *_ in new])
        return [
            self.made(chat_id, kind, text, vector, created, more)
            for (text, created, more), vector in zip(new, vectors, strict=True)
            if not self._judged(known, kind, text, vector, user, ()).same
        ]

    def made(
        self, chat_id: str, kind: MemoryType, text: str, vector: Vectors | None, created: float, more: dict[str, Any]
    ) -> Memory:
        """A memory that is not stored yet."""
        if vector is not None:
            more = {"embedding": packed(vector), "embedding_model": self._embedder.model, **more}
        return Memory(chat_id, kind, text, created, **more)

    def of_chat(self, chat_id: str, stored: str | None = None, connection: Connection | None = None) -> ChatMemories:
        """The chat's memories, cached until one of them changes; `stored` is the store's revision, if it was just read in this transaction."""
        model = self._embedder.model
        marks = marks_of(self._forgotten.of(chat_id)) if self._forgotten else frozenset()
        stored = stored or self._store.revision(chat_id)
        key = f"{stored} {model} {len(marks)}"
        with self._lock:
            known = self._loaded.get(chat_id)
        if known is None or known.revision != key:
            memories = self._store.list(chat_id, limit=MOST_READ, connection=connection)
            hidden = frozenset(one.memory_id for one in memories if one.uid in marks)
            known = ChatMemories(key, stored, memories, self._vectors(memories, model) if model else None, hidden)
            with self._lock:
                self._loaded[chat_id] = known
        return known

    def note_use(self, chat_id: str, ids: Collection[int], now: float) -> None:
        """Record that these memories were shown, also in the copies kept here: a use changes no revision."""
        self._store.touch(chat_id, ids, now)
        with self._lock:
            if known := self._loaded.get(chat_id):
                used = [
                    replace(one, last_accessed=now, access_count=one.access_count + 1) if one.memory_id in ids else one
                    for one in known.every
                ]
                self._loaded[chat_id] = replace(known, every=used)

    def likenesses(self, known: ChatMemories, text: str) -> Vectors | None:
        """How like each of a chat's memories is to a text, NaN for one without a vector; None if there are no vectors."""
        vector = self._embedder.query(text)
        if known.vectors is None or vector is None:
            return None
        return likeness(known.vectors @ vector, self._embedder.family)

    def relevant(
        self, known: ChatMemories, query: str, limit: int, *, now: float, shown: Collection[int] = ()
    ) -> list[Memory]:
        """The chat's memories that are relevant to a question, best first, without those in `shown` (ids)."""
        likes, shares = self.likenesses(known, query), known.index.shares(query)
        least = SHOWN_WORDS_ALONE if likes is None else SHOWN_WORDS
        near = {at: share for at, share in shares.items() if share >= least}
        if likes is not None:
            for at in (likes >= SHOWN_LIKENESS).nonzero()[0].tolist():
                near[at] = max(near.get(at, 0.0), float(likes[at]))
        gone = {*shown, *known.hidden, *known.superseded}
        left = [at for at in near if known.every[at].memory_id not in gone]
        nearest = sorted(left, key=lambda at: (-near[at], at))[: 2 * limit]
        best = sorted(nearest, key=lambda at: -relevance(known.every[at], near[at], now))
        return [known.every[at] for at in best[:limit]]

    def match(self, chat_id: str, text: str, among: Callable[[Memory], bool] = lambda _: True) -> MemoryMatch:
        """The memories in `among` that a search text matches."""
        known = self.of_chat(chat_id)
        rows = [at for at, memory in enumerate(known.every) if among(memory)]
        return matching(known, rows, text, self.likenesses(known, text))

    def nearest(self, known: ChatMemories, memory: Memory) -> Memory | None:
        """The other valid memory of its type and speaker that may be about the same."""
        if known.vectors is None or self._embedder.family not in LEAST:
            return None
        cosines = known.vectors @ known.vectors[known.every.index(memory)]
        gone = known.hidden | known.superseded.keys() | {memory.memory_id}
        near = (cosines >= LEAST[self._embedder.family][1]).nonzero()[0].tolist()
        for at in sorted(near, key=lambda at: -cosines[at]):
            one: Memory = known.every[at]
            if (one.type, one.user_id) == (memory.type, memory.user_id) and one.memory_id not in gone:
                return one
        return None

    def embed_missing(self, limit: int) -> int:
        """Embed memories that have no vector of the current model; returns how many."""
        model = self._embedder.model
        if model is None:
            return 0
        missing = self._store.needing_embedding(model, limit)
        vectors = self._embedder.statements([memory.text for memory in missing])
        done = 0
        for memory, vector in zip(missing, vectors, strict=True):
            if vector is not None:
                chat_id, memory_id, made = memory.chat_id, memory.memory_id, packed(vector)
                self._store.change(chat_id, memory_id, None, embedding=made, embedding_model=model)
                done += 1
        return done

    def _judged(
        self,
        known: ChatMemories,
        kind: MemoryType,
        text: str,
        vector: Vectors | None,
        user: str | None,
        replaced: Sequence[Memory],
    ) -> Verdict:
        gone = known.hidden | known.superseded.keys() | {one.memory_id for one in replaced}
        among = [
            at
            for at, one in enumerate(known.every)  # two people's facts do not replace each other
            if one.type == kind and one.user_id == user and one.memory_id not in gone
        ]
        vectors = None if known.vectors is None else known.vectors[among]
        return judged([known.every[at] for at in among], vectors, text, vector, self._embedder.family)

    def _vectors(self, memories: Sequence[Memory], model: str) -> Vectors:
        """Theirs, of shape (n, dimensions), NaN for a missing one."""
        import numpy as np

        vectors = np.full((len(memories), self._embedder.dimensions), np.nan, np.float32)
        for row, memory in enumerate(memories):
            if memory.embedding and memory.embedding_model == model:
                vectors[row] = unpacked(memory.embedding)
        return vectors


def _size(known: ChatMemories) -> int:
    """A chat's size in the cache, in memories: at least 1/CHATS_KEPT of the cache, and at most all of it, so that a very large chat fits alone."""
    return min(max(len(known.every), MEMORIES_KEPT // CHATS_KEPT), MEMORIES_KEPT)
