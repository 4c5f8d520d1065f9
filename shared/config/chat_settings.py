"""Settings of what people see in the chat: how answers appear, and what the bot understands beside text."""

from __future__ import annotations

from pydantic import BaseModel, Field

from shared.config.values import AbsolutePath


class ChatSettings(BaseModel):
    """A part of `Settings`."""

    media_dir: AbsolutePath | None = Field(
        None,
        description="folder for the files of messages that bot and dispatcher share (mode 2770, a group of both); unset: in Redis, for a day",
    )
    media_bytes: int = Field(
        20_000_000,
        ge=1_000,
        le=2_000_000_000,
        description="largest file that the bot fetches, in bytes; Telegram gives bots 20 MB at most, a Bot API server of one's own more",
    )
    media_redis_bytes: int = Field(
        256_000_000,
        ge=1_000,
        description="without MEDIA_DIR: how much the files of a day may take in Redis together, in bytes; more are refused with a sentence",
    )

    keep_media: bool = Field(
        False,
        description="keep the files of messages themselves for ever: in the archive, in its mirror and in exports, until they are forgotten",
    )
    keep_media_bytes: int = Field(
        256_000_000,
        ge=1_000,
        description="with KEEP_MEDIA: how much the files that wait for the night may take in Redis together, in bytes; more are not kept",
    )
