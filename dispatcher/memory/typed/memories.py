"""Typed memories: what people asked to be kept (facts, goals, preferences), found again by meaning and by words, and shown in every prompt.

A store of rows (memories.py), the day's embedder and two pure rules: relevance (relevance.py) for what is injected,
and the match of a search text for `[DONE:]` and `[FORGET:]`, which acts on one memory only if it is clear which one is meant.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from dispatcher.memory.embedder import packed, unpacked
from dispatcher.memory.relevance import Relevance, coverage, relevance
from dispatcher.memory.typed.judging import Draft, Drafting, Verdict, judged
from dispatcher.memory.typed.text import CachedMemories
from dispatcher.memory.typed.word_index import MemoryWords

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.embedder import DayEmbedder
    from dispatcher.memory.store.memories import Memories, Memory, MemoryType
    from dispatcher.memory.tombstones import Forgotten
    from shared.embedding.models import Vectors
    from shared.turns.records import Tombstone

#: The figures are of scripts/benchmarks/typed.py: 40 made-up memories of one person, with the shipped model.
#:
#: Cosine of a memory to the message from which it is worth its place in the prompt. Of 40 messages that bear on one memory 72 % bring it up, of
#: 40 that bear on none 23 % bring up one. 0.20: 82 and 57 %; 0.30: 50 and 12 %; 0.35: 38 and 7 %.
SHOWN_COSINE = 0.25
#: Share of a message's words (by rarity) from which it is worth the same: beside vectors, where it brings up nothing more of those 40 that bear
#: on none (0.25: 2 % more), and where there are none: 33 % of those that bear on one, and 15 % of those that do not.
SHOWN_WORDS, SHOWN_WORDS_ALONE = 0.5, 0.15
#: A search text means a memory from this match on (0 to 1, half by words, half by meaning), if no other comes within the margin. Of 21 clear
#: texts all find theirs and none another, 4 ambiguous and 5 wrong ones change nothing; the same from 0.40 to 0.45, with any margin from 0.05 to
#: 0.20. At 0.35 an ambiguous one acts, at 0.50 a clear one finds nothing.
MATCHED, MARGIN = 0.45, 0.12
#: The same by words alone, where there is no vector: 15 of the 21, none wrong. At 0.50 it is 20, and "the guitar" ends another plan to learn.
MATCHED_BY_WORDS = 0.6
#: Memories that are named when it is not clear which one is meant.
MOST_CANDIDATES = 5
#: The id of a tombstone that was made for a memory (dispatcher/memory/typed/actions.py): its number, and when it was made.
_MARK = re.compile(r"f\d+-(\d+)-(\d+)-")
#: Memories of a chat that are read for a prompt; chats that are kept, those asked for last, and how many memories of theirs (4 kB each).
MOST_READ, CHATS_KEPT, MEMORIES_KEPT = 10_000, 256, 20_000


@dataclass(frozen=True)
class MemoryMatch:
    """Memories that a search text may mean, best first; `clear` if the first is meant. `stored` is the store's revision that was looked at."""

    memories: Sequence[Memory]
    clear: bool
    stored: str


@dataclass(frozen=True)
class Held:
    """A chat's memories as they are read for a prompt: rows, and vectors of shape (n, dimensions), NaN where there is none.

    Those in `hidden` (ids) are forgotten: whoever forgot them died before they were removed. Only another `[FORGET:]` still finds them.
    """

    revision: str
    stored: str  # the store's revision of the chat's memories
    every: Sequence[Memory]
    vectors: Vectors | None
    hidden: frozenset[int] = frozenset()

    @cached_property
    def memories(self) -> Sequence[Memory]:
        """Those that may be told as valid, in the order they were made."""
        return CachedMemories(
            one for one in self.every if one.memory_id not in self.hidden and one.memory_id not in self.superseded
        )

    @cached_property
    def shown(self) -> Sequence[Memory]:
        """The same, and those that were superseded."""
        return [one for one in self.every if one.memory_id not in self.hidden]

    @cached_property
    def superseded(self) -> dict[int, int]:
        """Memory id → id of the one that took its place. Who took the place of one that is hidden or gone took nobody's."""
        by = {one.memory_id: one.superseded_by for one in self.every}

        def newer(memory_id: int) -> int | None:
            found = by[memory_id]
            for _ in by:
                if found is None or found not in by:
                    return None
                if found not in self.hidden:
                    return found
                found = by[found]
            return None

        return {one: found for one in by if (found := newer(one)) is not None}

    @cached_property
    def superseded_numbers(self) -> dict[int, int]:
        """Memory id → the number, as people know it, of the one that took its place."""
        numbers = {one.memory_id: one.number for one in self.every}
        return {one: numbers[by] for one, by in self.superseded.items()}

    @cached_property
    def index(self) -> MemoryWords:
        """By which words `every` one is found."""
        return MemoryWords(" ".join(memory.texts) for memory in self.every)


