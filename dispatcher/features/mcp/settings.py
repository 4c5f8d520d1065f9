"""The setting of the memory tools."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.config.feature_settings import FeatureSettings


class McpSettings(FeatureSettings):
    memory_mcp: Literal["off", "read", "add"] = Field(
        "off",
        description="give Claude the chat's memory as MCP tools: to read, or also to add",
    )
