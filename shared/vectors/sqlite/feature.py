"""The index `sqlite`: files that are compared whole, chat by chat. It needs nothing that is not installed."""

from __future__ import annotations

from shared.config.kinds import IndexKind
from shared.hooks import hook
from shared.release.parts import PART


@hook
def vector_index() -> IndexKind:
    return IndexKind("sqlite", "vectors", PART, preferred=True)
