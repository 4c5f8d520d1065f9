"""What follows from a journal: the turns, tasks, keys and tombstones that Redis should have. Each entry may be applied again.

A turn leaves it only because a night has flushed it (an entry says so), or because it was forgotten: never because Redis has it no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.delivery.journal import entries as kinds
from shared.delivery.journal.entries import JournalEntry, unpacked
from shared.delivery.journal.files import entries_of, journal_id, segments
from shared.turns.records import RecordRefused, Tombstone, Turn

#: States of a task: it waits; a dispatcher has claimed it; it was answered; it left the queue by itself (cancelled, refused, too large).
QUEUED, CLAIMED, FINISHED, GONE = "queued", "claimed", "finished", "gone"


@dataclass
class KnownTask:
    """`raw`: its bytes in the queue, while it is open; `result`: the signed answer, until it was delivered."""

    state: str
    chat: str | None
    at: float
    order: int = 0  # number of the first entry that names it
    raw: bytes = b""
    worker: str = ""
    token: str = ""
    digest: str = ""
    result: bytes = b""
    waiting: bytes = b""  # what our bot keeps of it: where the answer goes
    delivered: bool = False

    @property
    def open(self) -> bool:
        return self.state in (QUEUED, CLAIMED)


@dataclass
class KnownTurn:
    """`value`: its exact bytes, empty where only the SHA-1 is kept."""

    chat: str | None
    at: float
    value: bytes
    sha1: str


@dataclass
class KnownKey:
    """A key of a conversation: its type, and the value as the journal has it (text, list or pairs); `until`: when it expires."""

    chat: str | None
    at: float
    type: str
    value: Any
    until: float | None


@dataclass
class JournalState:
    """`light`: of turns only the SHA-1 is kept."""

    light: bool = False
    journal: str | None = None
    last: int = 0  # number of the newest entry
    changed: int = 0  # … of the newest one that is no mark
    mark: int | None = None  # number that Redis was given and that it confirmed
    flushed_run: int | None = None  # last night whose deletions were taken over
    store_versions: set[int] = field(default_factory=set)  # changes of the day store of which all parts are here
    store_parts: dict[int, set[int]] = field(default_factory=dict)  # … of which only these parts are
    damaged: int = 0
    turns: dict[str, KnownTurn] = field(default_factory=dict)
    tasks: dict[str, KnownTask] = field(default_factory=dict)
    keys: dict[str, KnownKey] = field(default_factory=dict)
    tombstones: dict[bytes, Tombstone] = field(default_factory=dict)
    store: list[JournalEntry] = field(default_factory=list)  # of a whole state: changes of the day store

    def apply(self, entry: JournalEntry) -> None:
        self.last = max(self.last, entry.number)
        if entry.kind != kinds.MARK:
            self.changed = max(self.changed, entry.number)
        handler = getattr(self, f"_{entry.kind}", None)  # a later version's kind is no reason to stop
        if handler is not None:
            with suppress(KeyError, TypeError, ValueError):
                handler(entry)

    def _mark(self, entry: JournalEntry) -> None:
        self.mark = max(self.mark or 0, int(entry.data["value"]))

    def _night(self, entry: JournalEntry) -> None:
        self.flushed_run = max(self.flushed_run or 0, int(entry.data["run"]))

    def _turn(self, entry: JournalEntry) -> None:
        value = unpacked(entry.data["value"])
        name = sha1_of(value)
        self.turns[entry.data["key"]] = KnownTurn(entry.chat, entry.at, b"" if self.light else value, name)

    def _flushed(self, entry: JournalEntry) -> None:
        known = self.turns.get(entry.data["key"])
        if known is not None and known.sha1 == entry.data["sha1"]:
            del self.turns[entry.data["key"]]

    def _key(self, entry: JournalEntry) -> None:
        name, data = entry.data["key"], entry.data
        if data.get("type") is None:
            self.keys.pop(name, None)
            return
        value, before = data.get("value"), self.keys.get(name)
        if "append" in data:
            old = before.value if before is not None and before.type == "list" else []
            if len(old) != data["before"]:  # another process has appended the same: the next look says the whole list
                return
            value = [*old, *data["append"]][-int(data["length"]) :]
        self.keys[name] = KnownKey(entry.chat, entry.at, data["type"], value, data.get("until"))

    def _tombstone(self, entry: JournalEntry) -> None:
        raw = unpacked(entry.data["value"])
        with suppress(RecordRefused):
            self.tombstones[raw] = Tombstone.parse(raw)

    def _store(self, entry: JournalEntry) -> None:
        if not self.light:
            self.store.append(entry)
        version, part, parts = (int(entry.data[name]) for name in ("version", "part", "parts"))
        here = self.store_parts.setdefault(version, set())
        here.add(part)
        if len(here) == parts:
            self.store_versions.add(version)
            del self.store_parts[version]

    def _task(self, entry: JournalEntry) -> None:
        data = entry.data
        known = self.tasks.get(data["task"])
        state = data["state"]
        if known is None or data.get("again"):
            known = self.tasks[data["task"]] = KnownTask(state, entry.chat, entry.at, entry.number)
        elif known.open and state != QUEUED:  # what is finished stays so; what is claimed is not queued by a late look
            known.state = state
        known.chat, known.at = entry.chat or known.chat, entry.at
        for name in ("raw", "result", "waiting"):
            if name in data:
                setattr(known, name, unpacked(data[name]))
        for name in ("worker", "token", "digest", "delivered"):
            if name in data:
                setattr(known, name, data[name])
        if not known.open:
            known.raw, known.worker, known.token = b"", "", ""
        if known.delivered:
            known.result = known.waiting = b""

    def covered(self, key: str, known: KnownTurn) -> bool:
        """Whether a tombstone covers a turn of a whole state: then the journal must not keep its words."""
        return hides(self.tombstones.values(), key, known.value)


def hides(tombstones: Any, key: str, value: bytes) -> bool:
    try:
        turn = Turn.parse(key.encode("utf-8", "surrogateescape"), value)
    except RecordRefused:
        return False
    return any(one.covers(turn) for one in tombstones)


def sha1_of(raw: bytes) -> str:
    """As `redis.sha1hex`: it identifies the bytes and proves nothing."""
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()


def read_journal(folder: Path, *, light: bool = False) -> JournalState:
    """All of a journal. OSError if it cannot be read."""
    state = JournalState(light, journal_id(folder))
    for path in segments(folder):
        read_segment(state, path)
    return state


def read_segment(state: JournalState, path: Path, offset: int = 0) -> int:
    """Apply the entries of a segment from `offset` on; the offset after the last whole line."""
    for entry, end in entries_of(path, offset):
        offset = end
        if entry is None:
            state.damaged += 1
        else:
            state.apply(entry)
    return offset


def open_tasks(state: JournalState) -> Sequence[tuple[str, KnownTask]]:
    """Tasks without an answer, in the order of their arrival."""
    return sorted(((name, one) for name, one in state.tasks.items() if one.open), key=lambda pair: pair[1].order)
