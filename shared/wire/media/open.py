"""The media store that the settings choose."""

from __future__ import annotations

from typing import Any

from shared.config.settings import Settings
from shared.wire.media.in_files import MediaFolder
from shared.wire.media.in_redis import MediaInRedis
from shared.wire.media.store import MediaStore

#: How much the files of a day may take in Redis together, in bytes.
MOST_BYTES = 256_000_000


def open_media(settings: Settings, redis: Any) -> MediaStore:
    """`redis`: an asynchronous client that returns bytes."""
    if settings.media_dir is not None:
        return MediaFolder(settings.media_dir)
    return MediaInRedis(redis, MOST_BYTES)
