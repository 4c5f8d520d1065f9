"""What a vector index must do. Building is a function of the module, searching an object opened on one release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from shared.ranking import Match

if TYPE_CHECKING:
    from shared.embedding import Vectors


class MemoryBackend(Protocol):
    """Vector lookup in one release. The chat id is required: there is no unscoped search."""

    def search(self, query: str, chat_id: str, k: int) -> list[Match]:
        """The chat's nearest chunks, best first; score is the cosine similarity. Empty for an unknown chat."""
        ...

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        """Cosine similarity of each of these chunks, shape (n,); NaN where the chat's index has no vector for it, or does not tell."""
        ...

    def vector(self, query: str) -> Vectors | None:
        """The question's unit vector, shape (dimensions,), embedded as the release was, and once for all methods; None where nothing is open."""
        ...

    def is_available(self) -> bool:
        """Whether a search would be answered; `why_not` says what is missing."""
        ...

    @property
    def why_not(self) -> str | None: ...

    def open(self) -> None:
        """Do what is slow (imports, loading a model, opening files) before the first search. Never raises: see `why_not`."""
        ...

    def close(self) -> None: ...
