"""The settings of this feature."""

from __future__ import annotations

from pydantic import Field, field_validator

from dispatcher.features.usage.limits import DailyLimits
from shared.config.feature_settings import FeatureSettings


class UsageSettings(FeatureSettings):
    daily_limit: str = Field(
        "",
        description="what Claude may cost on a day, in each chat, in one or in all together, such as: 1 USD, all 10 USD, 4242 200k tokens, 77 none",
    )

    @field_validator("daily_limit")
    @classmethod
    def _limits(cls, value: str) -> str:
        DailyLimits.parse(value)
        return value
