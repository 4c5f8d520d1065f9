"""The settings of this embedder."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.config.feature_settings import NIGHT, FeatureSettings, Touched
from shared.config.values import HttpUrl


class OllamaSettings(FeatureSettings):
    ollama_url: HttpUrl = Field("http://127.0.0.1:11434", description="the Ollama server")
    ollama_timeout: Annotated[float, Touched(NIGHT)] = Field(
        120.0, gt=0, description="time limit of one request to Ollama, in seconds"
    )
