"""The settings of this embedder."""

from __future__ import annotations

from pydantic import Field

from shared.config.feature_settings import FeatureSettings
from shared.config.values import AbsolutePath


class FastembedSettings(FeatureSettings):
    fastembed_cache_path: AbsolutePath | None = Field(
        None,
        description="folder with the models of fastembed; unset: ~/.cache/fastembed",
    )
