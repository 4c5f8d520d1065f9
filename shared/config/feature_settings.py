"""The settings of features, which belong to them (shared/hooks.py) and are read with all others."""

from __future__ import annotations

from functools import cache
from typing import TypeVar, cast

from pydantic import BaseModel, ConfigDict

from shared.hooks import features, settings

CONFIG = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, validate_default=True, defer_build=True)


class FeatureSettings(BaseModel):
    """One field a setting, as in `Settings`."""

    model_config = CONFIG


Part = TypeVar("Part", bound=FeatureSettings)


@cache
def feature_settings() -> tuple[type[FeatureSettings], ...]:
    """The models of the features that are there."""
    return tuple(cast(list[type[FeatureSettings]], features().ask(settings)))
