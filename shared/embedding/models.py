"""Text to vectors: what an embedding is identified by, and the providers behind one small interface. The known models: known_models.py.

A vector is comparable with another only if both have the same *identity*: model family (the weights), dimensions, and the prefixes
put before documents and queries. The provider (our ONNX file, fastembed, Ollama) may differ, its digest may not within one provider.
A name proves nothing, so a release also carries *probes*: the vectors of a few fixed texts, which the day compares with its own (probes.py).
Every vector is float32 and of unit length, so a dot product is the cosine similarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

from pydantic import ConfigDict, Field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


#: Of what another host writes (shared/release/manifest.py): types are not converted, and no other field is taken.
STRICT = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True, defer_build=True)
Word = Annotated[str, Field(max_length=1000)]


@dataclass(frozen=True)
class EmbeddingIdentity:
    """What a release records of its vectors. `probes` are evidence, not part of the identity."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    family: Word
    dimensions: Annotated[int, Field(ge=1, le=1 << 16)]
    document_prefix: Word
    query_prefix: Word
    provider: Word
    digest: Word
    probes: tuple[tuple[Annotated[float, Field(allow_inf_nan=False)], ...], ...] = field(default=(), compare=False)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> EmbeddingIdentity:
        return cls(**record | {"probes": tuple(map(tuple, record["probes"]))})

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

    @property
    def texts_at_once(self) -> int:
        """Texts of one call that keep it busy; more are welcome."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        """Vectors of stored texts; EmbeddingError only if the embedder as a whole is unavailable or wrong."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Vector of a question, shape (dimensions,)."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...
