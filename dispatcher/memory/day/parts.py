"""What the day's memory is built of: its tables, the embedder, the tombstone filter, and what is read, searched and changed by them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.relevance import says_again
from dispatcher.memory.tombstones import Forgotten
from shared.config.settings import Settings
from shared.errors import ReleaseRefused

if TYPE_CHECKING:
    from dispatcher.memory.hooks import Coming
    from dispatcher.memory.store.actions import Actions
    from dispatcher.memory.store.database import Database
    from dispatcher.memory.store.event_outbox import EventOutbox
    from dispatcher.memory.store.feature_rows import FeatureRows
    from dispatcher.memory.store.memories import Memories
    from dispatcher.memory.store.summaries import Summaries
    from dispatcher.memory.store.turns import Turns
    from dispatcher.memory.today import DayTurns
    from dispatcher.memory.typed.memories import Remembering
    from dispatcher.releases.served import ReadRelease
    from shared.search.day_items import DayItems
    from shared.search.recall import DayRecall, OpenRelease
    from shared.search.types import Query, Recalled
    from shared.turns.records import Turn

#: How many turns are checked for repetitions when a memory is forgotten.
REPETITIONS = 200


class DayStores:
    """One database and its tables. Thread-safe; StoreUnavailable if the store cannot be reached."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def database(self) -> Database:
        from dispatcher.memory.store.database import Database

        return Database(self.settings.day_store_url, self.settings.hmem_state_dir)

    @cached_property
    def turns(self) -> Turns:
        from dispatcher.memory.store.turns import Turns

        return Turns(self.database)

    @cached_property
    def summaries(self) -> Summaries:
        from dispatcher.memory.store.summaries import Summaries

        return Summaries(self.database)

    @cached_property
    def memories(self) -> Memories:
        from dispatcher.memory.store.memories import Memories

        return Memories(self.database)

    @cached_property
    def actions(self) -> Actions:
        from dispatcher.memory.store.actions import Actions

        return Actions(self.database)

    @cached_property
    def of_features(self) -> list[FeatureRows]:
        from dispatcher.memory.hooks import feature_tables
        from dispatcher.memory.store.feature_rows import FeatureRows

        return [FeatureRows(self.database, one) for one in feature_tables()]

    def coming(self, chats: Collection[str] | None, until: float) -> list[Coming]:
        """What features know to be due up to this time in these chats (None: in all), the next first."""
        with self.database.reading() as connection:
            found = [one for rows in self.of_features for one in rows.of.coming(connection, chats, until)]
        return sorted(found, key=lambda one: one.at)

    def forget_copies(self, chat_id: str, turn_ids: Collection[str]) -> None:
        """Remove forgotten turns from the store, with the summaries made of them."""
        if not turn_ids:
            return
        self.turns.remove(chat_id, turn_ids)
        made_of_them = self.summaries.containing(chat_id, turn_ids)
        self.summaries.remove(chat_id, [summary.summary_id for summary in made_of_them])

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        if "database" in self.__dict__:
            self.database.close()

    @cached_property
    def event_outbox(self) -> EventOutbox:
        from dispatcher.memory.store.event_outbox import EventOutbox

        return EventOutbox(self.database)


class DayParts(DayStores):
    """Thread-safe. `read_release` returns the release to read together with the day."""

    def __init__(self, settings: Settings, read_release: ReadRelease) -> None:
        super().__init__(settings)
        self.embedder = DayEmbedder(settings)
        self.forgotten = Forgotten(settings.hmem_state_dir)
        #: A chat's time zone; a dispatcher replaces it, because a chat may choose its own (/timezone).
        self.zone_of: Callable[[str], ZoneInfo] = lambda _: settings.timezone
        self.read_release = read_release

    @property
    def wanted(self) -> bool:
        return self.settings.has_day_store

    @cached_property
    def remembering(self) -> Remembering:
        from dispatcher.memory.typed.memories import Remembering

        return Remembering(self.memories, self.embedder, self.forgotten)

    @cached_property
    def recall(self) -> DayRecall:
        from shared.search.recall import DayRecall

        return DayRecall(self.settings)

    @cached_property
    def day_turns(self) -> DayTurns:
        from dispatcher.memory.today import DayTurns

        return DayTurns(self.settings, self.embedder, self.turns, self.summaries, self.recall)

    def close(self) -> None:
        if "recall" in self.__dict__:
            self.recall.close()
        super().close()
        self.embedder.close()

    def renew(self) -> None:
        """Drop everything that was read or searched so far. Running reads finish with what they started with."""
        for name in ("remembering", "recall", "day_turns"):
            self.__dict__.pop(name, None)  # each is built on the ones before it
        self.embedder.renew()
        super().close()

    def items(self, chat_id: str) -> DayItems | None:
        """The chat's turns of the day, and summaries that became searchable; the same object until something changes."""
        return self.day_turns.today(chat_id).items

    def search(self, release: OpenRelease | None, query: Query) -> Recalled:
        """Hits of the release, if there is one, and of the query's day."""
        from shared.search.types import Recalled

        if release is None and not query.day:
            return Recalled()
        embed_query = None if self.settings.without_vectors else self.embedder.query
        return (release or self.recall).recall(query, embed_query)

    def read_turns(self, chat_id: str, turn_ids: Sequence[str]) -> dict[str, Turn]:
        """The known ones of these turns, by id: from the day store, else from the release, unless that cannot be read."""
        found = {stored.turn.turn_id: stored.turn for stored in self.turns.named(chat_id, turn_ids)}
        if missing := [one for one in turn_ids if one not in found]:
            with self.read_release() as release, suppress(ReleaseRefused):
                found |= release.turns(chat_id, missing) if release else {}
        return found

    def repeating(self, chat_id: str, text: str) -> list[str]:
        """Turns of release and day that repeat a memory, as far as a search for it finds them."""
        from shared.search.types import Query

        query = Query(chat_id, text, REPETITIONS, day=self.items(chat_id))
        with self.read_release() as release:
            hits = self.search(release, query).hits
        again = [hit for hit in hits if any(says_again(text, saying) for saying in hit.chunk.sayings)]
        return [one for hit in again for one in (*hit.chunk.turn_ids, *hit.also)]
