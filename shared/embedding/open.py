"""The embedder that the settings name. Libraries of a provider are imported when it is opened, never because another one exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from shared.config.packages import how_to_add
from shared.config.settings import Settings
from shared.embedding.known_models import KNOWN_MODELS, LOCAL_MODEL, PROVIDERS, KnownModel, Provider, known_model
from shared.embedding.models import Embedder
from shared.errors import EmbeddingError, SettingsError

if TYPE_CHECKING:
    from shared.embedding.ollama_servers import OllamaServers


def open_embedder(settings: Settings, say: Callable[[str], None] | None = None) -> Embedder | None:
    """The embedder that the settings name; None for `none`. `say` gets a sentence about each of several servers that is left out or used again."""
    makers: dict[str, Callable[[Settings], Embedder]] = {"local": _local, "fastembed": _fastembed}
    if settings.embedder == "ollama":
        return _ollama(settings, say)
    maker = makers.get(settings.embedder)
    return maker(settings) if maker else None


def open_ollama(settings: Settings) -> OllamaServers:
    """The Ollama servers that the settings name; nothing is asked yet."""
    with _extra("ollama", f"Ollama at {settings.ollama_url}"):
        from shared.embedding.ollama_server import OllamaServer
        from shared.embedding.ollama_servers import OllamaServers
    return OllamaServers([OllamaServer(url, settings.ollama_timeout) for url in settings.ollama_url.split(",")])


@contextmanager
def _extra(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise EmbeddingError(
            f"{what} needs a package that is not installed ({error.name}). To add it, {how_to_add(name)}."
        ) from error


def _local(settings: Settings) -> Embedder:
    if settings.embed_model.split(":")[0] not in (LOCAL_MODEL.ollama, LOCAL_MODEL.fastembed):
        has_it = [one for one in PROVIDERS if any(model.is_called(settings.embed_model, one) for model in KNOWN_MODELS)]
        raise SettingsError(
            f"EMBEDDER=local embeds with {LOCAL_MODEL.ollama} only, but EMBED_MODEL={settings.embed_model}. "
            f"Set EMBEDDER={' or '.join(has_it or PROVIDERS)}, or unset EMBED_MODEL."
        )
    return open_shipped()


@cache
def open_shipped() -> Embedder:
    """The shipped model: one for the process, since release and day share its 60 MB; closing it does nothing."""
    with _extra("local", "EMBEDDER=local"):
        from shared.embedding.local import LocalEmbedder
    return LocalEmbedder()


def _fastembed(settings: Settings) -> Embedder:
    return open_model(settings, "fastembed", known_model(settings.embed_model, "fastembed"), settings.embed_model)


def _ollama(settings: Settings, say: Callable[[str], None] | None) -> Embedder:
    return open_model(settings, "ollama", known_model(settings.embed_model, "ollama"), settings.embed_model, say)


def open_model(
    settings: Settings, provider: Provider, model: KnownModel, name: str, say: Callable[[str], None] | None = None
) -> Embedder:
    """A model at a provider, whichever one the settings name; `name` is Ollama's for it; `say` as for `open_embedder`."""
    if provider == "fastembed":
        with _extra("fastembed", "EMBEDDER=fastembed"):
            from shared.embedding.fastembed import FastembedEmbedder, cache_of
        return FastembedEmbedder(model, cache_of(settings))
    with _extra("ollama", "EMBEDDER=ollama"):
        from shared.embedding.ollama import OllamaEmbedder
        from shared.embedding.ollama_pool import OllamaPool
        from shared.embedding.ollama_server import OllamaServer, Patience
    urls = settings.ollama_url.split(",")
    if len(urls) == 1:
        return OllamaEmbedder(model, name, OllamaServer(urls[0], settings.ollama_timeout))
    # One attempt: another server tries next, or this one after it has proven itself.
    servers = [OllamaServer(url, settings.ollama_timeout, Patience(attempts=1)) for url in urls]
    half_of_a_lookup = settings.memory_deadline_ms / 2000
    return OllamaPool([OllamaEmbedder(model, name, one, suspicious=True) for one in servers], half_of_a_lookup, say)
