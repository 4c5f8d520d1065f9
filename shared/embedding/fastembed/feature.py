"""The embedder `fastembed`: models of fastembed, downloaded once."""

from __future__ import annotations

from shared.config.kinds import EmbedderKind
from shared.hooks import hook


@hook
def embedder() -> EmbedderKind:
    again = "delete it under FASTEMBED_CACHE_PATH and fetch it again (python -m shared.embedding.fastembed)"
    return EmbedderKind("fastembed", "fastembed", again)
