"""The settings of this embedder."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.config.feature_settings import NIGHT, FeatureSettings, Touched
from shared.config.values import HttpUrl


class OllamaSettings(FeatureSettings):
    ollama_url: HttpUrl = "http://127.0.0.1:11434"
    """the Ollama server"""

    ollama_timeout: Annotated[float, Field(gt=0), Touched(NIGHT)] = 120.0
    """time limit of one request to Ollama, in seconds"""
