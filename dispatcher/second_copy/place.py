"""Where the journal is: JOURNAL itself, or a spool in HMEM_STATE_DIR whose files rsync brings to another host, and from there to an empty disk."""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from dispatcher.second_copy.day_journal import DayJournal
from dispatcher.second_copy.live import NewEntry, new_entry
from dispatcher.second_copy.store_changes import Record, StoreChange
from shared.config.settings import Settings
from shared.delivery.journal.entries import STORE
from shared.delivery.journal.files import ID, KEYRING
from shared.delivery.transfer import durable_option
from shared.errors import JournalUnavailable
from shared.system.files import own_dir, write_atomic
from shared.system.keys import copies, sealing
from shared.system.processes import run_bounded

#: The spool, in HMEM_STATE_DIR.
SPOOL = "journal"
#: Seconds for one call of rsync, and without a byte over the network.
CALL_SECONDS, SILENCE_SECONDS = 600.0, 30
#: Files of a journal: never a half-written one, nor its lock.
_FILES = (
    "--include=/journal.json",
    "--include=/day-*.jsonl",
    "--include=/store-*.sqlite",
    "--include=/keyring.json",
    "--exclude=*",
)

_OPENED: dict[tuple[int, str], DayJournal] = {}
_OPENING = threading.Lock()


def journal_folder(settings: Settings) -> Path | None:
    """The directory in which this host writes; None without JOURNAL."""
    if not settings.journal:
        return None
    return settings.hmem_state_dir / SPOOL if settings.journal_host else Path(settings.journal)


def open_journal(settings: Settings) -> DayJournal | None:
    """This process' journal; None without JOURNAL. Nothing is read or created yet."""
    folder = journal_folder(settings)
    if folder is None:
        return None
    with _OPENING:
        name = (os.getpid(), str(folder))  # a forked process has no writing thread
        return _OPENED.setdefault(name, DayJournal(folder))


def recorder(settings: Settings) -> Record | None:
    """Takes each change of the day store into the journal; None without JOURNAL. Without a journal yet, the base copy will have it."""
    journal = open_journal(settings)
    if journal is None:
        return None

    def record(change: StoreChange) -> None:
        if journal.exists:
            journal.append(store_entries(change))

    return record


def store_entries(change: StoreChange) -> list[NewEntry]:
    """One entry for each chat of a transaction, since an entry names its chat; all of them count, or none."""
    chats: dict[str | None, list[dict[str, Any]]] = {}
    for chat, row in change.rows:
        chats.setdefault(chat, []).append(row)
    parts = chats or {None: []}
    return [
        new_entry(STORE, chat, version=change.version, part=number, parts=len(parts), rows=rows)
        for number, (chat, rows) in enumerate(parts.items())
    ]


def prepare(settings: Settings) -> DayJournal:
    """The journal, created if there is none; after the loss of the spool it is fetched. JournalUnavailable if the place cannot be reached:
    then nothing is created, because an empty journal must not take the place of a full one."""
    folder, journal = journal_folder(settings), open_journal(settings)
    if folder is None or journal is None:
        raise JournalUnavailable("JOURNAL is not set. Set it, then try again.")
    if settings.journal_host:
        own_dir(settings.hmem_state_dir, SPOOL)
        if not journal.exists:
            fetch(settings, folder)
    elif not folder.is_dir():
        raise JournalUnavailable(f"{folder} is not a directory. Mount the disk of JOURNAL, or create the directory.")
    try:
        own_dir(folder)
        journal.create()
    except OSError as error:
        raise JournalUnavailable(
            f"{folder} cannot be used: {error.strerror or error}. Check the disk of JOURNAL."
        ) from error
    return journal


def fetch(settings: Settings, folder: Path) -> bool:
    """Bring the journal from the other host; False if there is none. Its id comes last, so that a torn fetch is no journal."""
    place = _remote(settings)
    listed = rsync(settings, "--list-only", *_FILES, place)
    if not any(line.split()[-1:] == [ID] for line in listed.splitlines()):
        return False
    rsync(settings, "--times", f"--exclude=/{ID}", *_FILES, place, f"{folder}/")
    rsync(settings, "--times", "--include=/journal.json", "--exclude=*", place, f"{folder}/")
    return True


def send(settings: Settings, folder: Path) -> None:
    """Bring the files to the other host; those that have gone here go there, at the end. JournalUnavailable if that fails."""
    rsync(settings, "--times", "--delete-after", *durable_option(), *_FILES, f"{folder}/", _remote(settings))


def _remote(settings: Settings) -> str:
    place = settings.journal
    return place if place.endswith((":", "/")) else f"{place}/"


def rsync(settings: Settings, *arguments: str) -> str:
    """One call; its output."""
    through = ["--rsh", settings.journal_ssh, f"--timeout={SILENCE_SECONDS}"]
    try:
        done = run_bounded(["rsync", "--recursive", *through, *arguments], CALL_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise JournalUnavailable(
            f"rsync to {settings.journal} did not end within {CALL_SECONDS:g} s. Check that host."
        ) from error
    except FileNotFoundError as error:
        raise JournalUnavailable("rsync is not installed. Install it (scripts/setup does).") from error
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise JournalUnavailable(
            f"rsync to {settings.journal} ended with code {done.returncode}: {lines[0]}. Check JOURNAL, JOURNAL_SSH and that host."
        )
    return done.stdout


def keep_keyring(journal: DayJournal | None, kept: object) -> object:
    """Write it if a key was made, destroyed or changed since; what it is of now. `kept`: what it was of the last time."""
    if journal is None or not sealing.is_on():
        return kept
    now = sealing.keys().shared
    if now != kept:
        content, _ = copies.keyring(sealing.keys())
        write_atomic(journal.folder / KEYRING, content)
    return now


def renew_keyring(settings: Settings) -> None:
    """After a change of the owner's key. What fails here is done by the dispatcher's next look."""
    journal = open_journal(settings)
    if journal is not None and journal.exists:
        with suppress(OSError):
            keep_keyring(journal, None)


def put_keyring_back(settings: Settings, folder: Path) -> None:
    """Before anything of the journal is read. Keys that are here stay. JournalUnavailable if this host has no key to open it."""
    path = folder / KEYRING
    if not path.exists():
        return
    if settings.encrypt_key_file is None:
        raise JournalUnavailable(
            "The journal is encrypted, and ENCRYPT_KEY_FILE is not set. Put your copy of the key back (hmem key restore), set it, and try again."
        )
    copies.restore_keyring(settings.encrypt_key_file, path.read_bytes(), str(path))
    sealing.configure(settings, "day")
