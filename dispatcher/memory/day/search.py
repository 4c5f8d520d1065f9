"""One search of a chat for people: turns of the release and of the day, and typed memories, best first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dispatcher.memory.tombstones import hidden_by
from dispatcher.memory.typed.memories import SHOWN_LIKENESS
from dispatcher.memory.typed.search import MemoryHit, among, found_memories
from shared.errors import InvalidInput, ReleaseRefused, StoreUnavailable
from shared.release.manifest import no_release
from shared.search.types import Query

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.day.open_memory import OpenedMemory
    from shared.config.settings import Settings
    from shared.search.day_items import DayItems
    from shared.search.types import Hit, Recalled


@dataclass(frozen=True)
class SearchResult:
    """The hits of a search, and where it looked."""

    recalled: Recalled
    run: int | None  # of the release
    today: bool
    rows: list[Hit | MemoryHit] = field(default_factory=list)  # turns and typed memories


def find(memory: OpenedMemory, settings: Settings, query: Query) -> SearchResult:
    """The best of the release's and the day's turns and of the memories, as many as the query asks for.

    Reads the day's turns and the hidden ones itself. Finds nothing that is forgotten; InvalidInput if nothing is stored anywhere.
    """
    memory.release()
    memory.open_vectors()
    return find_in(memory, settings, query)


def find_in(memory: OpenedMemory, settings: Settings, query: Query) -> SearchResult:
    """The same, for one chat after another: the vectors, where there are any, are open by now."""
    release, day = memory.release(), memory.day
    if release:
        release.open_texts()
    if release and release.text_missing:
        raise ReleaseRefused(release.text_missing)
    hidden = hidden_by(day.forgotten.of(query.chat_id))
    items, notes = _items(day, query.chat_id)
    today = day.wanted and not notes
    memories = day.remembering.of_chat(query.chat_id) if today else None
    if release is None:
        if not items and not (memories and memories.memories):
            raise InvalidInput(no_release(settings.hmem_memory_dir))
        notes = [no_release(settings.hmem_memory_dir), *notes]
    recalled = day.search(release, replace(query, day=items, hidden=hidden))
    recalled = replace(recalled, degraded=recalled.degraded + notes)
    found: list[MemoryHit] = []
    if memories:
        found = found_memories(memories, query, day.remembering.likenesses(memories, query.text), SHOWN_LIKENESS)
    return SearchResult(recalled, release.run if release else None, today, among(recalled.hits, found, query.k))


def _items(day: DayMemory, chat_id: str) -> tuple[DayItems | None, list[str]]:
    """(the chat's turns of the day, why they are not available)."""
    try:
        return day.items(chat_id) if day.wanted else None, []
    except StoreUnavailable as error:
        return None, [f"no memory of the day: {error}"]
