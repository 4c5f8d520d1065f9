"""Text to vectors: what an embedding is identified by, the known models, and the providers behind one small interface.

A vector is comparable with another only if both have the same *identity*: model family (the weights), dimensions, and the prefixes
put before documents and queries. The provider (our ONNX file, fastembed, Ollama) may differ, its digest may not within one provider.
A name proves nothing, so a release also carries *probes*: the vectors of a few fixed texts, which the day compares with its own (probes.py).
Every vector is float32 and of unit length, so a dot product is the cosine similarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from shared.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


#: Where a model has to be named; the shipped one has no name to choose.
Provider = Literal["ollama", "fastembed"]
PROVIDERS: tuple[Provider, ...] = ("ollama", "fastembed")


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
    ollama_tags: tuple[str, ...] = ("latest",)  # other tags of the name are other weights

    def is_called(self, name: str, provider: Provider) -> bool:
        """Whether a provider has the model under this name; those of fastembed go by their names in Ollama too."""
        base, _, tag = name.partition(":")
        in_ollama = self.ollama == base and (tag or "latest") in self.ollama_tags
        if provider == "ollama":
            return in_ollama
        return self.fastembed is not None and (in_ollama or name == self.fastembed)

    def identity(self, provider: str, digest: str) -> EmbeddingIdentity:
        """What a release records of vectors that a provider made with the weights of this digest."""
        return EmbeddingIdentity(
            self.family, self.dimensions, self.document_prefix, self.query_prefix, provider, digest
        )


KNOWN_MODELS: tuple[KnownModel, ...] = (
    KnownModel(
        "all-MiniLM-L6-v2",
        "all-minilm",
        "sentence-transformers/all-MiniLM-L6-v2",
        384,
        "",
        "",
        256,
        ("latest", "22m", "l6-v2"),
    ),
    KnownModel(
        "nomic-embed-text-v1.5",
        "nomic-embed-text",
        "nomic-ai/nomic-embed-text-v1.5",
        768,
        "search_document: ",
        "search_query: ",
        2048,
        ("latest", "v1.5"),
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
    """What a release records of its vectors. `probes` are evidence, not part of the identity; releases of old have none."""

    family: str
    dimensions: int
    document_prefix: str
    query_prefix: str
    provider: str
    digest: str
    probes: tuple[tuple[float, ...], ...] = field(default=(), compare=False)

    def to_json(self) -> dict[str, Any]:
        record = asdict(self)
        record["prefixes"] = {"document": record.pop("document_prefix"), "query": record.pop("query_prefix")}
        if not self.probes:
            del record["probes"]
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
            tuple(tuple(probe) for probe in record.get("probes", ())),
        )

    def difference(self, other: EmbeddingIdentity) -> str | None:
        """Why vectors of the two may not be compared, or None if they may."""
        for name in ("family", "dimensions", "document_prefix", "query_prefix"):
            if getattr(self, name) != getattr(other, name):
                return f"{name.replace('_', ' ')} {getattr(self, name)!r} against {getattr(other, name)!r}"
        if self.provider == other.provider and self.digest != other.digest:
            return f"another version of the model at {self.provider}"
        return None


@dataclass(frozen=True)
class DocumentVectors:
    """Vectors of texts, shape (n, dimensions), and why some have none: row -> reason. The row of a refused text is zeros."""

    vectors: Vectors
    refused: dict[int, str] = field(default_factory=dict)


class Embedder(Protocol):
    """Texts to unit vectors."""

    @property
    def identity(self) -> EmbeddingIdentity: ...

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        """Vectors of stored texts; EmbeddingError only if the embedder as a whole is unavailable or wrong."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Vector of a question, shape (dimensions,)."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


def known_model(name: str, provider: Provider | None = None) -> KnownModel:
    """The table's row for a model's name at this provider, or at any; SettingsError if there is none."""
    asked = (provider,) if provider else PROVIDERS
    for model in KNOWN_MODELS:
        if any(model.is_called(name, one) for one in asked):
            return model
    names = [known for one in asked for model in KNOWN_MODELS if (known := getattr(model, one))]
    elsewhere = [one for one in PROVIDERS if any(model.is_called(name, one) for model in KNOWN_MODELS)]
    raise SettingsError(
        f"EMBED_MODEL={name} is not a known embedding model{f' of EMBEDDER={provider}' if provider else ''}. "
        f"Use one of: {', '.join(names)}{''.join(f'; or set EMBEDDER={one}, which has it' for one in elsewhere)}."
    )
