"""The settings of this index."""

from __future__ import annotations

from pydantic import Field, SecretStr

from shared.config.feature_settings import FeatureSettings
from shared.config.values import BlankIsUnset, HttpUrl


class QdrantSettings(FeatureSettings):
    qdrant_url: HttpUrl | None = Field(None, repr=False)
    """the Qdrant server, such as http://127.0.0.1:6333"""

    qdrant_api_key: BlankIsUnset[SecretStr] = None
    """its API key, if it requires one"""
