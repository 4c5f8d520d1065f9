"""Where the journal is: JOURNAL itself, or a spool in HMEM_STATE_DIR whose files rsync brings to another host, and from there to an empty disk.

Each sending is announced: `announced.json` arrives before anything else of it, with a random name for this sending. So a host recognizes what it has
sent itself, also when a sending was cut off half-way; and whatever it does not recognize, it never overwrites: that was sent by another host, or by
this one before its disk was put back from an older copy.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import uuid4

from dispatcher.second_copy.day_journal import LOCK, DayJournal
from dispatcher.second_copy.live import NewEntry, new_entry
from dispatcher.second_copy.store_changes import Record, StoreChange
from shared.config.settings import Settings
from shared.delivery.journal.entries import MARK, STORE, JournalEntry, line_of
from shared.delivery.journal.files import ID, KEYRING, bases, journal_id, last_number, segment_name, segments
from shared.delivery.transfer import durable_option
from shared.errors import JournalUnavailable
from shared.system.files import fresh_dir, fsync_dir, locked_file, own_dir, remove_tree, write_atomic
from shared.system.keys import copies, sealing
from shared.system.processes import run_bounded
from shared.wire.json import RecordRefused, dumps, loads_object

#: The spool, in HMEM_STATE_DIR.
SPOOL = "journal"
#: Seconds for one call of rsync, and without a byte over the network.
CALL_SECONDS, SILENCE_SECONDS = 600.0, 30
#: Who has sent last; rsync sends files in the order of their names, so this one is first.
ANNOUNCED = "announced.json"
#: Held while files are sent: dispatchers and `hmem forget` do.
SEND_LOCK = "send.lock"
#: Files of a journal: never a half-written one, nor its lock.
_FILES = (
    f"--include=/{ANNOUNCED}",
    "--include=/journal.json",
    "--include=/day-*.jsonl",
    "--include=/store-*.sqlite",
    "--include=/keyring.json",
    "--exclude=*",
)


class There(Enum):
    """What the other host has: nothing yet; what this host has sent last; a newer journal of this host; or one that is not this host's to write."""

    NOTHING = "nothing"
    OURS = "ours"
    NEWER = "newer"
    FOREIGN = "foreign"


class NewerThere(JournalUnavailable):
    """Nothing was sent, because the other host has a newer journal of this host."""


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
    """The journal, created if there is none; where the spool is lost or older than what is there, it is fetched. JournalUnavailable if the place
    cannot be reached: then nothing is created, because an empty journal must not take the place of a full one."""
    folder, journal = journal_folder(settings), open_journal(settings)
    if folder is None or journal is None:
        raise JournalUnavailable("JOURNAL is not set. Set it, then try again.")
    if settings.journal_host:
        own_dir(settings.hmem_state_dir, SPOOL)
        _fetch_if_newer(settings, folder)
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


def _fetch_if_newer(settings: Settings, folder: Path) -> None:
    try:
        found, _ = compare(settings, folder)
    except JournalUnavailable:
        if journal_id(folder) is None:
            raise
        return  # the spool is kept meanwhile; nothing is sent before it was compared (`send`)
    if found is There.NEWER:
        fetch(settings, folder)


def compare(settings: Settings, folder: Path) -> tuple[There, dict[str, Any]]:
    """And what announced.json there says, {} for nothing. JournalUnavailable if the other host cannot be reached."""
    with tempfile.TemporaryDirectory() as temporary:
        wanted = (f"--include=/{ANNOUNCED}", f"--include=/{ID}", "--exclude=*")
        rsync(settings, *wanted, _remote(settings), f"{temporary}/")
        there, said = journal_id(Path(temporary)), _announced(Path(temporary))
    own, ours = journal_id(folder), _announced(folder)
    if there is None and not said:
        return There.NOTHING, said
    known = said.get("sending", "") in (ours.get("sending", ""), ours.get("before", ""))
    if known and own is not None and there in (None, own):
        return There.OURS, said
    if said.get("host", host_of(settings)) != host_of(settings):
        return There.FOREIGN, said
    if there is None:  # this host's first sending was cut off, and its spool is lost
        return There.NOTHING, said
    if own is None or (own == there and int(said.get("last", -1)) >= last_number(folder)):
        return There.NEWER, said
    return There.FOREIGN, said


