"""Entries that are still to be written, and what of a journal still counts: the entries of a rewritten one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from shared.delivery.journal import entries as kinds
from shared.delivery.journal.entries import packed
from shared.delivery.journal.files import COUNTS
from shared.delivery.journal.state import FINISHED, JournalState, KnownTask, open_tasks
from shared.wire import keys

#: How long a task that left the queue by itself is known, in seconds: an old copy of Redis may bring it back.
GONE_SECONDS = 7 * 86_400


class NewEntry(NamedTuple):
    """An entry before it has a number; `data`: the fields of its kind."""

    kind: str
    chat: str | None
    data: dict[str, Any]
    at: float


def new_entry(kind: str, chat: str | None, **data: Any) -> NewEntry:
    return NewEntry(kind, chat, data, time.time())


def live_items(state: JournalState, copied: Mapping[int, int], now: float) -> Iterator[NewEntry]:
    """From a whole state. `copied`: day store → count of changes up to which they are in a copy of it."""
    if state.flushed_run is not None:
        yield NewEntry(kinds.NIGHT, None, {"run": state.flushed_run}, now)
    if state.mark is not None:
        yield NewEntry(kinds.MARK, None, {"value": state.mark}, now)
    for raw, stone in state.tombstones.items():
        yield NewEntry(kinds.TOMBSTONE, stone.chat_id, {"value": packed(raw)}, stone.created_at)
    for name, turn in state.turns.items():
        if not state.covered(name, turn):
            yield NewEntry(kinds.TURN, turn.chat, {"key": name, "value": packed(turn.value)}, turn.at)
    yield from _tasks(state, now)
    yield from _keys(state, now)
    forgotten_at = _forgotten_at(state)
    for entry in state.store:
        store, count = divmod(entry.data["version"], COUNTS)
        forgotten = store not in copied and entry.at <= forgotten_at.get(entry.chat or "", 0.0)
        if count > copied.get(store, -1) and not forgotten:
            yield NewEntry(kinds.STORE, entry.chat, entry.data, entry.at)


def _tasks(state: JournalState, now: float) -> Iterator[NewEntry]:
    for name, task in [*open_tasks(state), *((name, one) for name, one in state.tasks.items() if not one.open)]:
        if (data := _task_data(state, name, task, now)) is not None:
            yield NewEntry(kinds.TASK, task.chat, {"task": name} | data, task.at)


def _keys(state: JournalState, now: float) -> Iterator[NewEntry]:
    forgotten_at = _forgotten_at(state)
    for name, key in state.keys.items():
        if (key.until is None or key.until > now) and key.at > forgotten_at.get(key.chat or "", 0.0):
            data = {"key": name, "type": key.type, "value": key.value, "until": key.until}
            yield NewEntry(kinds.KEY, key.chat, data, key.at)


def _forgotten_at(state: JournalState) -> dict[str, float]:
    """Chat → time of its last tombstone: what was known of its conversation before that goes."""
    found: dict[str, float] = {}
    for stone in state.tombstones.values():
        found[stone.chat_id] = max(found.get(stone.chat_id, 0.0), stone.created_at)
    return found


def _task_data(state: JournalState, name: str, task: KnownTask, now: float) -> dict[str, Any] | None:
    """None for one that no longer matters."""
    if task.open:
        data = {"state": task.state, "raw": packed(task.raw), "worker": task.worker, "token": task.token}
        return data | ({"waiting": packed(task.waiting)} if task.waiting else {})
    if now - task.at > (keys.DONE_TTL_SECONDS if task.state == FINISHED else GONE_SECONDS):
        return None
    data = {"state": task.state, "digest": task.digest}
    forgotten = any(
        stone.chat_id == task.chat and stone.reaches(f"{name}:asst", task.at) for stone in state.tombstones.values()
    )
    if task.delivered or forgotten or now - task.at > keys.RESULT_TTL_SECONDS:
        return data | {"delivered": True}
    more = {"result": packed(task.result)} if task.result else {}
    return data | more | ({"waiting": packed(task.waiting)} if task.waiting else {})
