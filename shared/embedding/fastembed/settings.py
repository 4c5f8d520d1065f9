"""The settings of this embedder."""

from __future__ import annotations

from shared.config.feature_settings import FeatureSettings
from shared.config.values import AbsolutePath


class FastembedSettings(FeatureSettings):
    fastembed_cache_path: AbsolutePath | None = None
    """folder with the models of fastembed; unset: ~/.cache/fastembed"""