def fetch(settings: Settings, folder: Path) -> bool:
    """Bring the journal from the other host in place of what is here; False if there is none. The id comes last, so that a torn fetch is no journal.

    Where an older journal was here, Redis has followed that one: so the fetched one says that Redis has confirmed more than it can have, which makes
    the next look put back what Redis lacks.
    """
    fetched = fresh_dir(folder / ".fetched")
    try:
        rsync(settings, "--times", *durable_option(), *_FILES, _remote(settings), f"{fetched}/")
        if journal_id(fetched) is None:
            return False
        put_keyring_back(settings, fetched)
        with locked_file(folder / LOCK):
            if journal_id(folder) is not None:
                number = max(last_number(folder), last_number(fetched)) + 1
                mark = line_of(JournalEntry(number, time.time(), MARK, None, {"value": number}))
                write_atomic(fetched / segment_name(number), mark)
            _replace(folder, fetched)
    finally:
        remove_tree(fetched)
    return True


def _replace(folder: Path, fetched: Path) -> None:
    (folder / ID).unlink(missing_ok=True)
    for old in (folder / ANNOUNCED, *segments(folder), *(path for _, path in bases(folder))):
        old.unlink(missing_ok=True)
    for path in sorted(fetched.iterdir(), key=lambda one: one.name == ID):
        if path.name == ID:
            fsync_dir(folder)
        path.replace(folder / path.name)
    fsync_dir(folder)


def send(settings: Settings, folder: Path) -> None:
    """Bring the files to the other host; those that have gone here go there, at the end. JournalUnavailable if that fails, or if what is there is
    not what this host has sent."""
    with locked_file(folder / SEND_LOCK):
        found, said = compare(settings, folder)
        if found is There.NEWER:
            raise NewerThere(_refusal(settings, found, said))
        if found is There.FOREIGN:
            raise JournalUnavailable(_refusal(settings, found, said))
        _announce(settings, folder, str(said.get("sending", "")))
        rsync(settings, "--times", "--delete-after", *durable_option(), *_FILES, f"{folder}/", _remote(settings))


def _announce(settings: Settings, folder: Path, before: str) -> None:
    """Durable here before it is there: a host that forgot it would take its own sending for another's."""
    path = folder / ANNOUNCED
    earlier = path.stat().st_mtime if path.exists() else 0.0
    record = {"journal": journal_id(folder), "host": host_of(settings), "last": last_number(folder)}
    write_atomic(path, dumps(record | {"sending": uuid4().hex, "before": before}))
    second = max(int(time.time()), int(earlier) + 1)  # rsync leaves out a file of the same size and second
    os.utime(path, (second, second))


def _announced(folder: Path) -> dict[str, Any]:
    try:
        return loads_object((folder / ANNOUNCED).read_bytes())
    except (OSError, RecordRefused):
        return {}


def host_of(settings: Settings) -> str:
    """This installation, also after the loss of HMEM_STATE_DIR; another one on the same machine, or on a copy of it, has another name."""
    try:
        machine = Path("/etc/machine-id").read_bytes()
    except OSError:
        machine = b""
    digest = hashlib.sha256(machine).hexdigest()[:12]
    return f"{socket.gethostname()}:{settings.hmem_state_dir.resolve()} ({digest})"


def _refusal(settings: Settings, found: There, said: dict[str, Any]) -> str:
    if found is There.NEWER:
        return f"{settings.journal} has a newer journal than this host, so nothing is sent there. The dispatcher fetches it when it starts."
    if said.get("host", host_of(settings)) != host_of(settings):
        return (
            f"{settings.journal} is the second copy of {said['host']}, so nothing is sent there. Give this host another JOURNAL; "
            "only if that host is gone for good, stop the dispatcher and take over with hmem restore --day."
        )
    return (
        f"{settings.journal} has another journal, or an older state of this one, so nothing is sent there. Give JOURNAL another directory, or empty "
        "that one: this host's journal is sent anew. To use what is there instead, stop the dispatcher and run hmem restore --day."
    )


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
