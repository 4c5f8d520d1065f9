"""Where the files of messages are between bot and dispatcher: by their SHA-256, for a day; a task has only the hash (shared/turns/media.py).

With MEDIA_DIR they are in a folder that both can use, else in Redis, where all of them together have a limit: media must not fill the Redis that
holds the conversations. Whoever reads one checks its hash.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

#: How long a file is kept. Seconds.
KEPT_SECONDS = 86_400


class MediaRefused(Exception):
    """A file is not stored; the text is a sentence for its sender."""


class MediaStore(Protocol):
    """Every call may be repeated."""

    async def put(self, content: bytes) -> str:
        """Store a file; its SHA-256. MediaRefused if there is no room."""

    async def get(self, sha256: str) -> bytes | None:
        """The file, or None if it is not there (any more), or is not what was stored."""

    async def remove_old(self) -> None:
        """Remove what is older than a day."""


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
