"""The setting of scheduled questions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.config.feature_settings import BOT, FeatureSettings, Touched


class ScheduleSettings(FeatureSettings):
    schedule_limit: Annotated[int, Field(ge=0), Touched(BOT)] = 10
    """most scheduled questions (/every) of a chat a day"""
