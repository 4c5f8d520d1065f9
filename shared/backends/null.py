"""No vectors: keyword search and summaries still work."""

from __future__ import annotations

from shared.ranking import Match


class NullBackend:
    def __init__(self, why: str) -> None:
        self._why = why

    def search(self, query: str, chat_id: str, k: int) -> list[Match]:  # noqa: ARG002 - the interface's signature
        return []

    def is_available(self) -> bool:
        return False

    @property
    def why_not(self) -> str | None:
        return self._why

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""
