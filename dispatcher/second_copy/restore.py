"""`hmem restore --day`: the day on an empty host, from its journal: Redis' turns, queue and conversations, tombstones, and the day store.

While no dispatcher runs. It may be done again: what is there already, in the journal's version, is left as it is.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.live import new_entry
from dispatcher.second_copy.look import scan
from dispatcher.second_copy.place import There, compare, fetch, journal_folder, open_journal, put_keyring_back, send
from dispatcher.second_copy.put_back import DayPutBack, Putting
from dispatcher.second_copy.store_copy import is_older, known_version, put_store_back, version_of
from shared.config.settings import Settings
from shared.delivery.journal.entries import MARK
from shared.delivery.journal.state import JournalState, open_tasks
from shared.errors import InvalidInput, JournalUnavailable
from shared.system.files import own_dir
from shared.turns.records import Tombstone
from shared.wire import keys


@dataclass
class DayRestored:
    """`last_entry`: POSIX seconds of the newest thing that the journal knows; `damaged`: lines that could not be read."""

    journal: str
    place: str
    put_back: DayPutBack
    store: int | None  # count of changes of the day store that was put back; None if it was left as it was
    waiting_turns: int
    open_tasks: int
    last_entry: float | None
    damaged: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class DayPlace:
    """Where the day goes. `tombstones` reads the state directory's, `add_tombstone` makes one durable there; `store`: SQLite's file, if any."""

    client: Any
    tombstones: Callable[[], list[Tombstone]]
    add_tombstone: Callable[[Tombstone], None]
    store: Path | None


def restore_day(settings: Settings, place: DayPlace, *, yes: bool, say: Callable[[str], None]) -> DayRestored:
    """No dispatcher may run. InvalidInput if something is there and `yes` was not said; JournalUnavailable if there is no journal to read."""
    began = time.monotonic()
    if (there := what_is_there(place)) and not yes:
        raise InvalidInput(
            f"This host is not empty: {', '.join(there)}. Nothing was changed. With --yes the journal's version takes the place of older values, "
            "and the day store is replaced; without it, a dispatcher puts back what is missing by itself when it starts."
        )
    journal = _journal(settings, say, yes=yes)
    put_keyring_back(settings, journal.folder)
    try:
        with journal.alone() as write:
            state = journal.whole()
            store, failed = _store(journal.folder, state, place.store, yes=yes)
            say(f"putting back what the journal knows, {state.last} entries")
            done = Putting(place.client, state, time.time()).all(place.tombstones(), place.add_tombstone)
            place.client.hset(keys.JOURNAL, state.journal, max(state.changed, state.mark or 0))
            write([new_entry(MARK, None, value=state.changed)])
    except OSError as error:
        raise JournalUnavailable(f"The journal cannot be read: {error}. Check the disk of JOURNAL.") from error
    if failed:
        raise JournalUnavailable(
            f"{done.turns} turns and all else that Redis had were put back, but the day store could not be brought back: {failed}. "
            "Restore a backup of it, or start the dispatcher without its typed memories, reminders and summaries."
        )
    return DayRestored(
        state.journal or "", settings.journal, done, store, len(state.turns), len(open_tasks(state)), _newest(state), state.damaged,
        round(time.monotonic() - began, 2),
    )  # fmt: skip


def what_is_there(place: DayPlace) -> list[str]:
    """What would be overwritten or mixed with what the journal has, in words."""
    turns, chats = scan(place.client)
    queued, found = int(place.client.llen(keys.TASKS)), []
    if turns or chats or queued:
        found.append(f"Redis has {len(turns)} turns, {queued} queued messages and {len(chats)} conversations")
    if place.tombstones():
        found.append("HMEM_STATE_DIR has tombstones")
    if place.store is not None and version_of(place.store) > 0:
        found.append(f"there is a day store at {place.store}")
    return found


def _journal(settings: Settings, say: Callable[[str], None], *, yes: bool) -> DayJournal:
    """The journal that is here, or that was fetched; never a new one."""
    folder, journal = journal_folder(settings), open_journal(settings)
    if folder is None or journal is None:
        raise JournalUnavailable(
            "JOURNAL is not set, so there is no second copy to restore from. Set it as it was, then try again."
        )
    if settings.journal_host:
        own_dir(settings.hmem_state_dir, folder.name)
        _take_over(settings, journal, say, yes=yes)
    if not journal.exists:
        raise JournalUnavailable(
            f"There is no journal at {settings.journal}. Check JOURNAL, and that its disk is mounted."
        )
    return journal


def _take_over(settings: Settings, journal: DayJournal, say: Callable[[str], None], *, yes: bool) -> None:
    """Fetch what is on the other host, unless this host has sent it, and send from now on: whichever host sent before is refused there."""
    try:
        found, _ = compare(settings, journal.folder)
    except JournalUnavailable as error:
        if not journal.exists:
            raise
        say(f"the other host cannot be reached, so the journal on this host is taken: {error}")
        return
    if found is There.FOREIGN and journal.exists and not yes:
        raise InvalidInput(
            f"This host has a journal of its own, and {settings.journal} another one. Nothing was changed. With --yes the other one takes its place."
        )
    if found in (There.NEWER, There.FOREIGN):
        say(f"fetching the journal from {settings.journal}")
        if fetch(settings, journal.folder):
            send(settings, journal.folder)


def _store(folder: Path, state: JournalState, store: Path | None, *, yes: bool) -> tuple[int | None, str]:
    """(count of the store that was put back, why it could not be)."""
    try:
        known = -1 if store is None else known_version(folder, state)
        if store is None or known < 0 or not (yes or is_older(store, known)):
            return None, ""
        return put_store_back(folder, state, store), ""
    except sqlite3.Error as error:
        return None, str(error)


def _newest(state: JournalState) -> float | None:
    times = [one.at for known in (state.turns, state.tasks, state.keys) for one in known.values()]
    return max([*times, *(entry.at for entry in state.store)], default=None)
