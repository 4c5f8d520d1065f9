"""Pull the Ollama models that the settings name and the server does not have, with progress (`hmem-night run --pull`)."""

from __future__ import annotations

from contextlib import closing

from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.embedding.known_models import known_model
from shared.embedding.open import open_ollama
from shared.errors import EmbeddingError


def pull_missing(settings: Settings, report: Reporter) -> None:
    """Never raises if the server fails: the night exports and archives without it, and its steps report what is missing."""
    names = _wanted(settings)
    if not names:
        return
    try:
        with closing(open_ollama(settings)) as server:
            for name in names:
                if server.find(name) is None:
                    report.amounts(server.pull(name), f"pull {name}")
                    server.digest(name)  # raises if the model is still missing
    except EmbeddingError as error:
        report.say(f"Nothing was pulled: {error}")


def _wanted(settings: Settings) -> list[str]:
    names = []
    if settings.embedder == "ollama" and settings.indexes:
        known_model(settings.model_name, "ollama")  # a typo is reported before gigabytes are downloaded
        names.append(settings.model_name)
    names += [model for model in (settings.summary_model, settings.notes_model) if model]
    return list(dict.fromkeys(names))
