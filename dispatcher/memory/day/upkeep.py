"""What consolidation does with the day store: turns are added, get vectors and summaries, and are removed once the release has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shared.turns.records import Turn

if TYPE_CHECKING:
    from dispatcher.memory.day.parts import DayParts
    from dispatcher.memory.session_summary import SummaryWriter

#: How long the record of an action is stored: as long as its task may be repeated. Seconds.
ACTIONS_KEPT_SECONDS = 8 * 86_400.0
#: Memories that are embedded before it is looked whether somebody asks.
MEMORIES_AT_ONCE = 8


class DayUpkeep:
    """Thread-safe. StoreUnavailable if the store cannot be reached; every method may be repeated."""

    def __init__(self, day: DayParts, writer: SummaryWriter | None) -> None:
        self._day, self._writer = day, writer

    def store_turns(self, turns: Sequence[Turn]) -> None:
        """Store turns in the day store, except forgotten ones (even if that happens meanwhile); their vectors come later, by `embed_missing`."""
        from dispatcher.memory.store.turns import StoredTurn

        remaining = [turn for turn in turns if not self._day.forgotten.covers(turn)]
        self._day.turns.store([StoredTurn(turn) for turn in remaining])
        for turn in remaining:
            if self._day.forgotten.covers(turn):
                self._day.forget_copies(turn.chat_id, [turn.turn_id])

    def embed_missing(self, limit: int, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Embed what has no vector of the current model, some at a time, as long as `may_go_on`."""
        for _ in range(0, limit, MEMORIES_AT_ONCE):
            if not may_go_on():
                return
            if not self._day.remembering.embed_missing(MEMORIES_AT_ONCE):
                break
        self._day.day_turns.embed_missing(limit, may_go_on)

    def summarise_session(self, chat_id: str, session: str, turns: Sequence[Turn]) -> None:
        """Store the session's summary, once; it replaces one that was made while the session was still going on."""
        from dispatcher.memory.session_summary import SummaryWriter
        from dispatcher.memory.store.summaries import SessionSummary
        from shared.text.format import tokens

        text = (self._writer or SummaryWriter(self._day.settings)).write(turns)
        times, turn_ids = [turn.timestamp for turn in turns], tuple(turn.turn_id for turn in turns)
        size = sum(tokens(turn.content) for turn in turns)
        summaries = self._day.summaries
        summaries.store(
            SessionSummary(chat_id, session, text, min(times), max(times), time.time(), turn_ids, tokens=size)
        )
        if any(self._day.forgotten.covers(turn) for turn in turns):  # while it was written
            self._day.forget_copies(chat_id, turn_ids)
            return
        earlier = [one for one in summaries.containing(chat_id, turn_ids[:1]) if one.session == session]
        summaries.remove(chat_id, [one.summary_id for one in earlier if set(one.turn_ids) < set(turn_ids)])

    def prune(self, before: float) -> None:
        """Remove older turns that are in the current release, and records of actions whose task cannot be repeated."""
        self._day.actions.prune(time.time() - ACTIONS_KEPT_SECONDS)
        with self._day.read_release() as release:
            if release is not None:
                self._day.turns.prune(before, release.holds)
