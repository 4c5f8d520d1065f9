"""What features add to forgetting (shared/hooks.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shared.hooks import specification

if TYPE_CHECKING:
    from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader
    from dispatcher.chat_data.forget.request import Scope


@specification(fails="closed")
def redis_entries(scope: Scope, reader: RedisReader) -> Iterable[RedisEntry] | None:
    """What a scope covers of the feature's values in Redis, beside CHAT_KEYS and CHAT_TABLES (shared/hooks.py)."""
