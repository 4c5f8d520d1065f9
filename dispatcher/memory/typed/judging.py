"""How a new memory relates to the stored ones: a repetition, another wording of one, the correction of some, or a new one.

Vectors select the candidates, and words decide (contradiction.py). Without vectors all memories are candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dispatcher.memory.typed.comparing.contradiction import Relation, relation
from shared.embedding.known_models import likeness
from shared.ranking.question import query_words

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.store.memories import Memories, Memory
    from shared.embedding.models import Vectors

#: The likeness (shared/embedding/known_models.py) below which two memories are about different things. All 40 pairs of tests/data/fact_pairs.jsonl
#: that repeat or correct each other are above it.
NEAR_LIKENESS = 0.4


@dataclass(frozen=True)
class Verdict:
    """`same`: a memory that already says it, `verbatim` in the same words; `corrected`: the memories that it contradicts."""

    same: Memory | None = None
    verbatim: bool = False
    corrected: tuple[Memory, ...] = ()


def judged(
    known: Sequence[Memory], vectors: Vectors | None, text: str, vector: Vectors | None, family: str | None
) -> Verdict:
    """How a text relates to the valid memories of its type; `vectors` are theirs, of shape (n, dimensions), NaN for a missing one. `family`: of the
    model that made the vectors."""
    words = spoken(text)
    for memory in known:
        if any(spoken(one) == words for one in memory.texts):
            return Verdict(memory, verbatim=True)
    corrected: list[Memory] = []
    for at, cosine in _near(len(known), vectors, vector, family):
        memory = known[at]
        found = relation(memory.text, text, cosine, preference=memory.type == "preference")
        if found is Relation.SAME:
            return Verdict(memory)
        if found is Relation.CORRECTS:
            corrected.append(memory)
    return Verdict(corrected=tuple(corrected))


def spoken(text: str) -> tuple[str, ...]:
    """A key that two texts share if they differ only in case and punctuation."""
    return tuple(query_words(text)) or (text.strip(),)


def _near(
    count: int, vectors: Vectors | None, vector: Vectors | None, family: str | None
) -> list[tuple[int, float | None]]:
    """(position, likeness) of the candidates, the nearest first, then those without a vector."""
    import numpy as np

    if vectors is None or vector is None:
        return [(at, None) for at in range(count)]
    cosines = likeness(vectors @ vector, family)
    near = sorted((cosines >= NEAR_LIKENESS).nonzero()[0].tolist(), key=lambda at: -float(cosines[at]))
    return [(at, float(cosines[at])) for at in near] + [(at, None) for at in np.isnan(cosines).nonzero()[0].tolist()]


@dataclass(frozen=True, eq=False)
class Draft:
    """An entry of an imported list: a memory that is not stored yet, or (`made` None) another wording of `same`.

    `over`: older memories that it contradicts; `under`: a newer one. All of them may be in the same list.
    """

    text: str
    made: Memory | None = None
    same: Memory | None = None
    over: tuple[Memory, ...] = ()
    under: Memory | None = None


@dataclass(eq=False)
class Drafting:
    """Judges a list entry by entry, each against the stored memories and the entries before it."""

    known: list[Memory]
    vectors: Vectors | None  # of the stored memories, (n, dimensions)
    family: str | None  # of the model that made them
    replaced: Sequence[Memory] = ()  # memories that were already superseded
    made: list[Draft] = field(default_factory=list)
    _added: list[Vectors] = field(default_factory=list)

    def add(
        self, text: str, created: float, vector: Vectors | None, make: Callable[[], Memory], *, dated: bool
    ) -> None:
        """`dated`: the list has its creation time. An undated entry with the words of a superseded memory adds nothing."""
        import numpy as np

        words = spoken(text)
        for one in self.replaced:
            if words in map(spoken, one.texts) and (not dated or created <= (one.superseded_at or one.created)):
                return
        table = self.vectors
        if table is not None and self._added:
            table = np.concatenate([table, np.stack(self._added)])
        verdict = judged(self.known, table, text, vector, self.family)
        if verdict.same:
            if not verdict.verbatim and text not in verdict.same.wordings:
                self.made.append(Draft(text, same=verdict.same))
            return
        memory = make()
        newer = next((one for one in verdict.corrected if one.created > created), None)
        over = tuple(one for one in verdict.corrected if one.created <= created) if newer is None else ()
        self.made.append(Draft(text, memory, None, over, newer))
        if newer is None:
            self._replace(over, memory, vector)

    def _replace(self, over: Sequence[Memory], memory: Memory, vector: Vectors | None) -> None:
        import numpy as np

        for one in over:
            at = next(at for at, other in enumerate(self.known) if other is one)
            del self.known[at]
            if self.vectors is not None and at < len(self.vectors):
                self.vectors = np.delete(self.vectors, at, axis=0)
            elif self.vectors is not None:
                del self._added[at - len(self.vectors)]
        self.known.append(memory)
        if self.vectors is not None:
            nothing = np.full(self.vectors.shape[1], np.nan, np.float32)
            self._added.append(nothing if vector is None else vector)


def store_drafts(store: Memories, chat_id: str, drafts: Sequence[Draft], connection: Connection) -> None:
    """Write a judged list, all in the caller's transaction."""
    stored: dict[int, Memory] = {}

    def as_stored(memory: Memory) -> Memory:
        return stored.get(id(memory), memory)

    more: dict[int, list[str]] = {}
    for draft in drafts:
        if draft.made is None:
            if draft.same:
                same = as_stored(draft.same)
                wordings = more.setdefault(same.memory_id, list(same.wordings))
                wordings += [draft.text] if draft.text not in wordings else []
            continue
        stored[id(draft.made)] = new = store.add(chat_id, draft.made, connection=connection)
        for one in draft.over:
            store.supersede(chat_id, as_stored(one).memory_id, new.memory_id, new.created, connection=connection)
        if draft.under:
            newer = as_stored(draft.under)
            store.supersede(chat_id, new.memory_id, newer.memory_id, newer.created, connection=connection)
    for memory_id, wordings in more.items():
        store.set_wordings(chat_id, memory_id, wordings, connection=connection)


def as_json(memory: Memory, newer: Mapping[int, int]) -> dict[str, Any]:
    """A memory for `--json`; `newer`: id of a superseded memory → number of its successor."""
    left_out: tuple[str, ...] = ("chat_id", "memory_id", "embedding")
    by = newer.get(memory.memory_id)
    since = memory.superseded_at if by else None
    left_out += () if memory.user_id else ("user_id", "name")
    fields = {name: value for name, value in vars(memory).items() if name not in left_out}
    return fields | {"superseded_by": by, "superseded_at": since, "valid": by is None}
