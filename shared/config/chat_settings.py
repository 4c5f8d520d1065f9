"""Settings of what people see in the chat: how answers appear, and what the bot understands beside text."""

from __future__ import annotations

from pydantic import BaseModel


class ChatSettings(BaseModel):
    """A part of `Settings`."""
