"""The day's turns in memory: turns since the last night, as items of the same form as in a release, to be ranked together with them.

A turn is cut, labelled and tokenised here by the same functions as at night (chunking.py, chat_items.py), so that nothing about
its rank changes when the night takes it into the release. Its vector is centred and rounded as those of the release are, for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from shared.embedding.centring import centre_of, centred, whole
from shared.ranking.question import asks, tells_time
from shared.ranking.scoring import Array, Integers, Posting
from shared.ranking.tokeniser import Tokeniser
from shared.turns.chunk import Chunk, turn_order
from shared.turns.chunking import chunks_of, indexed_text
from shared.turns.records import Turn

#: Vectors as they lie on disk, in the store and (rounded) in a release's index.
STORED, ROUNDED = np.dtype("<f4"), np.dtype("<f2")


@dataclass(eq=False)
class DayTurn:
    """A chunk of a turn of the day, the text that is searched, and its unit vector of shape (dimensions,), if there is one."""

    chunk: Chunk
    indexed: str
    vector: Array | None = None
    #: Its terms with how often each stands there; None until it has been read, once, by the first items that it is one of.
    counts: dict[str, int] | None = None

    @cached_property
    def flags(self) -> tuple[bool, bool]:
        """Whether it ends as a question, and tells a time."""
        return asks(self.chunk.text), tells_time(self.chunk.text)


def day_turns(turn: Turn, zone: ZoneInfo, embedding: bytes | None = None, dimensions: int = 0) -> list[DayTurn]:
    """The chunks of one turn; none if nothing readable is left of it.

    `embedding` is what `embedding_of` made of the vectors of their embedded texts, in this order; one of another size is left out: the model
    or the chunker has changed since.
    """
    chunks = chunks_of(turn)
    vectors: Sequence[Array | None] = [None] * len(chunks)
    if embedding and len(embedding) == len(chunks) * dimensions * STORED.itemsize:
        rows = np.frombuffer(embedding, STORED).reshape(len(chunks), dimensions)
        vectors = [None if np.isnan(row).any() else row for row in rows]
    return [DayTurn(chunk, indexed_text(chunk, zone), vector) for chunk, vector in zip(chunks, vectors, strict=True)]


def embedding_of(vectors: Sequence[Array | None]) -> bytes | None:
    """A turn's vectors, one for each of its chunks, as bytes for a store: float32, little endian; NaN for a text that has none.

    None if no chunk has one: there is nothing to keep.
    """
    known = next((vector for vector in vectors if vector is not None), None)
    if known is None:
        return None
    nothing = np.full(len(known), np.nan, STORED)
    return b"".join((nothing if one is None else np.asarray(one, STORED)).tobytes() for one in vectors)


@dataclass(frozen=True, eq=False, kw_only=True)
class DayItems:
    """One chat's turns of the day, in the order of time; arrays of shape (n,). Never changed: a new turn makes new items."""

    chat_id: str
    turns: tuple[DayTurn, ...]
    counts: Sequence[Mapping[str, int]]  # of the terms of each
    starts: NDArray[np.float64]  # POSIX seconds
    lengths: Array  # characters
    tokens: Array
    asks: Array
    timed: Array
    #: By number of dimensions: rows, and their vectors of shape (rows, dimensions).
    vectors: Mapping[int, tuple[Integers, Array]]

    @classmethod
    def of(cls, chat_id: str, turns: Iterable[DayTurn], tokeniser: Tokeniser) -> DayItems:
        """The chat's items, in any order given; of a chunk that is given twice the last one counts. Turns that were read already are not read again:
        two more of 200 take 1.5 ms, 200 anew 30 ms. ValueError if a chunk belongs to another chat."""
        distinct = {turn.chunk.chunk_id: turn for turn in turns}
        if strange := next((turn.chunk for turn in distinct.values() if turn.chunk.chat_id != chat_id), None):
            raise ValueError(
                f"Chunk {strange.chunk_id} belongs to another chat than {chat_id!r}: the day's turns must be read by chat."
            )
        ordered = tuple(
            sorted(distinct.values(), key=lambda turn: (turn.chunk.started_at, turn_order(turn.chunk.chunk_id)))
        )
        counts = _read(ordered, tokeniser)
        return cls(
            chat_id=chat_id,
            turns=ordered,
            counts=counts,
            starts=np.array([turn.chunk.started_at for turn in ordered], np.float64),
            lengths=np.array([len(turn.chunk.text) for turn in ordered], np.float32),
            tokens=np.array([sum(one.values()) for one in counts], np.float32),
            asks=np.array([turn.flags[0] for turn in ordered], np.float32),
            timed=np.array([turn.flags[1] for turn in ordered], np.float32),
            vectors=_stacked(ordered),
        )

    def __len__(self) -> int:
        return len(self.turns)

    def postings(self, terms: Sequence[str]) -> dict[str, Posting]:
        """Where these terms stand among the items; missing ones are left out."""
        found: dict[str, Posting] = {}
        for term in terms:
            at = [row for row, counts in enumerate(self.counts) if term in counts]
            if at:
                counts = [self.counts[row][term] for row in at]
                found[term] = np.array(at, np.int32), np.array(counts, np.uint16)
        return found

    def similarities(self, vector: Array, centre: Array | None) -> Array:
        """Similarity of each item to a unit vector of shape (dimensions,), compared without `centre`, told as a cosine of whole vectors; NaN where
        it has no vector of as many dimensions. `centre` is the release's; without one that of these items counts."""
        out = np.full(len(self), np.nan, np.float32)
        rows, vectors = self.vectors.get(len(vector), (None, None))
        if rows is not None and vectors is not None:
            centre = centre_of(vectors) if centre is None else centre
            stored = centred(vectors, centre).astype(ROUNDED).astype(np.float32)
            out[rows] = whole(stored @ centred(vector, centre), vector, centre)
        return out


def _read(turns: Sequence[DayTurn], tokeniser: Tokeniser) -> list[dict[str, int]]:
    """The terms of each; new ones are read all at once."""
    new = [turn for turn in turns if turn.counts is None]
    read: list[dict[str, int]] = [{} for _ in new]
    for term, (places, often) in tokeniser.postings([turn.indexed for turn in new]) if new else ():
        for place, count in zip(places.tolist(), often.tolist(), strict=True):
            read[place][term] = count
    for turn, counts in zip(new, read, strict=True):
        turn.counts = counts
    return [turn.counts or {} for turn in turns]


def _stacked(turns: Sequence[DayTurn]) -> dict[int, tuple[Integers, Array]]:
    """The vectors by their number of dimensions: those of two models never meet."""
    found: dict[int, list[tuple[int, Array]]] = {}
    for row, turn in enumerate(turns):
        if turn.vector is not None:
            found.setdefault(len(turn.vector), []).append((row, turn.vector))
    return {
        dimensions: (
            np.array([row for row, _ in those], np.int32),
            np.stack([vector for _, vector in those]).astype(np.float32),
        )
        for dimensions, those in found.items()
    }
