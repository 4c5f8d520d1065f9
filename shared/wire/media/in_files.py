"""Media as files in MEDIA_DIR, named by their hash: readable by the folder's group, written whole or not at all.

The folder belongs to the owner's choice of user and group (mode 2770): bot and dispatcher are two users that meet only there. What one finds under
a hash may have been written by the other, so it is read without following links, and its hash is checked.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from shared.wire.media.store import KEPT_SECONDS, MediaRefused, sha256_of

_NAME = re.compile(r"[0-9a-f]{64}\Z")
_TEMPORARY = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{8}\.tmp\Z")
NO_ROOM = "I could not store this file on my server, so I did not read it. My owner has to check MEDIA_DIR; please send it again then."


class MediaFolder:
    """A `MediaStore`."""

    def __init__(self, folder: Path, kept_seconds: float = KEPT_SECONDS) -> None:
        self._folder, self._kept_seconds = folder, kept_seconds

    async def put(self, content: bytes) -> str:
        return await asyncio.to_thread(self._put, content)

    async def get(self, sha256: str) -> bytes | None:
        return await asyncio.to_thread(self._get, sha256)

    async def remove_old(self) -> None:
        await asyncio.to_thread(self._remove_old)

    def _put(self, content: bytes) -> str:
        name = sha256_of(content)
        path = self._folder / name
        temporary = self._folder / f".{name}.{uuid.uuid4().hex[:8]}.tmp"
        try:
            if not self._folder.is_dir():
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._folder.chmod(0o2770)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o640)
            with os.fdopen(descriptor, "wb") as handle:
                os.fchmod(descriptor, 0o640)  # whatever the umask
                handle.write(content)
                handle.flush()
                os.fsync(descriptor)
            temporary.replace(path)
            self._make_durable()
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise MediaRefused(NO_ROOM) from error
        return name

    def _make_durable(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _get(self, sha256: str) -> bytes | None:
        if not _NAME.match(sha256):
            return None
        try:
            descriptor = os.open(self._folder / sha256, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as handle:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = handle.read()
        return content if sha256_of(content) == sha256 else None

    def _files(self) -> Iterator[Path]:
        """Ours only: whatever else is in the folder stays."""
        if self._folder.is_dir():
            yield from (one for one in self._folder.iterdir() if _NAME.match(one.name) or _TEMPORARY.match(one.name))

    def remove_except(self, needed: Collection[str]) -> int:
        """Remove all files but these; returns how many."""
        gone = [one for one in self._files() if one.name not in needed]
        for one in gone:
            one.unlink(missing_ok=True)
        return len(gone)

    def _remove_old(self) -> None:
        oldest = time.time() - self._kept_seconds
        for one in self._files():
            with suppress(OSError):  # the other process was quicker, or it is the other's
                if one.lstat().st_mtime < oldest:
                    one.unlink()
