"""A list of memories that is imported: what of it is new, and what says again what is known. Nothing of it replaces anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.memory.typed.duplicates import judged, spoken_words

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.store.memories import Memories, Memory
    from shared.embedding.models import Vectors


@dataclass(frozen=True, eq=False)
class Draft:
    """An entry of a list: a memory that is not stored yet, or (`made` None) another wording of `same`, which may be of the same list."""

    text: str
    made: Memory | None = None
    same: Memory | None = None


@dataclass(frozen=True)
class Entry:
    """A text with its vector, and what makes a memory of it. `dated`: the list has its time of creation (POSIX seconds)."""

    text: str
    created: float
    dated: bool
    vector: Vectors | None
    make: Callable[[], Memory]


def drafted(
    entries: Sequence[Entry],
    known: Sequence[Memory],
    vectors: Vectors | None,
    family: str | None,
    replaced: Sequence[Memory] = (),
) -> list[Draft]:
    """Judge a list entry by entry, each against the valid memories and the entries before it; `vectors` are of `known`, shape (n, dimensions), made
    by a model of this family. `replaced`: superseded memories; an undated entry in their words adds nothing."""
    import numpy as np

    found, among, rows = list[Draft](), list(known), None if vectors is None else list(vectors)
    for entry in entries:
        if any(_is_old(entry, one) for one in replaced):
            continue
        verdict = judged(among, np.stack(rows) if rows else None, entry.text, entry.vector, family)
        if verdict.same is None:
            made = entry.make()
            found.append(Draft(entry.text, made))
            among.append(made)
            if rows is not None and vectors is not None:
                rows.append(np.full(vectors.shape[1], np.nan, np.float32) if entry.vector is None else entry.vector)
        elif not verdict.verbatim and entry.text not in verdict.same.wordings:
            found.append(Draft(entry.text, same=verdict.same))
    return found


def _is_old(entry: Entry, one: Memory) -> bool:
    words = spoken_words(entry.text)
    same = any(spoken_words(text) == words for text in one.texts)
    return same and (not entry.dated or entry.created <= (one.superseded_at or one.created))


def store_drafts(store: Memories, chat_id: str, drafts: Sequence[Draft], connection: Connection) -> None:
    """Write a judged list, all in the caller's transaction."""
    stored: dict[int, Memory] = {}
    wordings: dict[int, list[str]] = {}
    for draft in drafts:
        if draft.made is not None:
            stored[id(draft.made)] = store.add(chat_id, draft.made, connection=connection)
        elif draft.same is not None:
            same = stored.get(id(draft.same), draft.same)
            known = wordings.setdefault(same.memory_id, list(same.wordings))
            known += [draft.text] if draft.text not in known else []
    for memory_id, texts in wordings.items():
        store.set_wordings(chat_id, memory_id, texts, connection=connection)
