"""No vectors: keyword search and summaries still work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.ranking.question import Match

if TYPE_CHECKING:
    from shared.embedding.models import Vectors


class NullBackend:
    def __init__(self, why: str) -> None:
        self._why = why

    def search(self, query: str, chat_id: str, k: int) -> list[Match]:  # noqa: ARG002 - the interface's signature
        return []

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:  # noqa: ARG002
        import numpy as np  # late: a day without vectors does without it

        return np.full(len(chunk_ids), np.nan, dtype=np.float32)

    def vector(self, query: str) -> Vectors | None:  # noqa: ARG002
        return None

    def is_available(self) -> bool:
        return False

    @property
    def why_not(self) -> str | None:
        return self._why

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""
