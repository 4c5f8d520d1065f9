"""The second copy as the dispatcher uses it: begun before anything is claimed, fed with what it claims and finishes, and looking for itself.

No answer waits for it: what is claimed and finished is handed to a thread, and a journal that fails is logged, published and tried again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from redis import RedisError

from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.follow import Followed, Follower
from dispatcher.second_copy.look import claimed_entry, task_entry, turn_entry
from dispatcher.second_copy.place import NewerThere, keep_keyring, prepare, send
from shared.config.settings import Settings
from shared.delivery.journal.entries import packed
from shared.delivery.journal.files import asides, last_number
from shared.delivery.journal.state import FINISHED
from shared.errors import HmemError
from shared.turns.records import Tombstone
from shared.wire import keys
from shared.wire.client import BACKGROUND, open_redis
from shared.wire.json import dumps

log = structlog.get_logger()

#: Seconds that the end of a dispatcher waits for the last look, and for the last transfer.
END_SECONDS = 10.0
LOOK, STORE, TRANSFER = "look", "day store", "transfer"
#: An unchanged state is published again after so many looks, or seconds.
PUBLISH_LOOKS, PUBLISH_SECONDS = 2, 10.0


class SecondCopy:
    """Does nothing without JOURNAL. `tombstones` and `add_tombstone` are the state directory's; `store` is SQLite's file of the day store."""

    def __init__(
        self,
        settings: Settings,
        worker: str,
        tombstones: Callable[[], list[Tombstone]],
        add_tombstone: Callable[[Tombstone], None],
        store: Callable[[], Path | None],
    ) -> None:
        self._settings, self._worker = settings, worker
        self._tombstones, self._add_tombstone, self._store = tombstones, add_tombstone, store
        self._journal: DayJournal | None = None
        self._follower: Follower | None = None
        self._given: Followed | None = None
        self._redis: Any = None
        self._journal_id, self._least = "", -1
        self._published: tuple[float, dict[str, Any]] = (0.0, {})
        self._errors: dict[str, str] = {}  # of looks, of the day store's copy, and of transfers
        self._sent = 0
        self._sent_at: float | None = None
        self._unsent_since: float | None = None
        self._keyring_kept: object = None
        self._keyring_sent: object = None
        self._looking = asyncio.Lock()

    @property
    def wanted(self) -> bool:
        return bool(self._settings.journal)

    @property
    def guard(self) -> tuple[str, int]:
        """(journal id, the least mark that Redis must have): `claim.lua` takes no task from a Redis that has less. "" while there is no journal."""
        return self._journal_id, self._follower.marked if self._follower else self._least

    # What the dispatcher does.

    def claimed(self, raw: bytes, token: str) -> None:
        if self._journal is not None:
            self._journal.append([claimed_entry(raw, self._worker, token)])

    def finished(self, task: tuple[str, str, str], result: bytes, turns: Sequence[tuple[str, bytes]]) -> None:
        """`task`: its id, chat and digest; `turns`: key and exact bytes of each that `finish.lua` has written."""
        if self._journal is None or self._given is None:
            return
        name, chat, digest = task
        said = [turn_entry(key, value) for key, value in turns]
        ended = task_entry(name, chat, FINISHED, digest=digest, result=packed(result))
        self._journal.append([*said, ended])
        self._given.dirty.add(chat)

    # The loop.

    async def start(self) -> None:
        """Bring Redis, tombstones and day store up to what the journal knows. A journal that cannot be used stops no answer."""
        if self.wanted:
            await self.look(whole=True)

    async def watch(self) -> None:
        """Until cancelled."""
        if not self.wanted:
            return
        sending = asyncio.create_task(self._send()) if self._settings.journal_host else None
        whole_at = time.monotonic()
        try:
            while True:
                await asyncio.sleep(self._settings.journal_seconds)
                whole = time.monotonic() - whole_at >= self._settings.consolidation_interval
                whole_at = time.monotonic() if whole else whole_at
                await self.look(whole=whole)
        finally:
            if sending:
                sending.cancel()

    async def look(self, *, whole: bool = False) -> None:
        """One look; also where a claim has found that Redis was lost."""
        async with self._looking:
            await asyncio.to_thread(self._try, whole)

    async def end(self) -> None:
        """The last look, and the last transfer."""
        if self.wanted:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await self.look(whole=True)
                    if self._settings.journal_host and self._journal is not None:
                        await asyncio.to_thread(self._transfer)
        if self._journal is not None:
            await asyncio.to_thread(self._journal.flush, END_SECONDS)

    def _try(self, whole: bool) -> None:
        try:
            if self._follower is None:
                self._begin()
            else:
                if self._journal is not None and not self._journal.exists:
                    raise OSError(f"{self._journal.folder} has no journal any more")
                self._follower.round(whole=whole)
            self._keyring_kept = keep_keyring(self._journal, self._keyring_kept)
            self._tell(LOOK, None)
            self._tell(STORE, self._follower.store_error if self._follower else None)
        except (HmemError, RedisError, OSError) as error:
            self._tell(LOOK, str(error))
        except Exception as error:  # whatever it is, there must be a next look
            log.exception("a look of the journal failed")
            self._tell(LOOK, repr(error))
        self._publish()

    def _begin(self) -> None:
        journal = prepare(self._settings)
        journal.start()
        state = (
            journal.refresh()
        )  # from here on nothing is claimed from a Redis that has less, also if this fails below
        self._journal_id, self._least = state.journal or "", -1 if state.mark is None else state.mark
        if self._redis is None:
            self._redis = open_redis(self._settings.redis_url, BACKGROUND)
        settings = self._settings
        given = Followed(
            journal, self._redis, settings.task_bytes, self._tombstones, self._add_tombstone, self._store()
        )
        follower = Follower(given)
        follower.begin()
        self._journal, self._given, self._follower = journal, given, follower
        log.info("the journal follows Redis", place=settings.journal)

    def _tell(self, what: str, error: str | None) -> None:
        """Log a failure once, and its end."""
        if error is not None and what not in self._errors:
            log.error("the second copy of the day is not kept", what=what, reason=error)
        elif error is None and what in self._errors:
            log.info("the second copy of the day is kept again", what=what)
        self._errors.pop(what, None)
        if error is not None:
            self._errors[what] = error

    # The other host.

    async def _send(self) -> None:
        while True:
            await asyncio.sleep(self._settings.journal_seconds)
            if self._journal is not None:
                newer_there = await asyncio.to_thread(self._transfer)
                if newer_there and not self._sent:  # it could not be compared when this process began
                    async with self._looking:
                        self._follower = None  # the next look begins anew, and fetches it

    def _transfer(self) -> bool:
        """Whether nothing was sent because the other host has a newer journal of this host."""
        if self._journal is None:
            return False
        began = time.time()
        try:
            last = last_number(self._journal.folder)  # not by the journal's state, which a look goes through meanwhile
            keyring = self._keyring_kept
            if (last, keyring) == (self._sent, self._keyring_sent):
                self._sent_at, self._unsent_since = began, None
                return False
            self._unsent_since = self._unsent_since or began
            send(self._settings, self._journal.folder)
        except (HmemError, OSError) as error:
            self._tell(TRANSFER, str(error))
            return isinstance(error, NewerThere)
        self._tell(TRANSFER, None)
        self._sent, self._sent_at, self._unsent_since, self._keyring_sent = last, began, None, keyring
        return False

    # What others see.

    def _publish(self) -> None:
        """Into Redis, for `hmem status`, the metrics and the owner's page: what is new at once, that nothing is from time to time."""
        if self._redis is None or not self._journal_id:
            return
        state, (at, before) = self._state(), self._published
        news = any(state[name] != before.get(name) for name in ("place", "entries", "since", "error", "aside"))
        if news or state["at"] - at > min(PUBLISH_SECONDS, PUBLISH_LOOKS * self._settings.journal_seconds):
            with suppress(RedisError):
                self._redis.hset(keys.JOURNAL, keys.journal_state(self._journal_id), dumps(state))
                self._published = state["at"], state

    def _asides(self) -> list[str]:
        with suppress(OSError):
            return [path.name for _, _, path in asides(self._journal.folder)] if self._journal else []
        return []

    def _state(self) -> dict[str, Any]:
        entries, since = self._journal.behind if self._journal else (0, None)
        if self._settings.journal_host and self._journal:
            entries += max(0, self._journal.refresh().last - self._sent)
            since = min(filter(None, (since, self._unsent_since)), default=None)
        failing = self._journal.failing if self._journal else None
        error = next(iter(self._errors.values()), failing[1] if failing else None)
        copied = self._sent_at if self._settings.journal_host else time.time()
        return {
            "place": self._settings.journal,
            "at": time.time(),
            "entries": entries,
            "since": since,
            "error": error,
            "copied": copied,
            "aside": self._asides(),
        }
