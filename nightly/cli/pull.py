"""Pull: fetch the Ollama models that the settings name and the server lacks, with progress (`hmem-night run --pull`)."""

from __future__ import annotations

from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.embedding.models import known_model
from shared.embedding.open import open_ollama
from shared.errors import EmbeddingError


def pull_missing(settings: Settings, report: Reporter) -> None:
    """Never raises for the server: the night exports and archives without it, and its own steps say what is missing."""
    names = _wanted(settings)
    if not names:
        return
    try:
        server = open_ollama(settings)
        try:
            for name in names:
                if server.find(name) is None:
                    report.amounts(server.pull(name), f"pull {name}")
                    server.digest(name)  # or it says that the model is not there after all
        finally:
            server.close()
    except EmbeddingError as error:
        report.say(f"Nothing was pulled: {error}")


def _wanted(settings: Settings) -> list[str]:
    names = []
    if settings.embedder == "ollama" and settings.indexes:
        known_model(settings.embed_model, "ollama")  # a typo is said before gigabytes are fetched
        names.append(settings.embed_model)
    if settings.summary_model:
        names.append(settings.summary_model)
    return names
