"""The embedder `fastembed`: models of fastembed, downloaded once."""

from __future__ import annotations

from pydantic import Field

from shared.config.feature_settings import FeatureSettings
from shared.config.kinds import EmbedderKind
from shared.config.values import AbsolutePath
from shared.hooks import hook


class FastembedSettings(FeatureSettings):
    fastembed_cache_path: AbsolutePath | None = Field(
        None,
        description="folder with the models of EMBEDDER=fastembed, downloaded by python -m shared.embedding.fastembed; unset: ~/.cache/fastembed",
    )


@hook
def embedder() -> EmbedderKind:
    again = "delete it under FASTEMBED_CACHE_PATH and fetch it again (python -m shared.embedding.fastembed)"
    return EmbedderKind("fastembed", "fastembed", again)
