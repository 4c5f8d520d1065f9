"""The embedding models that the program knows: what each provider calls them, what they need ahead of a text, and what is published of them.

A model's prefixes are part of its embedding's identity (models.py): change one here, and the next night embeds everything anew.

Sources: the models' own cards (prefixes, limits, licences, languages), fastembed's list and Ollama's library (names, sizes). Recall is that of the
vectors alone, without words: of LoCoMo recall@10 by turn over the questions of categories 1 to 4 (MTEB's results; with two decimals where it is
the mean of its four categories, weighted by their questions), of LongMemEval as published.
`hmem embedder try` measures a model on the owner's own turns, which says more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from shared.embedding.models import EmbeddingIdentity
from shared.errors import SettingsError

#: Where a model has to be named; the shipped one has no name to choose.
Provider = Literal["ollama", "fastembed"]
PROVIDERS: tuple[Provider, ...] = ("ollama", "fastembed")

#: The licence of a model that is not in the table, if its provider does not say one.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class OnnxFiles:
    """Files of the Hugging Face hub, for a model that fastembed runs but does not list; `pooling` makes one vector of those of the tokens."""

    repository: str
    pooling: Literal["cls", "mean"]
    file: str = "onnx/model.onnx"
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class KnownModel:
    """One family of weights. `token_limit` is per text, special tokens included; sizes are those of a download, in MB.

    `token_limit` and `languages` are 0 where they are not known: of a model that is tried and not in the table.
    """

    name: str
    family: str
    dimensions: int
    token_limit: int
    document_prefix: str
    query_prefix: str
    licence: str
    languages: int  # 1: English
    ollama: str | None = None
    ollama_also: tuple[str, ...] = ()  # other names of the same weights; other tags are other weights
    ollama_mb: int | None = None
    fastembed: str | None = None
    fastembed_mb: int | None = None
    files: OnnxFiles | None = None
    recall: dict[str, float] = field(default_factory=dict)  # benchmark -> published recall, 0 to 1
    advised_against: str | None = None

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


_REPRESENT = "Represent this sentence for searching relevant passages: "
_APACHE = "Apache-2.0"
_PARAPHRASES = "made for sentences that say the same"

LOCAL_MODEL = KnownModel(
    "all-minilm", "all-MiniLM-L6-v2", 384, 256, "", "", _APACHE, 1,
    ollama="all-minilm", ollama_also=("all-minilm:22m", "all-minilm:l6-v2"), ollama_mb=46,
    fastembed="sentence-transformers/all-MiniLM-L6-v2", fastembed_mb=90,
    recall={"LoCoMo": 0.474},
)  # fmt: skip

#: Those for English first, then those for many languages, each the smallest first.
KNOWN_MODELS: tuple[KnownModel, ...] = (
    LOCAL_MODEL,
    KnownModel(
        "e5-small-v2", "e5-small-v2", 384, 512, "passage: ", "query: ", "MIT", 1,
        fastembed="intfloat/e5-small-v2", fastembed_mb=133, files=OnnxFiles("Xenova/e5-small-v2", "mean"),
        recall={"LoCoMo": 0.64},
    ),
    KnownModel(
        "snowflake-arctic-embed-s", "snowflake-arctic-embed-s", 384, 512, "", _REPRESENT, _APACHE, 1,
        ollama="snowflake-arctic-embed:33m", ollama_mb=67,
        fastembed="snowflake/snowflake-arctic-embed-s", fastembed_mb=130,
    ),
    KnownModel(
        "snowflake-arctic-embed-m", "snowflake-arctic-embed-m", 768, 512, "", _REPRESENT, _APACHE, 1,
        ollama="snowflake-arctic-embed:110m", ollama_mb=219,
        fastembed="snowflake/snowflake-arctic-embed-m", fastembed_mb=430,
    ),
    KnownModel(
        "nomic-embed-text", "nomic-embed-text-v1.5", 768, 2048, "search_document: ", "search_query: ", _APACHE, 1,
        ollama="nomic-embed-text", ollama_also=("nomic-embed-text:v1.5",), ollama_mb=274,
        fastembed="nomic-ai/nomic-embed-text-v1.5", fastembed_mb=520,
        recall={"LoCoMo": 0.624},
    ),
    KnownModel(
        "mxbai-embed-large", "mxbai-embed-large-v1", 1024, 512, "", _REPRESENT, _APACHE, 1,
        ollama="mxbai-embed-large", ollama_also=("mxbai-embed-large:335m",), ollama_mb=670,
        fastembed="mixedbread-ai/mxbai-embed-large-v1", fastembed_mb=640,
    ),
    KnownModel(
        "multilingual-e5-small", "multilingual-e5-small", 384, 512, "passage: ", "query: ", "MIT", 94,
        fastembed="intfloat/multilingual-e5-small", fastembed_mb=470,
        files=OnnxFiles("intfloat/multilingual-e5-small", "mean"),
        recall={"LoCoMo": 0.59},
    ),
    KnownModel(
        "embeddinggemma", "embeddinggemma-300m", 768, 2048,
        "title: none | text: ", "task: search result | query: ", "Gemma", 100,
        ollama="embeddinggemma", ollama_also=("embeddinggemma:300m",), ollama_mb=622,
        fastembed="google/embeddinggemma-300m", fastembed_mb=1240,
    ),
    KnownModel(
        "qwen3-embedding-0.6b", "Qwen3-Embedding-0.6B", 1024, 32_768, "",
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:", _APACHE, 100,
        ollama="qwen3-embedding:0.6b", ollama_also=("qwen3-embedding:0.6b-q8_0",), ollama_mb=639,
        fastembed="Qwen/Qwen3-Embedding-0.6B", fastembed_mb=2380,
    ),
    KnownModel(
        "multilingual-e5-base", "multilingual-e5-base", 768, 512, "passage: ", "query: ", "MIT", 94,
        fastembed="intfloat/multilingual-e5-base", fastembed_mb=1110,
        files=OnnxFiles("intfloat/multilingual-e5-base", "mean"),
    ),
    KnownModel(
        "snowflake-arctic-embed-m-v2", "snowflake-arctic-embed-m-v2.0", 768, 8192, "", "query: ", _APACHE, 74,
        fastembed="Snowflake/snowflake-arctic-embed-m-v2.0", fastembed_mb=1220,
        files=OnnxFiles("Snowflake/snowflake-arctic-embed-m-v2.0", "cls"),
        recall={"LoCoMo": 0.68},
    ),
    KnownModel(
        "snowflake-arctic-embed2", "snowflake-arctic-embed-l-v2.0", 1024, 8192, "", "query: ", _APACHE, 74,
        ollama="snowflake-arctic-embed2", ollama_also=("snowflake-arctic-embed2:568m",), ollama_mb=1200,
        fastembed="Snowflake/snowflake-arctic-embed-l-v2.0", fastembed_mb=2270,
        files=OnnxFiles("Snowflake/snowflake-arctic-embed-l-v2.0", "cls", more=("onnx/model.onnx_data",)),
        recall={"LoCoMo": 0.713},
    ),
    KnownModel(
        "bge-m3", "bge-m3", 1024, 8192, "", "", "MIT", 100,
        ollama="bge-m3", ollama_also=("bge-m3:567m",), ollama_mb=1200,
    ),
    KnownModel(
        "multilingual-e5-large", "multilingual-e5-large", 1024, 512, "passage: ", "query: ", "MIT", 94,
        fastembed="intfloat/multilingual-e5-large", fastembed_mb=2240,
    ),
    KnownModel(
        "paraphrase-multilingual", "paraphrase-multilingual-mpnet-base-v2", 768, 128, "", "", _APACHE, 50,
        ollama="paraphrase-multilingual", ollama_mb=563,
        fastembed="sentence-transformers/paraphrase-multilingual-mpnet-base-v2", fastembed_mb=1000,
        recall={"LongMemEval": 0.318}, advised_against=_PARAPHRASES,
    ),
    KnownModel(
        "paraphrase-minilm", "paraphrase-multilingual-MiniLM-L12-v2", 384, 128, "", "", _APACHE, 50,
        fastembed="sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", fastembed_mb=220,
        advised_against=_PARAPHRASES,
    ),
)  # fmt: skip


def known_model(name: str, provider: Provider | None = None) -> KnownModel:
    """The table's row for a model's name at this provider, or at any; SettingsError if there is none, which names those that are advised."""
    asked = (provider,) if provider else PROVIDERS
    for model in KNOWN_MODELS:
        if any(model.is_called(name, one) for one in asked):
            return model
    advised = [model for model in KNOWN_MODELS if not model.advised_against]
    names = [known for one in asked for model in advised if (known := model.named_by(one))]
    elsewhere = [one for one in PROVIDERS if any(model.is_called(name, one) for model in KNOWN_MODELS)]
    raise SettingsError(
        f"EMBED_MODEL={name} is not a known embedding model{f' of EMBEDDER={provider}' if provider else ''}. "
        f"Use one of: {', '.join(names)}{''.join(f'; or set EMBEDDER={one}, which has it' for one in elsewhere)}."
    )
