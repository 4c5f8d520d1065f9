"""The password of a backup repository: read from the file that a setting or an option names, or made there."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from shared.config.settings import Settings
from shared.errors import BackupFailed, InvalidInput, SettingsError

LEAST_LENGTH = 8
_HOW = "hmem backup --new-password FILE makes one"


def read_password(settings: Settings, given: Path | None = None) -> bytes:
    """The first line of the file. Called before root becomes another user, since the file may be root's alone."""
    path = given or settings.backup_password_file
    if path is None:
        raise SettingsError(
            f"BACKUP_PASSWORD_FILE is not set: a restic repository is always encrypted, and needs a password. {_HOW}; then set it to that file."
        )
    try:
        found = path.stat()
        password = path.read_bytes().partition(b"\n")[0].rstrip(b"\r")
    except OSError as error:
        raise SettingsError(
            f"The password file of the backups {path} cannot be read ({error.strerror}). Correct BACKUP_PASSWORD_FILE or its rights; {_HOW}."
        ) from error
    if found.st_mode & 0o077:
        raise SettingsError(
            f"Other users may read {path}, the password of the backups. Take that away: chmod 600 {path}."
        )
    if len(password) < LEAST_LENGTH:
        raise SettingsError(f"The first line of {path} is no password of {LEAST_LENGTH} characters or more. {_HOW}.")
    return password


def make_password(path: Path) -> None:
    """Write a new one into a file that does not exist yet, for its owner alone."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise InvalidInput(
            f"{path} exists already. A backup can only be read with its own password, so it is not replaced; name another file."
        ) from error
    except OSError as error:
        raise BackupFailed(f"{path} cannot be made ({error.strerror}). Name a file in a directory of yours.") from error
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(secrets.token_urlsafe(32).encode() + b"\n")
        handle.flush()
        os.fsync(handle.fileno())
