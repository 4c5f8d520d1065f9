"""Where the files of messages are between bot and dispatcher: in Redis by their SHA-256, for a day; a task has only the hash (shared/turns/media.py).

All of them together have a limit: media must not fill the Redis that holds the conversations. Whoever reads one checks its hash.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

from shared.wire import keys

#: How long a file is kept. Seconds.
KEPT_SECONDS = 86_400
#: How much the files of a day may take together, in bytes.
LIMIT_BYTES = 256_000_000
FULL = "Too many files of today's messages are stored, so I could not take this one. Please send it again tomorrow, or write what it says."

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class MediaRefused(Exception):
    """A file is not stored; the text is a sentence for its sender."""


class MediaStore:
    """Values that expire after a day; one script stores them. Every call may be repeated. `redis`: an asynchronous client that returns bytes."""

    def __init__(self, redis: Any, most: int = LIMIT_BYTES) -> None:
        self._redis, self._most = redis, most
        self._put = redis.register_script((Path(__file__).parent / "lua" / "put.lua").read_text(encoding="utf-8"))

    async def put(self, content: bytes) -> str:
        """Store a file; its SHA-256. MediaRefused if there is no room."""
        name = hashlib.sha256(content).hexdigest()
        stored = await self._put(
            keys=[keys.MEDIA, keys.media(name)],
            args=[f"{len(content)}:{name}", content, int(time.time()), KEPT_SECONDS, self._most],
        )
        if stored < 0:
            raise MediaRefused(FULL)
        return name

    async def get(self, sha256: str) -> bytes | None:
        """The file, or None if it is not there (any more), or is not what was stored."""
        if not _SHA256.match(sha256):
            return None
        content = await cast(Awaitable[bytes | None], self._redis.get(keys.media(sha256)))
        return content if content is not None and hashlib.sha256(content).hexdigest() == sha256 else None
