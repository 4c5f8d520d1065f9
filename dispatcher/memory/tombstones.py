"""What is to be forgotten: tombstones, which the reader obeys at once and every night applies for ever.

The order is the promise: first the file in the state directory (from then on nothing covered is injected), then Redis (from where the next
night archives it), then the copies of the day. A crash in between is mended by `announce`, which may be repeated.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog

from shared.errors import StorageError
from shared.system.files import locked_file, make_dir, read_own, write_atomic
from shared.turns.records import ROLES, RecordRefused, Task, Tombstone, Turn
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

log = structlog.get_logger()
NAME = "forgotten.jsonl"
#: What a task is answered that was forgotten before its turn came.
FORGOTTEN = "This message was forgotten before it was answered."
#: Seconds by which an entry of a conversation and the turn that it is may be apart.
SAME_MOMENT_SECONDS = 2.0


class Forgotten:
    """The day host's filter: `<HMEM_STATE_DIR>/forgotten.jsonl`, one tombstone a line. Thread-safe, and shared by all processes of the host."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / NAME
        self._lock = threading.Lock()
        self._read_at: tuple[int, int, int] | None = None
        self._stones: dict[str, list[Tombstone]] = {}

    def of(self, chat_id: str) -> list[Tombstone]:
        """The chat's tombstones. StorageError if the file cannot be read: better no memory than a forgotten one."""
        with self._lock:
            self._refresh()
            return list(self._stones.get(chat_id, ()))

    def all(self) -> list[Tombstone]:
        with self._lock:
            self._refresh()
            return [stone for stones in self._stones.values() for stone in stones]

    def covers(self, turn: Turn) -> bool:
        return any(stone.covers(turn) for stone in self.of(turn.chat_id))

    def erased(self, task: Task, answered_at: float) -> bool:
        """Whether an exchange is to be gone for good. Tombstones that only hide do not count: a tag of this very exchange may have made them."""
        return erases(self.of(task.chat_id), task, answered_at)

    def not_applied(self, chat_id: str, applied: Mapping[str, str]) -> bool:
        """Whether a release with these tombstones (id → chat) was built before something in this chat was forgotten."""
        return any(stone.tombstone_id not in applied for stone in self.of(chat_id))

    def add(self, stone: Tombstone) -> None:
        """Durable when it returns; once for each tombstone id, and once more when it erases what was only hidden."""
        with self._exclusive():
            known = read_own(self._path) if os.path.lexists(self._path) else b""
            if not any(one.tombstone_id == stone.tombstone_id and one.erase >= stone.erase for one in _parse(known)):
                write_atomic(self._path, known + stone.to_json() + b"\n")

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        try:
            with locked_file(make_dir(self._path.parent) / f"{NAME}.lock"):
                yield
        except OSError as error:
            raise StorageError(
                f"{self._path} cannot be written: {error}. Nothing was forgotten; mend the disk, then ask again."
            ) from error

    def _refresh(self) -> None:
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            self._stones, self._read_at = {}, None
            return
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read: {error}. Mend the disk or its permissions.") from error
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen == self._read_at:
            return
        stones: dict[str, list[Tombstone]] = {}
        for stone in _parse(read_own(self._path)):
            stones.setdefault(stone.chat_id, []).append(stone)
        self._stones, self._read_at = stones, seen


def _parse(content: bytes) -> list[Tombstone]:
    try:
        return [Tombstone.parse(line) for line in content.splitlines() if line.strip()]
    except RecordRefused as error:
        raise StorageError(
            f"{NAME} holds a line that is no tombstone: {error}. Mend that line; nothing is recalled until then."
        ) from error


def announce(client: Redis, stones: list[Tombstone]) -> int:
    """Bring these tombstones to Redis, from where the next night archives them; how many were not there."""
    new = 0
    for stone in stones:
        if client.lpos(keys.TOMBSTONES, stone.to_json().decode()) is None:
            client.rpush(keys.TOMBSTONES, stone.to_json())
            new += 1
    return new


def raise_mark(client: Redis) -> str:
    """Ask every dispatcher that runs to drop its caches (cache_dropping.py); the mark that its lease has once that is done."""
    mark = uuid4().hex
    client.set(keys.FORGOTTEN, mark)
    return mark


def end_conversation(client: Redis, chat_id: str) -> None:
    """What is going on in a chat is not told again: no session to resume, no short list, nothing to explain. As `finish.lua` does with `forget`.

    A task that runs meanwhile sees that its session was ended, and adds nothing to the next one.
    """
    client.delete(*keys.conversation(chat_id))


def erases(stones: Sequence[Tombstone], task: Task, now: float) -> bool:
    """Whether one of a chat's tombstones wants a task gone for good. One that does not say when it was said is taken as said now."""
    said_at = now if task.submitted_at is None else min(task.submitted_at, now)
    said = Turn(task.task_id, "user", task.chat_id, "", said_at)
    return any(stone.erase and stone.covers(said) for stone in stones)


class ErasedEntries:
    """Of a chat's conversation so far, what is to be gone for good: its entries have a role and a time, and no turn id."""

    def __init__(self, stones: Sequence[Tombstone]) -> None:
        erasing = [stone for stone in stones if stone.erase]
        self._before = hidden_by(erasing)[1]
        self._moments = {
            role: sorted(
                at for stone in erasing for turn_id, at in stone.said_at.items() if turn_id.endswith(f":{role}")
            )
            for role in ROLES
        }

    def cover(self, role: str, at: float) -> bool:
        """`role` is `user` or `assistant`."""
        if self._before is not None and at < self._before:
            return True
        moments = self._moments["user" if role == "user" else "asst"]
        nearest = moments[bisect_left(moments, at - SAME_MOMENT_SECONDS) :][:1]
        return bool(nearest) and nearest[0] <= at + SAME_MOMENT_SECONDS


def hidden_by(stones: Sequence[Tombstone]) -> tuple[frozenset[str], float | None]:
    """Turn ids that are forgotten, and the time before which everything is."""
    ids = frozenset(turn_id for stone in stones for turn_id in stone.named)
    times = [stone.created_at if stone.before is None else stone.before for stone in stones if stone.turn_ids is None]
    return ids, max(times, default=None)
