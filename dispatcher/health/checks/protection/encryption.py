"""Whether what is stored is encrypted, whether it can be read tomorrow, and whether it could be read if this host were lost."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path

from dispatcher.claude.client import cli_environment
from dispatcher.health.findings import Finding, Setup, ok, problem, warning
from shared.config.settings import Settings
from shared.errors import EncryptionKeyMissing, StoreUnavailable
from shared.system.keys import copies, sealing

#: How many of the newest rows of each table are opened.
SAMPLED = 50
COPY = "Run hmem key copy TO, and keep that file elsewhere."


def check_encryption(setup: Setup) -> Finding:
    """The key and the keyring can be read and written, stored rows open, and every key is in a copy. EncryptionKeyMissing if not."""
    settings = setup.settings
    if settings.encrypt_key_file is None:
        _sample(settings)  # of a store that was encrypted before, this is a problem
        return ok(
            "Encryption at rest is off (ENCRYPT_KEY_FILE is not set): whoever has a disk or a backup of this host can read it."
        )
    keys, file = sealing.keys(), settings.encrypt_key_file
    if not os.access(file.parent, os.W_OK | os.X_OK):
        return problem(
            EncryptionKeyMissing.exit_code,
            f"{file.parent} cannot be written, so chats that are new get no key, and their messages are not stored.",
            "Give the directory of ENCRYPT_KEY_FILE to the dispatcher's user (chown), in a place that its service may write to.",
        )
    opened, plain, sealed = _sample(settings)
    found = copies.state(keys)
    weaker = [*_uncopied(found), *_plain(plain, sealed), *_inside(settings, file), *_modes(file)]
    if weaker:
        sentences, fixes = zip(*weaker, strict=True)
        return warning(" ".join(sentences), " ".join(dict.fromkeys(fixes)))
    return ok(
        f"Encryption at rest is on: key {found.fingerprint}, {found.keys} keys of {found.chats} chats, all in your copy; {opened} stored "
        f"texts were opened. Not encrypted are {not_ours(settings)}.{_hint(settings, file)}"
    )


def not_ours(settings: Settings) -> str:
    """What other programs write, in plain words."""
    environment = cli_environment(settings)
    claude = environment.get("CLAUDE_CONFIG_DIR") or Path(environment.get("HOME", "~")) / ".claude"
    places = f"the Claude CLI's transcripts ({claude}), the chats' working directories, and the files of Redis"
    return f"{places}: keep those on an encrypted disk or tmpfs"


def _sample(settings: Settings) -> tuple[int, int, bool]:
    """(how many stored texts of the day store were opened, how many of its newest rows are plain, whether all were once encrypted)."""
    if not settings.has_day_store:
        return 0, 0, True
    from dispatcher.memory.store.database import Database
    from dispatcher.memory.store.sealed.at_rest import is_sealed, sample

    with closing(Database(settings.day_store_url, settings.hmem_state_dir)) as database:
        if database.path is not None and not database.path.exists():
            return 0, 0, True
        try:
            with database.reading() as connection:
                return *sample(connection, SAMPLED), is_sealed(connection)
        except EncryptionKeyMissing:
            raise
        except StoreUnavailable:  # another check says so
            return 0, 0, True


def _uncopied(found: copies.KeyState) -> list[tuple[str, str]]:
    if not found.new_keys:
        sentence = "No copy of the encryption key was made on this host: if it is lost, nothing can be read again."
        return [(sentence, COPY)] if found.copied_at is None else []
    whose = f"{found.new_chats} chats have keys that are" if found.new_chats else f"{found.new_keys} keys are"
    if found.new_chats == 1:
        whose = "1 chat has a key that is"
    return [
        (
            f"{whose} in no copy: if this host is lost, they cannot be read from mirror or backup.",
            COPY,
        )
    ]


def _plain(plain: int, sealed: bool) -> list[tuple[str, str]]:
    found = []
    if not sealed:
        found.append(
            (
                "The day store is not encrypted yet: that happens when the dispatcher starts with ENCRYPT_KEY_FILE.",
                "Restart the dispatcher (hmem run), or run hmem key seal. There is no way back but hmem export.",
            )
        )
    elif plain:
        found.append(
            (
                f"{plain} of the newest rows of the day store are plain: a program without ENCRYPT_KEY_FILE wrote them.",
                "Set ENCRYPT_KEY_FILE for every program and service, restart them, then run hmem key seal.",
            )
        )
    return found


def _inside(settings: Settings, file: Path) -> list[tuple[str, str]]:
    inside = [path for path in _ours(settings) if file.resolve().is_relative_to(path.resolve())]
    if not inside:
        return []
    sentence = f"The key is inside {inside[0]}, so every copy of that directory brings its key."
    return [(sentence, "Move the directory of ENCRYPT_KEY_FILE out of ours, and out of every backup.")]


def _hint(settings: Settings, file: Path) -> str:
    """Key and data on one file system: only copies of the data are protected."""
    if all(path.stat().st_dev != file.stat().st_dev for path in _ours(settings)):
        return ""
    return " Key and data are on one disk, so backups, mirrors and copies are protected, and this disk itself is not."


def _ours(settings: Settings) -> list[Path]:
    every = (settings.hmem_state_dir, settings.hmem_memory_dir, settings.hmem_night_dir)
    return [path for path in every if path.exists()]


def _modes(file: Path) -> list[tuple[str, str]]:
    mode = stat.S_IMODE(file.stat().st_mode) | stat.S_IMODE(file.parent.stat().st_mode) & 0o022
    if not mode & 0o077:
        return []
    return [
        (
            f"Others than its owner may read or replace {file} (modes {mode:o}).",
            f"If dispatcher and night do not need that: chmod 600 {file}; chmod 700 {file.parent}",
        )
    ]