@dataclass(frozen=True)
class Addition:
    """What is to be written so that a text is kept, planned on the store's revision `stored`.

    `same` is the memory that says it already: it is reinforced, or makes way for `made` if that `replaces` it. `corrected` are superseded.
    """

    stored: str
    made: Memory
    same: Memory | None
    replaces: bool
    verbatim: bool = False
    corrected: tuple[Memory, ...] = ()


class GroundMoved(Exception):
    """The chat's memories have changed since something was planned upon them. Nothing was written."""


class Remembering:
    """Thread-safe. StoreUnavailable where the store is away."""

    def __init__(self, store: Memories, embedder: DayEmbedder, forgotten: Forgotten | None = None) -> None:
        self._store, self._embedder, self._forgotten = store, embedder, forgotten
        self._held: LRUCache[str, Held] = LRUCache(MEMORIES_KEPT, getsizeof=_size)
        self._lock = threading.Lock()

    def add(self, chat_id: str, kind: MemoryType, text: str, *, now: float, **more: Any) -> tuple[Memory, bool]:
        """The memory, and whether it is new, in a transaction of its own."""
        while True:
            planned = self.plan(chat_id, kind, text, now=now, **more)
            with suppress(GroundMoved), self._store.transaction() as connection:
                return self.carry_out(planned, connection)

    def plan(self, chat_id: str, kind: MemoryType, text: str, *, now: float, **more: Any) -> Addition:
        """What is to be written so that a text is kept; `more` are further columns. It asks the embedder, so never within a transaction.

        One that says the same is reinforced instead; a goal that comes again with another deadline takes the old one's place.
        """
        (vector,) = self._embedder.documents([text])
        held = self.held(chat_id)
        verdict = self._judged(held, kind, text, vector)
        same, corrected = verdict.same, verdict.corrected
        other_time = same is not None and more.get("deadline") not in (None, same.deadline)
        if same is not None and other_time and kind != "goal":  # the engineer comes again: that he came stays known
            corrected, same, other_time = (same,), None, False
        if same:  # to forget it is to forget every turn that told it
            told = [*(same.source_turn or "").split(), *(more.get("source_turn") or "").split()]
            more["source_turn"] = " ".join(dict.fromkeys(told)) or None
        if same and other_time:
            kept = {"importance": min(5, same.importance + 1), "access_count": same.access_count + 1}
            more = kept | {"last_accessed": now} | more
        made = self.made(chat_id, kind, text, vector, now, more)
        return Addition(held.stored, made, same, other_time, verdict.verbatim, corrected)

    def carry_out(self, planned: Addition, connection: Connection) -> tuple[Memory, bool]:
        """The memory, and whether it is new. GroundMoved if the chat's memories are not as they were when it was planned."""
        made, same, chat_id = planned.made, planned.same, planned.made.chat_id
        self.check(chat_id, planned.stored, connection)
        if same and not planned.replaces:
            self._store.reinforce(
                chat_id, same.memory_id, made.created, source_turn=made.source_turn, connection=connection
            )
            if not planned.verbatim:  # should it have been news, it is not lost
                self._store.told_also(chat_id, same.memory_id, [*same.wordings, made.text], connection=connection)
            return same, False
        if same:
            made = replace(made, wordings=tuple(one for one in same.texts if one != made.text))
        new = self._store.add(chat_id, made, connection=connection)
        if same:
            self._store.inherit(chat_id, same.memory_id, new.memory_id, connection=connection)
            self._store.delete(chat_id, same.memory_id, connection=connection)
        for one in planned.corrected:
            self._store.supersede(chat_id, one.memory_id, new.memory_id, made.created, connection=connection)
        return new, True

    def check(self, chat_id: str, stored: str, connection: Connection) -> None:
        """GroundMoved unless the chat's memories have that revision, which they keep until the transaction ends."""
        if not self._store.unchanged(chat_id, stored, connection):
            raise GroundMoved

    def new_ones(
        self, chat_id: str, kind: MemoryType, told: Sequence[tuple[str, float | None, dict[str, Any]]]
    ) -> list[Draft]:
        """Of (text, when it was made in POSIX seconds if that is known, further columns) those that are new, or in new words; nothing is stored."""
        vectors = self._embedder.documents([text for text, *_ in told])
        held = self.held(chat_id)
        among, rows = self._valid(held, kind)
        replaced = [one for one in held.shown if one.type == kind and one.memory_id in held.superseded]
        drafting = Drafting([held.every[at] for at in among], rows, replaced)
        for (text, said_at, more), vector in zip(told, vectors, strict=True):
            created = time.time() if said_at is None else said_at

            def make(text: str = text, at: float = created, more: Any = more, vector: Any = vector) -> Memory:
                return self.made(chat_id, kind, text, vector, at, more)

            drafting.add(text, created, None if rows is None else vector, make, dated=said_at is not None)
        return drafting.made

    def made(
        self, chat_id: str, kind: MemoryType, text: str, vector: Vectors | None, created: float, more: dict[str, Any]
    ) -> Memory:
        """A memory that is not stored yet."""
        from dispatcher.memory.store.memories import new_memory

        embedding = None if vector is None else packed(vector)
        return new_memory(
            chat_id,
            kind,
            text,
            created=created,
            embedding=embedding,
            embedding_model=self._embedder.model if embedding else None,
            **more,
        )

    def held(self, chat_id: str, stored: str | None = None) -> Held:
        """The chat's memories, read once until one of them changes; `stored` is the store's revision, if it was just asked for."""
        model = self._embedder.model
        marks = _marks(self._forgotten.of(chat_id)) if self._forgotten else frozenset()
        stored = stored or self._store.revision(chat_id)
        key = f"{stored} {model} {len(marks)}"
        with self._lock:
            held = self._held.get(chat_id)
        return held if held and held.revision == key else self._read(chat_id, key, stored, model, marks)

    def relevant(
        self,
        chat_id: str,
        query: str,
        limit: int,
        *,
        now: float,
        beside: Collection[int] = (),
        held: Held | None = None,
    ) -> list[tuple[Memory, Relevance]]:
        """Memories that bear on a question, best first, except those `beside` (ids); `held`, if they were just asked for."""
        held, vector = held or self.held(chat_id), self._embedder.query(query)
        alone = held.vectors is None or vector is None
        shares = held.index.shares(query, parts=False)
        near = {at: one for at, one in shares.items() if one >= (SHOWN_WORDS_ALONE if alone else SHOWN_WORDS)}
        if held.vectors is not None and vector is not None:
            cosines = held.vectors @ vector
            for at in (cosines >= SHOWN_COSINE).nonzero()[0].tolist():
                near[at] = max(near.get(at, 0.0), float(cosines[at]))
        found: list[tuple[Memory, Relevance]] = []
        for at in sorted(near, key=lambda at: (-near[at], at)):
            memory = held.every[at]
            if len(found) == 2 * limit:
                break
            if memory.memory_id in beside or memory.memory_id in held.hidden or memory.memory_id in held.superseded:
                continue
            scored = relevance(
                1 - near[at],
                now=now,
                created=memory.created,
                accessed=memory.last_accessed,
                access_count=memory.access_count,
                importance=memory.importance,
            )
            if scored:
                found.append((memory, scored))
        return sorted(found, key=lambda pair: -pair[1].score)[:limit]

    def match(self, chat_id: str, text: str, kinds: Collection[str] | None = None) -> MemoryMatch:
        """Which memories a search text means."""
        vector = self._embedder.query(text)  # which may take long; what is held is looked at then
        held = self.held(chat_id)
        scored = [
            (score, memory)
            for at, memory in enumerate(held.every)
            if (kinds is None or memory.type in kinds) and (score := self._matched(held, at, text, vector))
        ]
        best = sorted(scored, key=lambda pair: -pair[0])[:MOST_CANDIDATES]
        near = [memory for score, memory in best if best[0][0] - score < MARGIN]
        valid = [memory for memory in near if memory.memory_id not in held.superseded]
        if valid and valid[0] is near[0]:  # rather what is told than what it superseded
            near = valid
        return MemoryMatch(near, len(near) == 1, held.stored)

    def remaining(self, memory: Memory, text: str, source_turn: str | None) -> Memory:
        """What is left of a memory of which a detail was forgotten, as one that is not stored yet."""
        (vector,) = self._embedder.documents([text])
        kept = "deadline importance priority category session last_accessed access_count".split()
        kept += ["superseded_by", "superseded_at", "reminded_at", "completed_at"]
        more = {name: getattr(memory, name) for name in kept} | {"source_turn": source_turn}
        return self.made(memory.chat_id, memory.type, text, vector, memory.created, more)

    def detail(self, text: str, asked: str) -> tuple[str, str] | None:
        """Of a memory's text the clause that a search text means, and the rest; None if it has but one, or if it is not clear which."""
        from dispatcher.memory.withholding import clauses

        found = clauses(text)
        vectors, query = self._embedder.documents(found) if len(found) > 1 else [], self._embedder.query(asked)
        scores = []
        for part, vector in zip(found, vectors, strict=False):
            cosine = 0.0 if vector is None or query is None else max(0.0, float(vector @ query))
            scores.append((coverage(asked, part) + cosine) / (1 if query is None else 2))
        best = sorted(range(len(scores)), key=lambda at: -scores[at])
        if len(best) < 2 or scores[best[0]] - scores[best[1]] < MARGIN:
            return None
        return found[best[0]], "; ".join(part for at, part in enumerate(found) if at != best[0])

    def embed_missing(self, limit: int) -> int:
        """Vectors for memories that have none of the present model; how many."""
        model = self._embedder.model
        if model is None:
            return 0
        missing = self._store.needing_embedding(model, limit)
        vectors = self._embedder.documents([memory.text for memory in missing])
        done = 0
        for memory, vector in zip(missing, vectors, strict=True):
            if vector is not None:
                self._store.update_embedding(memory.chat_id, memory.memory_id, packed(vector), model)
                done += 1
        return done

    def _matched(self, held: Held, at: int, text: str, vector: Vectors | None) -> float:
        """0 to 1: the mean of the share of words that are found and of the cosine; words alone where there is no vector. 0 if it is too little."""
        words = max(coverage(text, one) for one in held.every[at].texts)
        cosine = math.nan if vector is None or held.vectors is None else float(held.vectors[at] @ vector)
        if math.isnan(cosine):
            return words if words >= MATCHED_BY_WORDS else 0.0
        mean = (words + max(0.0, cosine)) / 2
        return mean if mean >= MATCHED else 0.0

    def _judged(self, held: Held, kind: MemoryType, text: str, vector: Vectors | None) -> Verdict:
        among, vectors = self._valid(held, kind)
        return judged([held.every[at] for at in among], vectors, text, vector)

    def _valid(self, held: Held, kind: MemoryType) -> tuple[list[int], Vectors | None]:
        """Places of the chat's valid memories of a type, and their vectors."""
        gone = held.hidden | held.superseded.keys()
        among = [at for at, one in enumerate(held.every) if one.type == kind and one.memory_id not in gone]
        return among, None if held.vectors is None else held.vectors[among]

    def _read(
        self, chat_id: str, revision: str, stored: str, model: str | None, marks: Collection[tuple[int, int]]
    ) -> Held:
        import numpy as np

        memories = self._store.list(chat_id, limit=MOST_READ)
        vectors = None
        if model is not None:
            vectors = np.full((len(memories), self._embedder.dimensions), np.nan, np.float32)
            for row, memory in enumerate(memories):
                if memory.embedding and memory.embedding_model == model:
                    vectors[row] = unpacked(memory.embedding)
        hidden = frozenset(one.memory_id for one in memories if (one.memory_id, int(one.created)) in marks)
        held = Held(revision, stored, memories, vectors, hidden)
        with self._lock:
            self._held[chat_id] = held
        return held


def _size(held: Held) -> int:
    """Of a chat in the cache, in memories: at least a 1/CHATS_KEPT of it, and never more than all, so that a large chat is kept alone."""
    return min(max(len(held.every), MEMORIES_KEPT // CHATS_KEPT), MEMORIES_KEPT)


def _marks(stones: Iterable[Tombstone]) -> frozenset[tuple[int, int]]:
    """(id, second in which it was made) of memories that are forgotten."""
    found = (_MARK.match(stone.tombstone_id) for stone in stones)
    return frozenset((int(match[1]), int(match[2])) for match in found if match)
