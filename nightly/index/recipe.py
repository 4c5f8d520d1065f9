"""What the indexes and summaries of all chats follow from, beside the archive: if any of it changes, the night does every chat again."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from shared.config.settings import Settings
from shared.embedding.open import open_embedder, open_ollama
from shared.errors import EmbeddingError
from shared.ranking.extractive_summary import SUMMARY_VERSION
from shared.search import lexical
from shared.turns.chunking import CHUNKER_VERSION
from shared.vectors.registry import builder_of

Recipe = dict[str, Any]
#: Indexes in parts, which take tonight's chats alone.
IN_PARTS = frozenset({"sqlite"})


def recipe_of(settings: Settings, last: Recipe | None) -> Recipe:
    """As the settings and the servers say now. What a server cannot be asked is taken to be as in the last one: whoever needs it will ask again."""
    last = last or {}
    return {
        "chunker": CHUNKER_VERSION,
        "timezone": settings.chat_timezone,
        "words": lexical.version(),
        "vectors": builder_of("sqlite", settings, 0).version(),
        "summary": SUMMARY_VERSION,
        "indexes": list(settings.indexes),
        "embedding": _embedding(settings, last.get("embedding")),
        "models": {
            name: _digest(settings, name, last.get("models", {}).get(name))
            for name in sorted({name for name in (settings.summary_model, settings.notes_model) if name})
        },
        "written_by": [settings.summary_model, settings.notes_model],
    }


def _embedding(settings: Settings, last: Any) -> Any:
    if not settings.indexes:
        return None
    try:
        embedder = open_embedder(settings)
        if embedder is None:
            return None
        with closing(embedder):
            return comparable(embedder.identity.to_json())
    except EmbeddingError:
        return last


def comparable(embedding: dict[str, Any] | None) -> dict[str, Any] | None:
    """An embedding without its probes, which are evidence of the model and not part of it."""
    return {key: value for key, value in embedding.items() if key != "probes"} if embedding else None


def _digest(settings: Settings, model: str, last: Any) -> Any:
    try:
        with closing(open_ollama(settings)) as server:
            return server.digest(model)
    except EmbeddingError:
        return last
