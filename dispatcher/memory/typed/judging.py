"""What a new memory is to those that are kept: nothing new, other words for one, the correction of some, or one more.

Vectors say which are near enough to be looked at, words decide (contradiction.py). Where there is no vector, all are looked at by their words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dispatcher.memory.typed.contradiction import Relation, relation
from shared.ranking.question import query_words

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.store.memories import Memories, Memory
    from shared.embedding.models import Vectors

#: Cosine under which two memories are not about the same thing. Of the pairs of tests/data/fact_pairs.jsonl that repeat or correct one another
#: 40 of 40 are above it.
NEAR_COSINE = 0.4


@dataclass(frozen=True)
class Verdict:
    """`same` says it already, `verbatim` in the same words; `corrected` are those that it contradicts."""

    same: Memory | None = None
    verbatim: bool = False
    corrected: tuple[Memory, ...] = ()


def judged(known: Sequence[Memory], vectors: Vectors | None, text: str, vector: Vectors | None) -> Verdict:
    """What a text is to memories of its type that are valid; `vectors` are theirs, of shape (n, dimensions), NaN where there is none."""
    words = spoken(text)
    for memory in known:
        if any(spoken(one) == words for one in memory.texts):
            return Verdict(memory, verbatim=True)
    corrected: list[Memory] = []
    for at, cosine in _near(len(known), vectors, vector):
        memory = known[at]
        found = relation(memory.text, text, cosine, preference=memory.type == "preference")
        if found is Relation.SAME:
            return Verdict(memory)
        if found is Relation.CORRECTS:
            corrected.append(memory)
    return Verdict(corrected=tuple(corrected))


def spoken(text: str) -> tuple[str, ...]:
    """What tells whether two texts are the same but for case and marks."""
    return tuple(query_words(text)) or (text.strip(),)


def _near(count: int, vectors: Vectors | None, vector: Vectors | None) -> list[tuple[int, float | None]]:
    """(place, cosine) of those that are worth a look, the nearest first, then those without a vector."""
    import numpy as np

    if vectors is None or vector is None:
        return [(at, None) for at in range(count)]
    cosines = vectors @ vector
    near = sorted((cosines >= NEAR_COSINE).nonzero()[0].tolist(), key=lambda at: -float(cosines[at]))
    return [(at, float(cosines[at])) for at in near] + [(at, None) for at in np.isnan(cosines).nonzero()[0].tolist()]


@dataclass(frozen=True, eq=False)
class Draft:
    """One of a list that is imported: a memory that is not stored yet, or (`made` None) other words for `same`.

    `over` are those that it contradicts and that are older, `under` one that is newer. All may be of the same list.
    """

    text: str
    made: Memory | None = None
    same: Memory | None = None
    over: tuple[Memory, ...] = ()
    under: Memory | None = None


@dataclass(eq=False)
class Drafting:
    """Judges a list one by one, each against what is kept and what came before it."""

    known: list[Memory]
    vectors: Vectors | None  # of those that are kept, (n, dimensions)
    replaced: Sequence[Memory] = ()  # those that were superseded before
    made: list[Draft] = field(default_factory=list)
    _added: list[Vectors] = field(default_factory=list)

    def add(
        self, text: str, created: float, vector: Vectors | None, make: Callable[[], Memory], *, dated: bool
    ) -> None:
        """`dated`: the list says when it was said; else it says no more than a superseded memory of these words."""
        import numpy as np

        words = spoken(text)
        for one in self.replaced:
            if words in map(spoken, one.texts) and (not dated or created <= (one.superseded_at or one.created)):
                return
        table = self.vectors
        if table is not None and self._added:
            table = np.concatenate([table, np.stack(self._added)])
        verdict = judged(self.known, table, text, vector)
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
    """Write a list that was judged; all in the caller's transaction."""
    stored: dict[int, Memory] = {}

    def kept(memory: Memory) -> Memory:
        return stored.get(id(memory), memory)

    more: dict[int, list[str]] = {}
    for draft in drafts:
        if draft.made is None:
            if draft.same:
                same = kept(draft.same)
                wordings = more.setdefault(same.memory_id, list(same.wordings))
                wordings += [draft.text] if draft.text not in wordings else []
            continue
        stored[id(draft.made)] = new = store.add(chat_id, draft.made, connection=connection)
        for one in draft.over:
            store.supersede(chat_id, kept(one).memory_id, new.memory_id, new.created, connection=connection)
        if draft.under:
            newer = kept(draft.under)
            store.supersede(chat_id, new.memory_id, newer.memory_id, newer.created, connection=connection)
    for memory_id, wordings in more.items():
        store.told_also(chat_id, memory_id, wordings, connection=connection)


def as_json(memory: Memory, newer: Mapping[int, int]) -> dict[str, Any]:
    """A memory for `--json`; `newer`: id of a superseded one → number of the one that took its place."""
    left_out = ("chat_id", "memory_id", "embedding")
    by = newer.get(memory.memory_id)
    since = memory.superseded_at if by else None
    told = {name: value for name, value in vars(memory).items() if name not in left_out}
    return told | {"superseded_by": by, "superseded_at": since, "valid": by is None}
