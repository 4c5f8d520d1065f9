"""The index `qdrant`: collections on a Qdrant server."""

from __future__ import annotations

from pydantic import Field, SecretStr

from shared.config.feature_settings import FeatureSettings
from shared.config.kinds import IndexKind
from shared.config.values import BlankIsUnset, HttpUrl
from shared.hooks import hook


class QdrantSettings(FeatureSettings):
    qdrant_url: HttpUrl | None = Field(None, description="the Qdrant server, such as http://127.0.0.1:6333", repr=False)
    qdrant_api_key: BlankIsUnset[SecretStr] = Field(None, description="its API key, if it requires one")


@hook
def vector_index() -> IndexKind:
    return IndexKind(
        "qdrant", "qdrant.json", part="qdrant", server=lambda settings: settings.of(QdrantSettings).qdrant_url
    )
