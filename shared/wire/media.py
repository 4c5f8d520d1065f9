"""The files that come with messages: in Redis by their SHA-256, for a day, between bot and dispatcher; a task has only the hash
(shared/turns/media.py).

All of them together have a limit: media must not fill the Redis that holds the conversations. Whoever reads one checks its hash.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from shared.wire import keys

#: How long a file is kept. Seconds.
KEPT_SECONDS = 86_400
#: How much the files of a day may take together, in bytes.
LIMIT_BYTES = 256_000_000
FULL = "Too many files of today's messages are stored, so I could not take this one. Please send it again tomorrow, or write what it says."


class MediaRefused(Exception):
    """A file is not stored; the text is a sentence for its sender."""


class MediaStore:
    """Values that expire after a day; one script stores them. Every call may be repeated. `redis`: an asynchronous client that returns bytes."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        self._put = redis.register_script((Path(__file__).parent / "lua" / "put.lua").read_text(encoding="utf-8"))

    async def put(self, content: bytes) -> str:
        """Store a file; its SHA-256. MediaRefused if there is no room."""
        name = hashlib.sha256(content).hexdigest()
        stored = await self._put(
            keys=[keys.MEDIA, keys.media(name)],
            args=[f"{len(content)}:{name}", content, int(time.time()), KEPT_SECONDS, LIMIT_BYTES],
        )
        if stored < 0:
            raise MediaRefused(FULL)
        return name

    async def get(self, sha256: str) -> bytes | None:
        """The file, or None if it is not there (any more), or is not what was stored."""
        content = await cast(Awaitable[bytes | None], self._redis.get(keys.media(sha256)))
        return content if content is not None and hashlib.sha256(content).hexdigest() == sha256 else None


# KEEP_MEDIA: files that wait in Redis for the night, which archives them (nightly/archive/media/). They do not expire: a verified copy removes them.
#
#     hcli:mem:kept                      task id:SHA-256 → size:POSIX seconds:chat id
#     hcli:mem:kept:<task id>:<SHA-256>  the bytes
#
# A file is named by the message that it came with, so that forgetting a message removes its files, and nobody else's.


_FIELD = re.compile(r"([A-Za-z0-9_-]{1,100}):([0-9a-f]{64})\Z")


@dataclass(frozen=True)
class WaitingFile:
    """A file that waits for the night. `at`: when it was kept (POSIX seconds), 0 where the list does not say; `chat_id`: "" where it does not."""

    task_id: str
    sha256: str
    size: int = 0
    at: float = 0.0
    chat_id: str = ""

    @property
    def field(self) -> str:
        return f"{self.task_id}:{self.sha256}"

    @property
    def key(self) -> str:
        return keys.kept(self.task_id, self.sha256)

    @property
    def turn_id(self) -> str:
        return f"{self.task_id}:user"

    @classmethod
    def parse(cls, field: bytes, value: bytes = b"") -> Self | None:
        """Of an entry of the list; None for one that no program of ours has written."""
        found = _FIELD.match(field.decode("utf-8", "replace"))
        if found is None:
            return None
        size, _, more = value.decode("utf-8", "replace").partition(":")
        at, _, chat_id = more.partition(":")
        return cls(found[1], found[2], _number(size), float(_number(at)), chat_id)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def waiting_files(listed: Mapping[bytes, bytes], names: Iterable[bytes] = ()) -> Iterator[WaitingFile]:
    """Those of the list, and those of keys that the list lacks."""
    prefix = f"{keys.KEPT}:".encode()
    lacking = {name.removeprefix(prefix) for name in names} - set(listed)
    for field, value in sorted([*listed.items(), *((name, b"") for name in lacking)]):
        if (one := WaitingFile.parse(field, value)) is not None:
            yield one


#: How much the files that wait for the night may take in Redis together, in bytes; more are not kept.
MOST_BYTES = 256_000_000


class KeptFiles:
    """The dispatcher's side. Every call may be repeated."""

    def __init__(self, redis: Any) -> None:
        self._keep = redis.register_script((Path(__file__).parent / "lua" / "keep.lua").read_text(encoding="utf-8"))

    async def keep(self, task_id: str, chat_id: str, sha256: str, content: bytes | None) -> bool:
        """Keep a file; False if there is no room. Without its content: whether it is kept already."""
        if content is not None and len(content) > MOST_BYTES:
            return False
        one = WaitingFile(task_id, sha256)
        about = f"{len(content or b'')}:{int(time.time())}:{chat_id}"
        done = await self._keep(keys=[keys.KEPT, one.key], args=[one.field, content or b"", about, MOST_BYTES])
        return int(done) == 1
