"""The journal (JOURNAL): rewritten without what is covered, with a new copy of the day store, and brought to the other host."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from dispatcher.chat_data.forget.request import Scope
from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.live import NewEntry, new_entry
from dispatcher.second_copy.place import open_journal, send
from dispatcher.second_copy.store_copy import take_base
from shared.config.settings import Settings
from shared.delivery.journal import entries as kinds
from shared.delivery.journal.entries import packed, unpacked
from shared.delivery.journal.state import FINISHED
from shared.errors import HmemError
from shared.turns.records import Tombstone

TODO = "run hmem forget --resume once it can be reached"


class SecondCopyLayer:
    """`store`: SQLite's file of the day store, from which everything covered is gone by now."""

    def __init__(self, settings: Settings, store: Path | None) -> None:
        self._settings, self._store = settings, store

    def rewrite(self, scope: Scope, tombstones: Sequence[Tombstone]) -> tuple[int, str | None]:
        """(entries that were left out or emptied, why it is not done or None)."""
        journal = open_journal(self._settings)
        if journal is None or not journal.exists:
            return 0, self._unreachable(journal)
        try:
            return self._rewrite(journal, scope, tombstones), None
        except (HmemError, OSError, sqlite3.Error) as error:
            return 0, f"the journal still has it: {str(error).rstrip('.')}; {TODO}"

    def _unreachable(self, journal: DayJournal | None) -> str | None:
        if journal is None:
            return None
        return f"there is no journal at {self._settings.journal}, so nothing was removed from it; {TODO}"

    def _rewrite(self, journal: DayJournal, scope: Scope, tombstones: Sequence[Tombstone]) -> int:
        journal.append(new_entry(kinds.TOMBSTONE, one.chat_id, value=packed(one.to_json())) for one in tombstones)
        if self._store is not None and self._store.exists():
            take_base(self._store, journal.folder)
        before = journal.whole()
        covered = sum(before.covered(key, turn) for key, turn in before.turns.items())
        emptied = journal.compact(change=lambda entry: _without(entry, scope))
        if self._settings.journal_host:
            send(self._settings, journal.folder)
        return covered + emptied


def _without(entry: NewEntry, scope: Scope) -> NewEntry | None:
    """An entry as it stays; None for one of which nothing does. (Turns go by their tombstones.)"""
    if entry.kind == kinds.KEY:  # their conversations are ended
        return None if entry.chat in scope.chats else entry
    if entry.kind != kinds.TASK or entry.chat is None:
        return entry
    words = b" ".join(unpacked(entry.data[name]) for name in ("raw", "result") if name in entry.data)
    if not scope.covers_text(entry.chat, entry.data["task"], entry.at, words.decode("utf-8", "replace")):
        return entry
    kept = {name: value for name, value in entry.data.items() if name not in ("raw", "result", "waiting")}
    return entry._replace(data=kept | {"state": FINISHED, "delivered": True})


def local_folder(settings: Settings) -> list[Path]:
    """The journal's directory on another disk of this host; the spool of one on another host is in HMEM_STATE_DIR."""
    return [Path(settings.journal)] if settings.journal and not settings.journal_host else []
