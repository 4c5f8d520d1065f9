"""Text to vectors: what an embedding is identified by, the known models, and the providers behind one small interface.

A vector is comparable with another only if both have the same *identity*: model family (the weights), dimensions, and the prefixes
put before documents and queries. The provider (our ONNX file, Ollama) may differ, its digest may not within one provider.
Every vector is float32 and of unit length, so a dot product is the cosine similarity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from shared.errors import EmbeddingError, SettingsError
from shared.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class KnownModel:
    """One family of weights, and what each provider calls it. `token_limit` is per text, special tokens included."""

    family: str
    ollama: str | None
    fastembed: str | None
    dimensions: int
    document_prefix: str
    query_prefix: str
    token_limit: int


KNOWN_MODELS: tuple[KnownModel, ...] = (
    KnownModel("all-MiniLM-L6-v2", "all-minilm", "sentence-transformers/all-MiniLM-L6-v2", 384, "", "", 256),
    KnownModel(
        "nomic-embed-text-v1.5",
        "nomic-embed-text",
        "nomic-ai/nomic-embed-text-v1.5",
        768,
        "search_document: ",
        "search_query: ",
        2048,
    ),
    KnownModel(
        "mxbai-embed-large-v1",
        "mxbai-embed-large",
        "mixedbread-ai/mxbai-embed-large-v1",
        1024,
        "",
        "Represent this sentence for searching relevant passages: ",
        512,
    ),
    KnownModel("bge-m3", "bge-m3", None, 1024, "", "", 8192),
    KnownModel(
        "paraphrase-multilingual-mpnet-base-v2",
        "paraphrase-multilingual",
        "sentence-transformers/paraphrase-multilingual-mpnet-base-v2",
        768,
        "",
        "",
        128,
    ),
    KnownModel(
        "paraphrase-multilingual-MiniLM-L12-v2",
        None,
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        384,
        "",
        "",
        128,
    ),
)

LOCAL_MODEL = KNOWN_MODELS[0]


@dataclass(frozen=True)
class EmbeddingIdentity:
    """What a release records of its vectors."""

    family: str
    dimensions: int
    document_prefix: str
    query_prefix: str
    provider: str
    digest: str

    def to_json(self) -> dict[str, Any]:
        record = asdict(self)
        record["prefixes"] = {"document": record.pop("document_prefix"), "query": record.pop("query_prefix")}
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> EmbeddingIdentity:
        prefixes = record["prefixes"]
        return cls(
            record["family"],
            record["dimensions"],
            prefixes["document"],
            prefixes["query"],
            record["provider"],
            record["digest"],
        )

    def difference(self, other: EmbeddingIdentity) -> str | None:
        """Why vectors of the two may not be compared, or None if they may."""
        for name in ("family", "dimensions", "document_prefix", "query_prefix"):
            if getattr(self, name) != getattr(other, name):
                return f"{name.replace('_', ' ')} {getattr(self, name)!r} against {getattr(other, name)!r}"
        if self.provider == other.provider and self.digest != other.digest:
            return f"another version of the model at {self.provider}"
        return None


class Embedder(Protocol):
    """Texts to unit vectors."""

    @property
    def identity(self) -> EmbeddingIdentity: ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of stored texts, shape (len(texts), dimensions)."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Vector of a question, shape (dimensions,)."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...


def known_model(ollama_name: str) -> KnownModel:
    """The table's row for an Ollama model name (its tag is ignored), or SettingsError."""
    for model in KNOWN_MODELS:
        if model.ollama == ollama_name.split(":")[0]:
            return model
    names = ", ".join(m.ollama for m in KNOWN_MODELS if m.ollama)
    raise SettingsError(f"EMBED_MODEL={ollama_name} is not a known embedding model. Use one of: {names}.")


def open_embedder(settings: Settings) -> Embedder | None:
    """The embedder that the settings name; None for `none`. Libraries are imported here, late."""
    makers: dict[str, Callable[[Settings], Embedder]] = {"local": _local, "ollama": _ollama}
    maker = makers.get(settings.embedder)
    if maker is None:
        return None
    try:
        return maker(settings)
    except ImportError as error:
        raise EmbeddingError(
            f"EMBEDDER={settings.embedder} needs a package that is not installed ({error.name}). "
            f"Install the extra: pip install 'hcli-memory[{settings.embedder}]'."
        ) from error


def _local(settings: Settings) -> Embedder:
    if settings.embed_model.split(":")[0] != LOCAL_MODEL.ollama:
        raise SettingsError(
            f"EMBEDDER=local embeds with {LOCAL_MODEL.ollama} only, but EMBED_MODEL={settings.embed_model}. "
            "Set EMBEDDER=ollama, or unset EMBED_MODEL."
        )
    from shared.embedder_local import LocalEmbedder

    return LocalEmbedder()


def _ollama(settings: Settings) -> Embedder:
    from shared.embedder_ollama import OllamaEmbedder

    return OllamaEmbedder(
        known_model(settings.embed_model), settings.embed_model, settings.ollama_url, settings.ollama_timeout
    )
