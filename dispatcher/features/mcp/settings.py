"""The setting of the memory tools."""

from __future__ import annotations

from typing import Annotated, Literal

from shared.config.feature_settings import RECALL, FeatureSettings, Touched


class McpSettings(FeatureSettings):
    memory_mcp: Annotated[Literal["off", "read", "add"], Touched(RECALL)] = "off"
    """give Claude the chat's memory as MCP tools: to read, or also to add"""
