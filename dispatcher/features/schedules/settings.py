"""The setting of scheduled questions."""

from __future__ import annotations

from pydantic import Field

from shared.config.feature_settings import FeatureSettings


class ScheduleSettings(FeatureSettings):
    schedule_limit: int = Field(10, ge=0, description="most scheduled questions (/every) of a chat a day")
