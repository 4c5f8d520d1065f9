"""The embedding models that the program knows: what each provider calls them, and what they need ahead of a text, from the models' own cards.

A model's prefixes are part of its embedding's identity (models.py): change one here, and the next night embeds everything anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from shared.config.kinds import embedders
from shared.embedding.models import EmbeddingIdentity
from shared.errors import SettingsError

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

Number = TypeVar("Number", float, "Vectors")


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
    local: bool = False  # it comes with the program
    symmetric: bool = False  # texts of one kind are compared with the prefix of questions on both, as its card says
    #: Medians of the cosine between a question and the turns of its chat, and between it and the best of them: the scales of models differ.
    scale: tuple[float, float] | None = None
    languages: frozenset[str] | None = frozenset({"en"})  # that it was trained on; None: all that we know

    def is_called(self, name: str, provider: str) -> bool:
        """Whether a provider has the model under this name; those of fastembed go by their names here and in Ollama too."""
        in_ollama = self.ollama is not None and _tagged(name) in map(_tagged, (self.ollama, *self.ollama_also))
        if provider == "ollama":
            return in_ollama
        return self.named_by(provider) is not None and (in_ollama or name in (self.fastembed, self.name))

    def named_by(self, provider: str) -> str | None:
        """The provider's name for it, None where it does not have it."""
        if provider == "local":
            return self.name if self.local else None
        return self.ollama if provider == "ollama" else self.fastembed

    def identity(self, provider: str, digest: str) -> EmbeddingIdentity:
        """What a release records of vectors that a provider made with the weights of this digest."""
        return EmbeddingIdentity(
            self.family, self.dimensions, self.document_prefix, self.query_prefix, provider, digest
        )


def _tagged(name: str) -> str:
    base, _, tag = name.partition(":")
    return f"{base}:{tag or 'latest'}"


#: "centred": its vectors are without what all texts have in common (shared/models/multilingual-e5-small/README.md).
MULTILINGUAL = KnownModel(
    "multilingual-e5-small", "multilingual-e5-small centred", 384, 512, "passage: ", "query: ",
    local=True, symmetric=True, scale=(0.20, 0.56), languages=None,
)  # fmt: skip
MINILM = KnownModel(
    "all-minilm", "all-MiniLM-L6-v2", 384, 256,
    ollama="all-minilm", ollama_also=("all-minilm:22m", "all-minilm:l6-v2"),
    fastembed="sentence-transformers/all-MiniLM-L6-v2", local=True, scale=(0.22, 0.63),
)  # fmt: skip

KNOWN_MODELS: tuple[KnownModel, ...] = (
    MULTILINGUAL,
    MINILM,
    KnownModel(
        "nomic-embed-text", "nomic-embed-text-v1.5", 768, 2048, "search_document: ", "search_query: ",
        ollama="nomic-embed-text", ollama_also=("nomic-embed-text:v1.5",), fastembed="nomic-ai/nomic-embed-text-v1.5",
    ),
    KnownModel(
        "paraphrase-minilm", "paraphrase-multilingual-MiniLM-L12-v2", 384, 128,
        fastembed="sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
    ),
)  # fmt: skip


def known_model(name: str, provider: str) -> KnownModel:
    """The table's row for a model's name at this provider; SettingsError if there is none, which names the known ones."""
    for model in KNOWN_MODELS:
        if model.is_called(name, provider):
            return model
    names = [known for model in KNOWN_MODELS if (known := model.named_by(provider))]
    elsewhere = [one for one in embedders() if any(model.is_called(name, one) for model in KNOWN_MODELS)]
    raise SettingsError(
        f"EMBED_MODEL={name} is not a known embedding model of EMBEDDER={provider}. "
        f"Use one of: {', '.join(names)}{''.join(f'; or set EMBEDDER={one}, which has it' for one in elsewhere)}."
    )


def _of_family(family: str | None) -> KnownModel:
    """The model of a family; of one that is not known a model of that name, of which nothing is measured."""
    unknown = KnownModel(family or "", family or "", 0, 0)
    return next((model for model in KNOWN_MODELS if model.family == family), unknown)


def name_of(family: str) -> str:
    """EMBED_MODEL of a family; of one that is not known the family."""
    return _of_family(family).name


def compares_as_questions(family: str | None) -> bool:
    """Whether texts of one kind are embedded as questions are."""
    return _of_family(family).symmetric


def is_measured(family: str | None) -> bool:
    """Whether the scale of a model's cosines is known."""
    return _of_family(family).scale is not None


def likeness(cosine: Number, family: str | None) -> Number:
    """A cosine, or an array of them, on the scale of all-MiniLM-L6-v2, on which limits are written, so that one limit holds for every model that was
    measured; of another model as it is. Linear between the medians of each: what has nothing to do with a question, and what is nearest to it."""
    scale = _of_family(family).scale
    if scale is None or MINILM.scale is None:
        return cosine
    (low, high), (common_low, common_high) = scale, MINILM.scale
    return common_low + (cosine - low) * ((common_high - common_low) / (high - low))


def speaks(family: str | None, language: str) -> bool:
    """Whether a model's cosines say anything of a text in this language: of one that it was not trained on, all texts of that language are near."""
    found = _of_family(family)
    return found.scale is not None and (found.languages is None or language in found.languages)
