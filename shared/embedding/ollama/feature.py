"""The embedder `ollama`: models of an Ollama server, which also writes texts (WRITER)."""

from __future__ import annotations

from shared.config.kinds import EmbedderKind
from shared.hooks import hook


@hook
def embedder() -> EmbedderKind:
    return EmbedderKind("ollama", "ollama", "pull it again (ollama pull) and restart Ollama")
