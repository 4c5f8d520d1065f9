"""The embedding models that the program knows: what each provider calls them, and what they need ahead of a text, from the models' own cards.

A model's prefixes are part of its embedding's identity (models.py): change one here, and the next night embeds everything anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shared.embedding.models import EmbeddingIdentity
from shared.errors import SettingsError

#: Where a model has to be named; the shipped one has no name to choose.
Provider = Literal["ollama", "fastembed"]
PROVIDERS: tuple[Provider, ...] = ("ollama", "fastembed")


@dataclass(frozen=True)
class KnownModel:
    """One family of weights. `token_limit` is per text, special tokens included."""

    name: str
    family: str
    dimensions: int
    token_limit: int
    document_prefix: str = ""
    query_prefix: str = ""
    ollama: str | None = None
    ollama_also: tuple[str, ...] = ()  # other names of the same weights; other tags are other weights
    fastembed: str | None = None

    def is_called(self, name: str, provider: Provider) -> bool:
        """Whether a provider has the model under this name; those of fastembed go by their names here and in Ollama too."""
        in_ollama = self.ollama is not None and _tagged(name) in map(_tagged, (self.ollama, *self.ollama_also))
        if provider == "ollama":
            return in_ollama
        return self.fastembed is not None and (in_ollama or name in (self.fastembed, self.name))

    def named_by(self, provider: Provider) -> str | None:
        """The provider's name for it, None where it does not have it."""
        return self.ollama if provider == "ollama" else self.fastembed

    def identity(self, provider: str, digest: str) -> EmbeddingIdentity:
        """What a release records of vectors that a provider made with the weights of this digest."""
        return EmbeddingIdentity(
            self.family, self.dimensions, self.document_prefix, self.query_prefix, provider, digest
        )


def _tagged(name: str) -> str:
    base, _, tag = name.partition(":")
    return f"{base}:{tag or 'latest'}"


LOCAL_MODEL = KnownModel(
    "all-minilm", "all-MiniLM-L6-v2", 384, 256,
    ollama="all-minilm", ollama_also=("all-minilm:22m", "all-minilm:l6-v2"),
    fastembed="sentence-transformers/all-MiniLM-L6-v2",
)  # fmt: skip

KNOWN_MODELS: tuple[KnownModel, ...] = (
    LOCAL_MODEL,
    KnownModel(
        "nomic-embed-text", "nomic-embed-text-v1.5", 768, 2048, "search_document: ", "search_query: ",
        ollama="nomic-embed-text", ollama_also=("nomic-embed-text:v1.5",), fastembed="nomic-ai/nomic-embed-text-v1.5",
    ),
    KnownModel(
        "paraphrase-minilm", "paraphrase-multilingual-MiniLM-L12-v2", 384, 128,
        fastembed="sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
    ),
)  # fmt: skip


def known_model(name: str, provider: Provider | None = None) -> KnownModel:
    """The table's row for a model's name at this provider, or at any; SettingsError if there is none, which names those that there are."""
    asked = (provider,) if provider else PROVIDERS
    for model in KNOWN_MODELS:
        if any(model.is_called(name, one) for one in asked):
            return model
    names = [known for one in asked for model in KNOWN_MODELS if (known := model.named_by(one))]
    elsewhere = [one for one in PROVIDERS if any(model.is_called(name, one) for model in KNOWN_MODELS)]
    raise SettingsError(
        f"EMBED_MODEL={name} is not a known embedding model{f' of EMBEDDER={provider}' if provider else ''}. "
        f"Use one of: {', '.join(names)}{''.join(f'; or set EMBEDDER={one}, which has it' for one in elsewhere)}."
    )
