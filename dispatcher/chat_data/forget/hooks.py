"""What features add to forgetting (shared/hooks.py)."""

from __future__ import annotations

from collections.abc import Sequence

from shared.hooks import specification


@specification(fails="closed")
def keys_of_chat(chat_id: str) -> Sequence[str] | None:
    """Patterns of keys in Redis that go when a whole chat is forgotten. `chat_id` is escaped for a pattern."""
