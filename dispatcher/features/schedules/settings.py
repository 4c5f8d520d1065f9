"""The setting of scheduled questions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.config.feature_settings import BOT, FeatureSettings, Touched


class ScheduleSettings(FeatureSettings):
    schedule_limit: Annotated[int, Touched(BOT)] = Field(
        10, ge=0, description="most scheduled questions (/every) of a chat a day"
    )
