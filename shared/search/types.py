"""What recall is asked and what it answers: plain data, light to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.ranking.question import WEIGHTS

if TYPE_CHECKING:
    from shared.ranking.injection import Evidence
    from shared.ranking.scoring import Array
    from shared.search.day_items import DayItems
    from shared.turns.chunk import Chunk
    from shared.turns.speakers import Speaker

#: The unit vector of a query, shape (dimensions,), as the day embeds; None while its embedder is unavailable.
EmbedQuery = Callable[[str], "Array | None"]


@dataclass(frozen=True)
class HiddenTurns:
    """What was forgotten since the release was built: these turns, and all before a time (POSIX seconds). It counts as never said."""

    turn_ids: frozenset[str] = frozenset()
    before: float | None = None

    def __bool__(self) -> bool:
        return bool(self.turn_ids) or self.before is not None

    def covers(self, chunk: Chunk) -> bool:
        earlier = self.before is not None and chunk.started_at < self.before
        return earlier or not self.turn_ids.isdisjoint(chunk.turn_ids)


@dataclass(frozen=True)
class Query:
    """One question to one chat: the `k` chunks of it that say most about `text`.

    `now` (POSIX seconds, None for the clock) is what "last week" counts from; without `deadline_seconds` the vectors get all the time they need.
    `day` are turns that may not be in the release yet; those that are count once. `known` (turn ids) are ranked and not returned, and so is
    what was not said from `since` on and before `until` (POSIX seconds).
    """

    chat_id: str
    text: str
    k: int
    deadline_seconds: float | None = None
    now: float | None = None
    day: DayItems | None = None
    hidden: HiddenTurns = HiddenTurns()
    known: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True)
class Hit:
    """A recalled chunk and the question it answers.

    `rank` is what it is ranked by, and means nothing beside another query's; `scores` are the parts that add up to it, and the raw signals
    `bm25` and `cosine`. `lexical` and `vector` are bm25 and cosine as shares of the chat's best (0 to 1); None where no word of the query is
    near, or no vector was asked. `words` is the share of the query's words that stand in it (0 to 1, by their rarity), None for a query
    without any. `also` are the turns that say the same, `mark` tells its speaker from another of that name.
    """

    chunk: Chunk
    rank: float
    lexical: float | None
    vector: float | None
    question: str | None
    scores: dict[str, float] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    words: float | None = None
    mark: str = ""

    @property
    def who(self) -> str:
        """Who said it, as people and models read it."""
        return self.chunk.who(self.mark)

    @property
    def meaning(self) -> float | None:
        """How near it is to the query: the cosine, 0 to 1; None where no vector was asked."""
        return None if "cosine" not in self.scores else min(1.0, max(0.0, self.scores["cosine"]))

    @property
    def score(self) -> float:
        """What people are shown, 0 to 1 and comparable between queries. It decides no order."""
        return shown_score(self.words, self.meaning)


def shown_score(words: float | None, meaning: float | None) -> float:
    """Words and meaning (0 to 1 each) by their weights in the ranking; one of them alone where the other is not known."""
    if words is None or meaning is None:
        return (words or 0.0) if meaning is None else meaning
    return WEIGHTS.lexical * words + (1 - WEIGHTS.lexical) * meaning


@dataclass(frozen=True)
class Recalled:
    """Hits, best first, what was left out and why, and the time taken in milliseconds; `evidence`: whether they bear on the query."""

    hits: list[Hit] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    ms: float = 0.0
    evidence: Evidence | None = None
    speakers: tuple[Speaker, ...] = ()  # everybody who said what was ranked
