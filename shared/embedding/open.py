"""The embedder that the settings name. Libraries of a provider are imported when it is opened, never because another one exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from shared.config.packages import how_to_add
from shared.config.settings import Settings
from shared.embedding.known_models import MULTILINGUAL, KnownModel, known_model
from shared.embedding.models import Embedder
from shared.errors import EmbeddingError

if TYPE_CHECKING:
    from shared.embedding.ollama_server import OllamaServer


def open_embedder(settings: Settings) -> Embedder | None:
    """The embedder that the settings name; None for `none`."""
    makers: dict[str, Callable[[Settings], Embedder]] = {"local": _local, "fastembed": _fastembed, "ollama": _ollama}
    maker = makers.get(settings.embedder)
    return maker(settings) if maker else None


def is_made_here(settings: Settings) -> bool:
    """Whether the settings name the model whose files are made at set-up."""
    return settings.embedder == "local" and known_model(settings.model_name, "local") is MULTILINGUAL


def make_model() -> bool:
    """Make those files, unless they are there; whether any were made. EmbeddingError if they cannot be fetched or written."""
    from shared.embedding.multilingual import install  # numpy, late

    return install()


def open_ollama(settings: Settings) -> OllamaServer:
    """The Ollama server that the settings name; nothing is asked yet."""
    with _extra("ollama", f"Ollama at {settings.ollama_url}"):
        from shared.embedding.ollama_server import OllamaServer
    return OllamaServer(settings.ollama_url, settings.ollama_timeout)


@contextmanager
def _extra(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise EmbeddingError(
            f"{what} needs a package that is not installed ({error.name}). To add it, {how_to_add(name)}."
        ) from error


def _local(settings: Settings) -> Embedder:
    return _shipped(known_model(settings.model_name, "local"))


@cache
def _shipped(model: KnownModel) -> Embedder:
    """One for the process, since release and day share its memory; closing it does nothing."""
    with _extra("local", "EMBEDDER=local"):
        from shared.embedding.local import LocalEmbedder

        return LocalEmbedder(model)


def _fastembed(settings: Settings) -> Embedder:
    model = known_model(settings.model_name, "fastembed")
    with _extra("fastembed", "EMBEDDER=fastembed"):
        from shared.embedding.fastembed import FastembedEmbedder, cache_of
    return FastembedEmbedder(model, cache_of(settings))


def _ollama(settings: Settings) -> Embedder:
    model = known_model(settings.model_name, "ollama")
    with _extra("ollama", "EMBEDDER=ollama"):
        from shared.embedding.ollama import OllamaEmbedder
    return OllamaEmbedder(model, settings.model_name, open_ollama(settings))
