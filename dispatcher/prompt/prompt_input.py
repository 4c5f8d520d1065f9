"""Everything for the memory text of one message, before it is cut to the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from dispatcher.memory.session_history import HistoryEntry
    from shared.search.types import Hit, Recalled
    from shared.turns.speakers import Speaker


@dataclass(frozen=True)
class PromptInput:
    """What `compose` fits into `budget` tokens.

    `hits` are those worth injecting, best first (None: all that were recalled), `no_recall_reason` is why none is, and `no_recall_plain` the
    same for the chat; `decision_reason`: what was decided, and by which evidence; `by_time`: hits are injected because of their time; `searched`:
    turns were looked up. `message`: what long passages are cut to the matching sentences of ("": they stay whole). `recent` is None if a session has
    the conversation; `profile` is what holds for who asks, `earlier` sums up earlier sessions, `facts` are memories that bear on this message.
    `summary_at` is ISO 8601 in the zone.
    """

    recalled: Recalled
    summary: str = ""
    _: KW_ONLY
    budget: int
    zone: ZoneInfo
    run: int | None  # of the release
    hits: Sequence[Hit] | None = None
    no_recall_reason: str | None = None
    no_recall_plain: str | None = None
    decision_reason: str | None = None
    by_time: bool = False
    searched: bool = True
    message: str = ""
    recent: Sequence[HistoryEntry] | None = None
    profile: str = ""
    earlier: str = ""
    facts: str = ""
    summary_at: str | None = None

    @property
    def injected(self) -> list[Hit]:
        """The hits to inject, best first."""
        if self.no_recall_reason:
            return []
        return list(self.recalled.hits if self.hits is None else self.hits)

    @property
    def speakers(self) -> tuple[Speaker, ...]:
        """Everyone in the chat."""
        return self.recalled.speakers
