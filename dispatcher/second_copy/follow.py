"""The journal follows Redis: every JOURNAL_SECONDS a look at queue and conversations, and in each round of consolidation a whole look at all turns.

    look ─ Redis lost? put back ─ entries that the journal lacks ─ flushed turns leave it ─ tombstones: rewritten ─ the store's copy ─ mark ─ sent

The mark is the number of an entry, in Redis under the journal's id. It is written after everything up to that number is durable, and then the journal
notes that Redis has it. So a Redis whose mark is missing or lower was lost or put back from an older copy, and nothing else does that. It is written
only into the Redis that was looked at: in one that was emptied meanwhile, it would say that nothing is missing.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog

from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.live import NewEntry, new_entry
from dispatcher.second_copy.look import (
    QueueLook,
    TaskFollower,
    conversation_entries,
    look_at_queue,
    scan,
    script,
    turn_entries,
)
from dispatcher.second_copy.put_back import Putting
from dispatcher.second_copy.store_copy import (
    has_words,
    is_older,
    known_version,
    lacks,
    put_store_back,
    take_base,
    version_of,
)
from shared.delivery.journal import entries as kinds
from shared.delivery.journal.entries import packed
from shared.delivery.journal.files import bases, segments
from shared.delivery.journal.state import JournalState
from shared.system.faults import crash_point
from shared.turns.records import Tombstone
from shared.wire import keys

log = structlog.get_logger()

#: Of so many whole looks one compares every turn, not only those that are new.
THOROUGH = 20
#: Nights whose deletions are looked for, back from the last one.
NIGHTS = 50
#: A journal that has grown to this size, and to this many times what it was when it was rewritten, is rewritten. Bytes.
LARGE_BYTES, GROWN = 32 << 20, 4


@dataclass
class Followed:
    """What the follower is given. `tombstones` reads the state directory's, `add_tombstone` makes one durable there; `store`: SQLite's file."""

    journal: DayJournal
    redis: Any
    task_bytes: int
    tombstones: Callable[[], list[Tombstone]]
    add_tombstone: Callable[[Tombstone], None]
    store: Path | None
    dirty: set[str] = field(default_factory=set)  # chats whose conversation has changed


class Follower:
    """In one thread at a time. RedisError and OSError are the caller's: then the next look begins anew."""

    def __init__(self, given: Followed) -> None:
        self._given, self._journal, self._redis = given, given.journal, given.redis
        self._look, self._raise = script(given.redis, "look"), script(given.redis, "mark")
        self._tasks = TaskFollower()
        self._looks = self._rewritten_bytes = 0
        self._first_tombstone = 0
        self._store_gap = -1
        self._forgetting = False
        self.marked = 0  # the least mark that Redis must have
        self.put_back_times = 0
        self.store_error: str | None = None

    def begin(self) -> None:
        """Before anything is claimed."""
        state = self._journal.refresh()
        if len(segments(self._journal.folder)) > 1:  # a kill while it was rewritten
            self._journal.compact()
        self._hide(state)
        with self._store_errors():
            self._put_store_back(self._journal.refresh())
        self.round(whole=True)

    def _hide(self, state: JournalState) -> None:
        """Tombstones that a lost state directory lacks: nothing may be read before they are there."""
        known = {one.to_json() for one in self._given.tombstones()}
        for stone in state.tombstones.values():
            if stone.to_json() not in known:
                self._given.add_tombstone(stone)

    def round(self, *, whole: bool) -> None:
        state = self._journal.refresh()
        look = self._look_at(state)
        if self._lost(state, look):
            self._put_back()
            state = self._journal.refresh()
            look = self._look_at(state)
            whole = True
        dropped = self._journal.dropped
        found = self._tasks.entries(self._redis, look, state)
        chats = self._take_dirty()
        stones = self._new_tombstones(look, state)
        found += stones
        if whole:
            chats |= self._turns(state, stones, found)
        found += conversation_entries(self._redis, chats, state)
        night = self._flushed(look, state)
        # What was read from an emptied Redis would say that all was taken away on purpose.
        if not self._still(look, -1, state):
            self._put_back()
            return
        self._append([*found, *night])
        rewrite = bool(night or stones) or self._forgetting
        self._forgetting = bool(stones)  # what a forgetting removes after its tombstone is gone by the next look
        self._journal.flush()
        if whole:
            self._journal.whole_look_done(dropped)
        with self._store_errors():
            self._keep_store(renew=rewrite)
        self._rewrite_if(needed=rewrite)
        if not self._mark(look):
            self._put_back()

    def _look_at(self, state: JournalState) -> QueueLook:
        journal, most = state.journal or "", self._given.task_bytes
        return look_at_queue(self._redis, self._look, journal, most, self._first_tombstone)

    def _lost(self, state: JournalState, look: QueueLook) -> bool:
        return state.mark is not None and (look.mark is None or look.mark < state.mark)

    def _put_back(self) -> None:
        """One process of this host does it; another one finds it done."""
        self._first_tombstone, self._tasks = 0, TaskFollower()
        with self._journal.alone():
            whole = self._journal.whole()
            if not self._lost(whole, self._look_at(whole)):
                return
            log.error("Redis was lost, or is an older copy: what it lacks is put back from the journal")
            given = self._given
            life = uuid4().hex
            self._redis.hset(keys.JOURNAL, keys.journal_life(whole.journal or ""), life)
            Putting(self._redis, whole, time.time()).all(given.tombstones(), given.add_tombstone)
            crash_point("journal:put-back")
            # If it is lost again, the life is missing, and the next look sees it.
            self._raise(keys=[keys.JOURNAL], args=[whole.journal, whole.mark, -1, life])
        self.put_back_times += 1

    def _still(self, look: QueueLook, number: int, state: JournalState) -> bool:
        """Raise the mark to this number, in one step with the question whether it still is the Redis that was looked at."""
        seen = max(-1 if one is None else one for one in (look.mark, state.mark))
        return bool(self._raise(keys=[keys.JOURNAL], args=[state.journal, number, seen, look.life]))

    def _append(self, entries: list[NewEntry]) -> None:
        if entries:
            self._journal.append(entries)

    def _take_dirty(self) -> set[str]:
        chats = set[str]()
        while self._given.dirty:
            chats.add(self._given.dirty.pop())
        return chats

    def _turns(self, state: JournalState, stones: list[NewEntry], found: list[NewEntry]) -> set[str]:
        """Add the turns that the journal lacks to what was found; the chats that have a conversation, here or there."""
        names, chats = scan(self._redis)
        thorough = self._looks % THOROUGH == 0 or bool(stones) or self._journal.dropped > 0
        self._looks += 1
        if not thorough:
            names = {name for name in names if name.decode("utf-8", "surrogateescape") not in state.turns}
        tombstones = [*state.tombstones.values(), *self._given.tombstones()]
        found += turn_entries(self._redis, names, state, tombstones)
        return chats | {one.chat for one in state.keys.values() if one.chat is not None}

    def _new_tombstones(self, look: QueueLook, state: JournalState) -> list[NewEntry]:
        """From the state directory and from Redis, which has those of `hmem forget` on other hosts."""
        known, found = set(state.tombstones), list[NewEntry]()
        self._first_tombstone += len(look.tombstones)
        for raw in [*(one.to_json() for one in self._given.tombstones()), *look.tombstones]:
            if raw not in known:
                known.add(raw)
                found.append(new_entry(kinds.TOMBSTONE, _chat_of(raw), value=packed(raw)))
        return found

    def _flushed(self, look: QueueLook, state: JournalState) -> list[NewEntry]:
        """Turns that the last nights have deleted leave the journal; nothing if there was no new night."""
        if look.night is None or look.night <= (state.flushed_run or 0):
            return []
        first = max(look.night - NIGHTS, (state.flushed_run or 0) + 1)
        found = list[NewEntry]()
        for run in range(max(first, 1), look.night + 1):
            for raw in self._redis.lrange(keys.flushed(run), 0, -1):
                sha1, _, key = raw.decode("utf-8", "surrogateescape").partition(" ")
                known = state.turns.get(key)
                if known is not None and known.sha1 == sha1:
                    found.append(new_entry(kinds.FLUSHED, known.chat, key=key, sha1=sha1))
        return [*found, new_entry(kinds.NIGHT, None, run=look.night)]

    def _rewrite_if(self, *, needed: bool) -> None:
        size = self._journal.bytes
        if needed or size > max(LARGE_BYTES, GROWN * self._rewritten_bytes):
            self._journal.compact()
            self._rewritten_bytes = self._journal.bytes

    # The day store.

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """A day store, or a copy of it, that cannot be read is reported, and stops nothing else."""
        try:
            yield
            self.store_error = None if bases(self._journal.folder) else self.store_error
        except sqlite3.Error as error:
            self.store_error = str(error)

    def _put_store_back(self, state: JournalState) -> None:
        store, folder = self._given.store, self._journal.folder
        if store is None:
            return
        if not is_older(store, known_version(folder, state)):
            return
        log.error("the day store was lost, or is an older copy: it is put back from the journal")
        with self._journal.alone():
            put_store_back(folder, self._journal.whole(), store)

    def _keep_store(self, *, renew: bool) -> None:
        """A new base copy after each night and each forgetting, and where changes are missing in the journal for two looks."""
        store, folder = self._given.store, self._journal.folder
        if store is None:
            return
        state = self._journal.refresh()
        self._put_store_back(state)
        known, now = known_version(folder, state), version_of(store)
        gap = now >= 0 and lacks(known, now)
        begun = now > 0 or (now == 0 and has_words(store))  # else it is being made: a copy would have nothing
        if begun and (renew or not bases(folder) or (gap and self._store_gap >= 0 and lacks(known, self._store_gap))):
            take_base(store, folder)
            self._store_gap = -1
        else:
            self._store_gap = now if gap else -1

    # The mark.

    def _mark(self, look: QueueLook) -> bool:
        """Everything up to a number is durable, so Redis gets that number; afterwards the journal says that it has it.

        False if Redis was lost since the look. It is not asked under the journal's lock: while it does not answer, what is finished must still be
        written.
        """
        state = self._journal.refresh()
        if state.journal is None:
            return True
        reached = max(state.changed, state.mark or 0)
        if not self._still(look, reached, state):
            return False
        crash_point("journal:marked")
        if state.mark is None or reached > state.mark:
            self._journal.append([new_entry(kinds.MARK, None, value=reached)])
        self.marked = reached
        return True


def _chat_of(raw: bytes) -> str | None:
    try:
        return Tombstone.parse(raw).chat_id
    except ValueError:
        return None
