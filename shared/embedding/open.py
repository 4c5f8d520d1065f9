"""The embedder that the settings name. Libraries of a provider are imported when it is opened, never because another one exists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from shared.config.kinds import embedders
from shared.config.packages import how_to_add
from shared.config.settings import Settings
from shared.embedding.known_models import MULTILINGUAL, known_model
from shared.embedding.models import Embedder
from shared.embedding.ollama.settings import OllamaSettings
from shared.errors import EmbeddingError

if TYPE_CHECKING:
    from shared.embedding.ollama.server import OllamaServer


def open_embedder(settings: Settings) -> Embedder | None:
    """The embedder that the settings name; None for `none`."""
    name = settings.embedder
    if name == "none":
        return None
    model = known_model(settings.model_name, name)
    with _needing(embedders()[name].part, f"EMBEDDER={name}"):
        found: Embedder = import_module(f"shared.embedding.{name}.embedder").open_embedder(model, settings)
    return found


def is_made_here(settings: Settings) -> bool:
    """Whether the settings name the model whose files are made at set-up."""
    return settings.embedder == "local" and known_model(settings.model_name, "local") is MULTILINGUAL


def make_model() -> bool:
    """Make those files, unless they are there; whether any were made. EmbeddingError if they cannot be fetched or written."""
    from shared.embedding.local.multilingual import install  # numpy, late

    return install()


def open_ollama(settings: Settings) -> OllamaServer:
    """The Ollama server that the settings name; nothing is asked yet."""
    ollama = settings.of(OllamaSettings)
    with _needing("ollama", f"Ollama at {ollama.ollama_url}"):
        from shared.embedding.ollama.server import OllamaServer
    return OllamaServer(ollama.ollama_url, ollama.ollama_timeout)


@contextmanager
def _needing(part: str, what: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise EmbeddingError(
            f"{what} needs a package that is not installed ({error.name}). To add it, {how_to_add(part)}."
        ) from error
