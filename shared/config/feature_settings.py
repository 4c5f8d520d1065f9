"""The settings of features, which belong to them (shared/hooks.py) and are read with all others."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from shared.hooks import feature_modules

CONFIG = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, validate_default=True, defer_build=True)


class FeatureSettings(BaseModel):
    """One field a setting, as in `Settings`."""

    model_config = CONFIG


Part = TypeVar("Part", bound=FeatureSettings)


@cache
def feature_settings() -> tuple[type[FeatureSettings], ...]:
    """The models of the features that are there."""
    modules = (*feature_modules("settings"), *feature_modules("feature"))
    return tuple(one for module in modules for one in vars(module).values() if _is_own(one, module.__name__))


def _is_own(value: object, module: str) -> bool:
    """Whether it is the model that this module defines."""
    return isinstance(value, type) and issubclass(value, FeatureSettings) and value.__module__ == module
