"""Settings of what people see in the chat: how answers appear, and what the bot understands beside text."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ChatSettings(BaseModel):
    """A part of `Settings`."""

    stream: bool = Field(
        True,
        description="show an answer while it is written: in private chats as a draft, elsewhere by edits; false: only when it is complete",
    )
    buttons: bool = Field(
        True,
        description="Why? and Retry below the newest answer in a private chat, Stop below a placeholder; lists and questions always have buttons",
    )
    schedule_limit: int = Field(
        10, ge=0, description="scheduled questions (/every) that a chat may ask on a day in its time zone; 0: none"
    )
