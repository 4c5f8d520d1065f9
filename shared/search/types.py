"""Queries and results of recall: plain data, light to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from shared.ranking.injection import Evidence
    from shared.ranking.scoring import Array
    from shared.search.day_items import DayItems
    from shared.turns.chunk import Chunk
    from shared.turns.speakers import Speaker

#: The unit vector of a query, shape (dimensions,), as the day embeds; None while its embedder is unavailable.
EmbedQuery = Callable[[str], "Array | None"]


class HiddenTurns(NamedTuple):
    """What was forgotten since the release was built: these turns, and all before a time (POSIX seconds). They are never returned."""

    turn_ids: frozenset[str] = frozenset()
    before: float | None = None

    def __bool__(self) -> bool:
        return bool(self.turn_ids) or self.before is not None

    def covers(self, chunk: Chunk) -> bool:
        earlier = self.before is not None and chunk.started_at < self.before
        return earlier or not self.turn_ids.isdisjoint(chunk.turn_ids)


NOTHING_HIDDEN = HiddenTurns()


@dataclass(frozen=True)
class Query:
    """One query to one chat: its `k` chunks that are most relevant to `text`.

    `now` (POSIX seconds, None for the clock) is the reference for "last week"; without `deadline_seconds` vector search has no time limit.
    `day` are turns that may not be in the release yet; if they are, they count once. `asker` is who "I" is. `known` turns (ids), and turns outside
    `since` (inclusive) and `until` (exclusive, POSIX seconds), are ranked but not returned. `enough`: by the evidence, how many of
    `k` will do.
    """

    chat_id: str
    text: str
    k: int
    deadline_seconds: float | None = None
    now: float | None = None
    day: DayItems | None = None
    hidden: HiddenTurns = NOTHING_HIDDEN
    known: frozenset[str] = frozenset()
    asker: Speaker | None = None
    since: float | None = None
    until: float | None = None
    enough: Callable[[Evidence], int] | None = None


@dataclass(frozen=True)
class Hit:
    """A recalled chunk and the question that it answers.

    `rank` is the ranking score, not comparable between queries; `scores` are the parts that add up to it, and the raw signals `bm25` and
    `cosine`. `words` is the share of the query's words that occur in it (0 to 1, weighted by rarity), None for a query without words.
    `also` are the turns with the same text; `mark` distinguishes its speaker from another of the same name.
    """

    chunk: Chunk
    rank: float
    question: str | None
    scores: dict[str, float] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    words: float | None = None
    mark: str = ""

    @property
    def who(self) -> str:
        """The speaker, as shown to people and models."""
        return self.chunk.who(self.mark)

    @property
    def meaning(self) -> float | None:
        """Similarity to the query: the cosine, 0 to 1; None if no vector was compared."""
        return None if "cosine" not in self.scores else min(1.0, max(0.0, self.scores["cosine"]))

    @property
    def score(self) -> float:
        """The score that people are shown, 0 to 1 and comparable between queries. It is not used for ranking."""
        return shown_score(self.words, self.meaning)


#: What words count for in the score that people are shown; meaning has the rest.
SHOWN_WORDS = 0.55


def shown_score(words: float | None, meaning: float | None) -> float:
    """Words and meaning (0 to 1 each), weighted; one of them alone if the other is unknown."""
    if words is None or meaning is None:
        return (words or 0.0) if meaning is None else meaning
    return SHOWN_WORDS * words + (1 - SHOWN_WORDS) * meaning


@dataclass(frozen=True)
class Recalled:
    """Hits, best first; what was left out and why; the time taken in milliseconds; `evidence`: whether the hits are relevant to the query."""

    hits: list[Hit] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    ms: float = 0.0
    evidence: Evidence | None = None
    speakers: tuple[Speaker, ...] = ()  # all speakers of the ranked items
