"""The setting of questions about tools; APPROVE_TOOLS is the core's, which denies those tools where nobody is asked."""

from __future__ import annotations

from pydantic import Field

from shared.config.feature_settings import FeatureSettings


class ApprovalSettings(FeatureSettings):
    approve_seconds: float = Field(
        120.0,
        gt=0,
        le=1_800,
        description="seconds that a question of APPROVE_TOOLS waits for an answer (TASK_TIMEOUT goes on); then the tool is denied",
    )
