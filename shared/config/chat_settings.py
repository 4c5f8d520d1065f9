"""Settings of what people see in the chat: how answers appear, and what the bot understands beside text."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ChatSettings(BaseModel):
    """A part of `Settings`."""

    schedule_limit: int = Field(
        10, ge=0, description="scheduled questions (/every) that a chat may ask on a day in its time zone; 0: none"
    )
