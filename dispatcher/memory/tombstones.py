"""Tombstones: what is to be forgotten. The reader obeys them immediately, and every night applies them permanently.

The order of the writes matters: first the file in the state directory (from then on nothing covered is injected), then Redis (from where the
next night archives it), then the day's copies. After a crash in between, `announce` is repeated.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from shared.errors import StorageError
from shared.search.types import HiddenTurns
from shared.system.files import locked_file, make_dir, read_own, write_atomic
from shared.text.logs import Logger
from shared.text.translations import later
from shared.turns.records import ROLES, RecordRefused, Task, Tombstone, Turn
from shared.wire import keys
from shared.wire.ids import bot_of
from shared.wire.json import record_of

if TYPE_CHECKING:
    from redis import Redis

log = Logger()
NAME = "forgotten.jsonl"
#: The answer to a task that was forgotten while it waited in the queue.
FORGOTTEN = later("This message was forgotten before it was answered.")
#: The largest difference in seconds between the times of a conversation's entry and of the same turn.
SAME_MOMENT_SECONDS = 2.0


class Forgotten:
    """The day host's filter: `<HMEM_STATE_DIR>/forgotten.jsonl`, one tombstone a line. Thread-safe, and shared by all processes of the host."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / NAME
        self._lock = threading.Lock()
        self._read_at: tuple[int, int, int] | None = None
        self._tombstones: dict[str, list[Tombstone]] = {}

    def of(self, chat_id: str) -> list[Tombstone]:
        """The chat's tombstones. StorageError if the file cannot be read: no memory is better than a forgotten one."""
        with self._lock:
            self._refresh()
            return list(self._tombstones.get(chat_id, ()))

    def all(self) -> list[Tombstone]:
        with self._lock:
            self._refresh()
            return [tombstone for tombstones in self._tombstones.values() for tombstone in tombstones]

    def covers(self, turn: Turn) -> bool:
        return any(tombstone.covers(turn) for tombstone in self.of(turn.chat_id))

    def is_gone(self, task: Task, answered_at: float, *, if_hidden: bool) -> bool:
        """Whether an exchange is to be erased permanently. Tombstones that only hide count only `if_hidden`: a tag of this exchange may have made
        them."""
        return erases(self.of(task.chat_id), task, answered_at, or_hides=if_hidden)

    def not_applied(self, chat_id: str, applied: Mapping[str, str]) -> list[Tombstone]:
        """What was forgotten in this chat after a release with these tombstones (id → chat) was built."""
        return [tombstone for tombstone in self.of(chat_id) if tombstone.tombstone_id not in applied]

    def add(self, tombstone: Tombstone) -> None:
        """Durable when it returns. Written once for each tombstone id, and again when it erases what was only hidden."""
        name, erase = tombstone.tombstone_id, tombstone.erase
        try:
            with locked_file(make_dir(self._path.parent) / f"{NAME}.lock"):
                known = read_own(self._path) if os.path.lexists(self._path) else b""
                if not any(one.tombstone_id == name and one.erase >= erase for one in _parse(known)):
                    write_atomic(self._path, known + tombstone.to_json() + b"\n")
        except OSError as error:
            raise StorageError(
                f"{self._path} cannot be written: {error}. Nothing was forgotten. Check the disk, then try again."
            ) from error

    def _refresh(self) -> None:
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            self._tombstones, self._read_at = {}, None
            return
        except OSError as error:
            raise StorageError(
                f"{self._path} cannot be read: {error}. Check the disk and the file's permissions."
            ) from error
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen == self._read_at:
            return
        tombstones: dict[str, list[Tombstone]] = {}
        for tombstone in _parse(read_own(self._path)):
            tombstones.setdefault(tombstone.chat_id, []).append(tombstone)
        self._tombstones, self._read_at = tombstones, seen


def _parse(content: bytes) -> list[Tombstone]:
    try:
        return [Tombstone.parse(line) for line in content.splitlines() if line.strip()]
    except RecordRefused as error:
        raise StorageError(
            f"{NAME} has a line that is not a tombstone: {error}. Fix that line; nothing is recalled until then."
        ) from error


def announce(client: Redis, tombstones: list[Tombstone]) -> int:
    """Write these tombstones to Redis, from where the next night archives them; returns how many were new."""
    new = 0
    for tombstone in tombstones:
        if client.lpos(keys.TOMBSTONES, tombstone.to_json().decode()) is None:
            client.rpush(keys.TOMBSTONES, tombstone.to_json())
            new += 1
    return new


def raise_mark(client: Redis) -> str:
    """Ask every running dispatcher to drop its caches (cache_dropping.py); returns the mark that its lease has once that is done."""
    mark = uuid4().hex
    client.set(keys.FORGOTTEN, mark)
    return mark


def end_conversation(client: Redis, chat_id: str) -> None:
    """End a chat's conversation: delete its session, its recent history, what `/why` explains, and a digest that no bot has sent.

    `finish.lua` does the same with `forget`. A task that is running sees that its session was ended, and adds nothing to the next one.
    """
    client.delete(*keys.conversation(chat_id))
    outbox = keys.outbox(bot_of(chat_id))
    found = [client.lindex(outbox, at) for at in range(client.llen(outbox))]  # a dispatcher has no LRANGE
    for raw in cast(list[bytes | None], found):
        message = record_of(raw or b"")
        if message.get("digest") is True and message.get("chat_id") == chat_id:
            client.lrem(outbox, 0, cast(str, raw))


def erases(tombstones: Sequence[Tombstone], task: Task, now: float, *, or_hides: bool = False) -> bool:
    """Whether one of a chat's tombstones erases a task (or hides it). A task without a time counts as submitted now."""
    submitted_at = now if task.submitted_at is None else min(task.submitted_at, now)
    question = Turn(task.task_id, "user", task.chat_id, "", submitted_at)
    return any((tombstone.erase or or_hides) and tombstone.covers(question) for tombstone in tombstones)


class ErasedEntries:
    """Which entries of a chat's current conversation are erased. Such entries have a role and a time, but no turn id."""

    def __init__(self, tombstones: Sequence[Tombstone]) -> None:
        erasing = [tombstone for tombstone in tombstones if tombstone.erase]
        self._before = hidden_by(erasing)[1]
        self._moments = {
            role: sorted(
                at for tombstone in erasing for turn_id, at in tombstone.said_at.items() if turn_id.endswith(f":{role}")
            )
            for role in ROLES
        }

    def cover(self, role: str, at: float) -> bool:
        """`role` is a turn's."""
        if self._before is not None and at < self._before:
            return True
        moments = self._moments[role]
        nearest = moments[bisect_left(moments, at - SAME_MOMENT_SECONDS) :][:1]
        return bool(nearest) and nearest[0] <= at + SAME_MOMENT_SECONDS


def hidden_by(tombstones: Sequence[Tombstone]) -> HiddenTurns:
    """What these tombstones say is forgotten."""
    named = [tombstone.named for tombstone in tombstones if tombstone.named]
    ids = named[0] if len(named) == 1 else frozenset[str]().union(*named)  # that of an undone import may name very many
    times = [one.created_at if one.before is None else one.before for one in tombstones if one.turn_ids is None]
    return HiddenTurns(ids, max(times, default=None))
