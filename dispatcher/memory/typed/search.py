"""Searches typed memories by words and by meaning, with the scores that people see, and merges them with the found turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from dispatcher.memory.store.whose import said_by
from shared.search.types import Hit, shown_score

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.typed.chat_memories import ChatMemories
    from shared.embedding.models import Vectors
    from shared.search.types import Query


@dataclass(frozen=True)
class MemoryHit:
    """A memory that a search has found; words and meaning 0 to 1, None for a meaning without vectors."""

    memory: Memory
    words: float
    meaning: float | None

    @property
    def score(self) -> float:
        return shown_score(self.words, self.meaning)

    @property
    def label(self) -> str:
        kind = str(self.memory.type).replace("_", " ")
        return f"{kind} of {who}" if (who := said_by(self.memory).get("speaker")) else kind


def found_memories(known: ChatMemories, query: Query, likes: Vectors | None, least: float) -> list[MemoryHit]:
    """Memories that share a word with the query or have at least the likeness `least` (`likes`: of each), created in the query's time; best
    first."""
    shares = known.index.shares(query.text)
    found = []
    for at, memory in enumerate(known.every):
        like = math.nan if likes is None else float(likes[at])
        early = query.since is not None and memory.created < query.since
        late = query.until is not None and memory.created >= query.until
        gone = memory.memory_id in known.hidden or memory.memory_id in known.superseded
        if not (early or late or gone) and (at in shares or like >= least):
            meaning = None if math.isnan(like) else min(1.0, max(0.0, like))
            found.append(MemoryHit(memory, shares.get(at, 0.0), meaning))
    return sorted(found, key=lambda hit: (-hit.score, -hit.memory.created))


def among(turns: Sequence[Hit], memories: Sequence[MemoryHit], k: int) -> list[Hit | MemoryHit]:
    """The first `k` of both: the turns in their order, each memory after the turns with a better score."""
    placed = [(sum(turn.score > one.score for turn in turns), one) for one in memories]
    rows: list[Hit | MemoryHit] = []
    for at, turn in enumerate(turns):
        rows += [one for place, one in placed if place == at]
        rows.append(turn)
    return [*rows, *(one for place, one in placed if place == len(turns))][:k]


def memory_json(hit: MemoryHit, zone: ZoneInfo) -> dict[str, Any]:
    """A memory as JSON, in the form of a turn's `hit_json`; `turn_ids` are those it comes from."""
    memory = hit.memory
    meaning = None if hit.meaning is None else round(hit.meaning, 4)
    return {
        "kind": "memory",
        "number": memory.number,
        "type": str(memory.type),
        "label": hit.label,
        "turn_ids": memory.sources,
        "timestamp": memory.created,
        "date": datetime.fromtimestamp(memory.created, zone).isoformat(timespec="seconds"),
        "deadline": memory.deadline,
        "score": round(hit.score, 4),
        "scores": {"words": round(hit.words, 4), "meaning": meaning},
        "text": memory.text,
        **said_by(memory),
    }
