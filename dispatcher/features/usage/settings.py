"""The settings of this feature."""

from __future__ import annotations

from typing import Annotated

from dispatcher.features.usage.limits import DailyLimits
from shared.config.feature_settings import BOT, FeatureSettings, Touched
from shared.config.values import accepted_by


class UsageSettings(FeatureSettings):
    daily_limit: Annotated[str, accepted_by(DailyLimits.parse), Touched(BOT, by_hand=True)] = ""
    """what Claude may cost a day: 1 USD (each chat), all 10 USD, 4242 200k tokens, 77 none"""
