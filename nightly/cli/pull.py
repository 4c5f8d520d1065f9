"""Pull the Ollama models that the settings name and the server does not have, with progress (`hmem-night run --pull`)."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.embedding.known_models import known_model
from shared.embedding.open import open_ollama
from shared.errors import EmbeddingError

if TYPE_CHECKING:
    from shared.embedding.ollama_server import OllamaServer


def pull_missing(settings: Settings, report: Reporter) -> None:
    """Never raises if the server fails: the night exports and archives without it, and its steps report what is missing."""
    names = _wanted(settings)
    if not names:
        return
    try:
        ollama = open_ollama(settings)
    except EmbeddingError as error:  # its package is missing
        report.say(f"Nothing was pulled: {error}")
        return
    with closing(ollama):
        for server in ollama.servers:
            try:
                _pull(server, names, report)
            except EmbeddingError as error:
                report.say(f"Nothing was pulled: {error}")


def _pull(server: OllamaServer, names: list[str], report: Reporter) -> None:
    for name in names:
        if server.find(name) is None:
            report.amounts(server.pull(name), f"pull {name}")
            server.digest(name)  # raises if the model is still missing


def _wanted(settings: Settings) -> list[str]:
    names = []
    if settings.embedder == "ollama" and settings.indexes:
        known_model(settings.embed_model, "ollama")  # a typo is reported before gigabytes are downloaded
        names.append(settings.embed_model)
    names += [model for model in (settings.summary_model, settings.notes_model) if model]
    return list(dict.fromkeys(names))
