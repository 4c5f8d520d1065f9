"""The embedder `ollama`: models of an Ollama server, which also writes texts (SUMMARY_MODEL, NOTES_MODEL)."""

from __future__ import annotations

from pydantic import Field

from shared.config.feature_settings import FeatureSettings
from shared.config.kinds import EmbedderKind
from shared.config.values import HttpUrl
from shared.hooks import hook


class OllamaSettings(FeatureSettings):
    ollama_url: HttpUrl = Field("http://127.0.0.1:11434", description="the Ollama server")
    ollama_timeout: float = Field(120.0, gt=0, description="time limit of one request to Ollama, in seconds")


@hook
def embedder() -> EmbedderKind:
    return EmbedderKind("ollama", "ollama", "pull it again (ollama pull) and restart Ollama")
