"""The media store that the settings choose: a folder (in_files.py), or Redis."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

from shared.config.settings import Settings
from shared.wire import keys
from shared.wire.media.in_files import MediaFolder
from shared.wire.media.store import KEPT_SECONDS, MediaRefused, MediaStore, sha256_of

#: How much the files of a day may take in Redis together, in bytes.
MOST_BYTES = 256_000_000
FULL = "Too many files of today's messages are stored, so I could not take this one. Please send it again tomorrow, or write what it says."

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def open_media(settings: Settings, redis: Any) -> MediaStore:
    """`redis`: an asynchronous client that returns bytes."""
    if settings.media_dir is not None:
        return MediaFolder(settings.media_dir)
    return MediaInRedis(redis, MOST_BYTES)


class MediaInRedis:
    """A `MediaStore`: values that expire after a day. One script stores them, so that all together never exceed `most` bytes."""

    def __init__(self, redis: Any, most: int) -> None:
        self._redis, self._most = redis, most
        self._put = redis.register_script((Path(__file__).parent / "lua" / "put.lua").read_text(encoding="utf-8"))

    async def put(self, content: bytes) -> str:
        name = sha256_of(content)
        stored = await self._put(
            keys=[keys.MEDIA, keys.media(name)],
            args=[f"{len(content)}:{name}", content, int(time.time()), KEPT_SECONDS, self._most],
        )
        if stored < 0:
            raise MediaRefused(FULL)
        return name

    async def get(self, sha256: str) -> bytes | None:
        if not _SHA256.match(sha256):
            return None
        content = await cast(Awaitable[bytes | None], self._redis.get(keys.media(sha256)))
        return content if content is not None and sha256_of(content) == sha256 else None

    async def remove_old(self) -> None:
        """They expire by themselves."""
