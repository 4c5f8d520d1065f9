"""What consolidation does with the medium store: turns go in, get vectors and summaries, and leave again once the release has them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dispatcher.memory.day.stores import DayStores
from dispatcher.memory.tombstones import Forgotten
from shared.turns.records import Turn

if TYPE_CHECKING:
    from dispatcher.memory.session_summary import SummaryWriter
    from dispatcher.memory.today import DayTurns
    from dispatcher.memory.typed.memories import Remembering
    from dispatcher.releases.served import ReadRelease

#: An action's note is kept as long as its task may come again.
ACTIONS_KEPT_SECONDS = 8 * 86_400.0


class DayUpkeep:
    """Thread-safe. StoreUnavailable where the store cannot be reached; every method may be repeated."""

    def __init__(self, stores: DayStores, day_turns: DayTurns, remembering: Remembering, forgotten: Forgotten) -> None:
        self._stores, self._day_turns, self._remembering, self._forgotten = stores, day_turns, remembering, forgotten

    def store_turns(self, turns: Sequence[Turn]) -> None:
        """Into the medium store, with vectors where there is an embedder; what is forgotten, also meanwhile, stays out."""
        kept = [turn for turn in turns if not self._forgotten.covers(turn)]
        self._day_turns.store(kept)
        for turn in kept:
            if self._forgotten.covers(turn):
                self._stores.forget_copies(turn.chat_id, [turn.turn_id])

    def embed_missing(self, limit: int) -> None:
        """Vectors for what has none of the present model."""
        self._remembering.embed_missing(limit)
        self._day_turns.embed_missing(limit)

    def summarise_session(self, chat_id: str, session: str, turns: Sequence[Turn], writer: SummaryWriter) -> None:
        """Its summary into the store, once; one that was made while the session still went on makes way for it."""
        from dispatcher.memory.store.summaries import SessionSummary
        from shared.text.format import tokens

        text = writer.write(turns)
        times, turn_ids = [turn.timestamp for turn in turns], tuple(turn.turn_id for turn in turns)
        size = sum(tokens(turn.content) for turn in turns)
        summaries = self._stores.summaries
        summaries.store(
            SessionSummary(chat_id, session, text, min(times), max(times), time.time(), turn_ids, tokens=size)
        )
        if any(self._forgotten.covers(turn) for turn in turns):  # while it was written
            self._stores.forget_copies(chat_id, turn_ids)
            return
        earlier = [one for one in summaries.containing(chat_id, turn_ids[:1]) if one.session == session]
        summaries.remove(chat_id, [one.summary_id for one in earlier if set(one.turn_ids) < set(turn_ids)])

    def prune(self, before: float, read_release: ReadRelease) -> None:
        """Turns older than that which the release in use holds; notes of actions whose task cannot come again."""
        self._stores.actions.prune(time.time() - ACTIONS_KEPT_SECONDS)
        with read_release() as release:
            if release is not None:
                self._stores.turns.prune(before, release.holds)
