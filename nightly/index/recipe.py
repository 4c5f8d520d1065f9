"""What the indexes and summaries of all chats follow from, beside the archive: if any of it changes, the night does every chat again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Any

from shared.config.settings import Settings
from shared.embedding.known_models import known_model
from shared.embedding.models import Embedder
from shared.embedding.open import open_embedder, open_ollama
from shared.errors import EmbeddingError
from shared.ranking.extractive_summary import SUMMARY_VERSION
from shared.release import chats
from shared.search import lexical
from shared.turns.chunking import CHUNKER_VERSION

Recipe = dict[str, Any]
#: Indexes in parts, which take tonight's chats alone.
IN_PARTS = frozenset({"sqlite"})


def recipe_of(settings: Settings, last: Recipe | None, *, ask: bool = True) -> Recipe:
    """As the settings and the servers say now. What a server cannot be asked, or is not (`ask`), is taken to be as in the last one."""
    from shared.vectors.vector_files import LAYOUT  # numpy, late

    last = last or {}
    writers = [settings.writer_of("summaries"), settings.writer_of("notes")]
    models = sorted({one.model for one in writers if one and one.kind == "ollama"})
    embedding, digests = last.get("embedding"), dict(last.get("models", {}))
    with suppress(EmbeddingError):
        if ask:
            with night_embedder(settings) as embedder:
                embedding = comparable(embedder.identity.to_json()) if embedder else None
    for name in models if ask else ():
        with suppress(EmbeddingError), closing(open_ollama(settings)) as server:
            digests[name] = server.digest(name)
    return {
        "chunker": CHUNKER_VERSION,
        "timezone": settings.chat_timezone,
        "words": lexical.version(),
        "chats": chats.version(),
        "vectors": LAYOUT,
        "summary": SUMMARY_VERSION,
        "indexes": list(settings.indexes),
        "embedder": [settings.embedder, settings.model_name, *_known(settings)],
        "embedding": embedding if settings.indexes else None,
        "models": {name: digests.get(name) for name in models},
        "written_by": [one and str(one) for one in writers],
    }


def _known(settings: Settings) -> list[Any]:
    """What makes its vectors comparable, as this program knows the model: a later one may correct that."""
    if not settings.indexes or settings.embedder == "none":
        return []
    model = known_model(settings.model_name, settings.embedder)
    return [model.family, model.dimensions, model.document_prefix, model.query_prefix]


@contextmanager
def night_embedder(settings: Settings) -> Iterator[Embedder | None]:
    """What a night embeds with; None where it builds no index, or EMBEDDER is none."""
    embedder = open_embedder(settings) if settings.indexes else None
    with closing(embedder) if embedder else nullcontext():
        yield embedder


def comparable(embedding: dict[str, Any] | None) -> dict[str, Any] | None:
    """An embedding without its probes, which are evidence of the model and not part of it."""
    return {key: value for key, value in embedding.items() if key != "probes"} if embedding else None
