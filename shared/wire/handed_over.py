"""Imports on their way to an archive on another host: read where the files are, in Redis until the next night there takes them in.

    hcli:mem:imports            name → JSON, as `HandedImport`
    hcli:mem:imports:<sha256>   the list of its pieces: the file that `hmem-night backfill` stages (nightly/imports/staging.py), compressed

The entry is written last, and deleted first: an import is there as a whole or not at all, and pieces that a killed process leaves without an entry
expire. Of one that the night has taken, the entry stays with its outcome. Nothing is signed: whoever may write here may also write turns. The night
compares the file with its hash.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from redis import RedisError, ResponseError

from shared.errors import InvalidInput
from shared.wire import keys

#: Digits of the hash by which people name an import.
NAME_DIGITS = 12
#: How much all imports that wait may take in Redis, in bytes; of what a file is compressed and sent at once; and how large a file may become again.
MOST_BYTES, PIECE_BYTES, MOST_UNPACKED = 200_000_000, 4_000_000, 4_000_000_000
#: Pieces that a killed process has left without an entry go after so long; an outcome is shown so long. Seconds.
UNFINISHED_SECONDS, OUTCOME_SECONDS = 86_400, 90 * 86_400


class HandedImport(BaseModel):
    """`chats`: id → turns; `size`: bytes in Redis; `at`, `done_at`: POSIX seconds; `run`: of the night that has begun to read it, so that it
    cannot be taken back any more; `outcome`: how many turns were new, known …; `damaged`: it was not what was handed over, and the night left it
    out."""

    model_config = ConfigDict(strict=True, frozen=True)

    sha256: str = Field(pattern=r"\A[0-9a-f]{64}\z")
    source: str
    files: list[str]
    chats: dict[str, int]
    at: float
    size: int = 0
    run: int | None = None
    done_at: float | None = None
    outcome: dict[str, int] = {}
    damaged: bool = False

    @property
    def name(self) -> str:
        return self.sha256[:NAME_DIGITS]

    @property
    def waits(self) -> bool:
        return self.done_at is None

    @property
    def key(self) -> str:
        return keys.handed_import(self.sha256)


class ImportHandOver:
    """Both sides. `redis`: a client that returns bytes; `most`: bytes of all imports that wait."""

    def __init__(self, redis: Any, most: int = MOST_BYTES) -> None:
        self._redis, self._most = redis, most

    def all(self) -> list[HandedImport]:
        """The oldest first; an entry that no program of ours has written is left out."""
        if self._redis.type(keys.IMPORTS) != b"hash":
            return []
        found = list[HandedImport]()
        for name, raw in self._redis.hgetall(keys.IMPORTS).items():
            with suppress(ValidationError):
                one = HandedImport.model_validate_json(raw)
                found += [one] if one.name.encode() == name else []
        return sorted(found, key=lambda one: (one.at, one.name))

    def waiting(self) -> list[HandedImport]:
        return [one for one in self.all() if one.waits]

    def put(self, path: Path, about: HandedImport) -> HandedImport:
        """Hand a staged file over, unless it waits already; InvalidInput if there is no room. Nothing remains of one that fails."""
        waiting = {one.sha256: one for one in self.waiting()}
        same = waiting.pop(about.sha256, None)
        if same and self._redis.exists(same.key):
            return same
        self._redis.unlink(about.key)
        room = self._room(sum(one.size for one in waiting.values()))
        size = 0
        try:
            for piece in _compressed(path):
                size += len(piece)
                if size > room:
                    raise InvalidInput(
                        f"The import is too large to be handed to the night's host: there is room for {max(room, 0) / 1e6:.1f} MB in Redis, "
                        "compressed. Import it there, with hmem-night backfill FILE, or in parts."
                    )
                self._redis.rpush(about.key, piece)
                self._redis.expire(about.key, UNFINISHED_SECONDS)
        except (InvalidInput, RedisError):
            self._redis.unlink(about.key)
            raise
        whole = about.model_copy(update={"size": size})
        with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.IMPORTS, whole.name, whole.model_dump_json())
            pipe.persist(whole.key)
            pipe.execute()
        return whole

    def _room(self, waiting: int) -> int:
        """Bytes for another import. A full Redis takes no messages any more: half of what its memory has left is for them."""
        memory = self._redis.info("memory")
        left = memory["maxmemory"] - memory["used_memory"] if memory["maxmemory"] else 2 * self._most
        return int(min(self._most - waiting, left // 2))

    def take(self, one: HandedImport, run: int) -> None:
        """A night begins to read it: from now on it cannot be taken back."""
        self._note(one.model_copy(update={"run": run}))

    def content(self, one: HandedImport) -> Iterator[bytes]:
        """The file again; ValueError if it is damaged."""
        reading, length = zlib.decompressobj(), 0
        try:
            for number in range(self._redis.llen(one.key)):
                packed = self._redis.lindex(one.key, number) or b""
                while packed:
                    piece = reading.decompress(packed, PIECE_BYTES)
                    packed, length = reading.unconsumed_tail, length + len(piece)
                    if length > MOST_UNPACKED:
                        raise ValueError("it is larger than an import can be")
                    yield piece
        except (zlib.error, ResponseError) as error:  # or a key of another type
            raise ValueError("it was damaged on its way") from error

    def done(self, one: HandedImport, *, outcome: dict[str, int], damaged: bool = False) -> None:
        """The night has taken it in. Content that a killed one has left goes, too, and outcomes that nobody asks for any more."""
        now = time.time()
        ended = one.model_copy(update={"done_at": now, "outcome": outcome, "damaged": damaged})
        self._note(ended)
        for each in self.all():
            if each.done_at is not None:
                self._redis.unlink(each.key)
                if each.done_at < now - OUTCOME_SECONDS:
                    self._redis.hdel(keys.IMPORTS, each.name)

    def _note(self, one: HandedImport) -> None:
        self._redis.hset(keys.IMPORTS, one.name, one.model_dump_json())

    def take_back(self, one: HandedImport) -> None:
        self._redis.expire(one.key, UNFINISHED_SECONDS)
        self._redis.hdel(keys.IMPORTS, one.name)
        self._redis.unlink(one.key)


def _compressed(path: Path) -> Iterator[bytes]:
    packing = zlib.compressobj()
    with path.open("rb") as handle:
        while read := handle.read(PIECE_BYTES):
            if piece := packing.compress(read):
                yield piece
    yield packing.flush()
