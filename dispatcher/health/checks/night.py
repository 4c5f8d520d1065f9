"""Checks of the nights: has one succeeded lately, can the next one write, is the archive intact, does its mirror exist, can the owner sign.

They run as the dispatcher's user on the dispatcher's host. That user may not read the night user's files, and with two hosts the night's directory
is on the other one. In these cases a check reports that and who can look (`hmem-night status`), which is not a fault.
"""

from __future__ import annotations

import os
from pathlib import Path

from dispatcher.health.findings import Fault, Finding, Setup, of_error, ok, problem, warning
from dispatcher.health.nights import STALE_HOURS, since_then
from dispatcher.health.status import read_status
from shared.config.ownership import user_name
from shared.config.values import names_a_host
from shared.errors import ArchiveDamaged, MemoryStale, MirrorFailed, SettingsError
from shared.system.archive_folder import cannot_write, look, unwritable
from shared.system.command import KEY_FILE
from shared.system.keys.owner_key import WITHOUT_COPY, key_file, trusted_key


def check_night(setup: Setup) -> Finding:
    """A night has succeeded lately, and none has failed since."""
    now = setup.now()
    status = read_status(setup.settings, setup.redis, now)
    hours, failure = status.last_night_hours, status.last_failure
    fix = "Check hmem-night status and its log, then run hmem-night run."
    since = f" Since then {failure.sentence(now)}" if failure else ""
    if hours is not None and hours <= STALE_HOURS:
        sentence = f"The last good night was run {status.last_night_run}, {hours:.1f} hours ago."
        return problem(Fault.NIGHT_FAILED, sentence + since, fix) if failure else ok(sentence)
    if hours is not None:
        sentence = f"The last good night is {hours:.0f} hours old ({STALE_HOURS:.0f} are the limit): {since_then(setup.settings)}."
        return problem(MemoryStale.exit_code, sentence + since, fix)
    never = "No night has succeeded yet" if failure else "No night has ever run"
    tried = f" The last attempt: {failure.sentence(now)}" if failure else ""
    waiting = status.oldest_waiting_hours or 0.0
    if waiting > STALE_HOURS:
        sentence = f"{never}, and turns have been waiting for {waiting:.0f} hours.{tried}"
        return problem(MemoryStale.exit_code, sentence, fix)
    if failure:
        return problem(Fault.NIGHT_FAILED, f"{never}.{tried}", fix)
    return warning("No night has run yet.", "Run hmem-night run once, then every night (scripts/nightly.sh from cron).")


def check_night_directory(setup: Setup) -> Finding:
    """The next night can write."""
    night_dir = setup.settings.hmem_night_dir
    if not _is_there(night_dir):
        return ok(f"There is no night directory {night_dir} here: the night creates it, or runs on another host.")
    if why := unwritable(night_dir):
        return of_error(cannot_write(why))
    if _belongs_to_another(night_dir):
        return ok(_closed(night_dir))
    return ok(f"The night directory {night_dir} can be written.")


def check_archive(setup: Setup) -> Finding:
    """The archive is intact, as far as can be checked quickly."""
    night_dir = setup.settings.hmem_night_dir
    if not _is_there(night_dir / "archive"):
        return ok("There is no archive here: no night has run yet, or the night runs on another host.")
    try:
        return ok(look(night_dir).sentence)
    except ArchiveDamaged as error:
        return of_error(error)
    except PermissionError:
        return ok(_closed(night_dir))


def check_mirror(setup: Setup) -> Finding:
    """The mirror of the archive exists."""
    place = setup.settings.archive_mirror
    if not place:
        return ok("ARCHIVE_MIRROR is not set here.")
    if names_a_host(place):
        return ok(f"The mirror {place} is on another host; hmem-night verify checks it.")
    path = Path(place).expanduser()
    if not _is_there(setup.settings.hmem_night_dir / "archive") or _is_there(path):
        return ok(f"ARCHIVE_MIRROR is {place}; hmem-night verify compares it with the archive.")
    return problem(
        MirrorFailed.exit_code,
        f"The mirror of the archive {place} does not exist, so nights delete nothing from Redis.",
        "Mount it, or create it if it is new (sudo install -d -m 700 -o USER).",
    )


def check_owner_key(setup: Setup) -> Finding:
    """If the night trusts an owner's key, the owner still has it."""
    settings = setup.settings
    try:
        if settings.owner_public_key or trusted_key(settings) is None:
            return ok("The owner's key is not needed here, or is elsewhere.")
        if _belongs_to_another(settings.hmem_night_dir):  # then the key is not this user's either
            return ok(
                f"{settings.hmem_night_dir} trusts an owner's key; whether the owner has it cannot be checked from here."
            )
        path = key_file(settings)
        if path.exists():
            return ok(f"The owner's key exists: {path}.")
    except PermissionError:
        return ok("This user may not read the directory of the owner's key.")
    sentence = f"There is no owner's key at {path} (OWNER_KEY_FILE), but the night requires one: hmem forget could erase nothing."
    fix = f"Restore it from a copy. {WITHOUT_COPY}"
    if (
        path == Path(KEY_FILE).expanduser()
    ):  # not set: the owner may be another user, with the key in another home directory
        return warning(sentence, f"Ignore this if the key is in another user's home directory. Otherwise: {fix}")
    return problem(SettingsError.exit_code, sentence, fix)


def _is_there(path: Path) -> bool:
    """Whether it is a directory; True for one that this user may not read."""
    try:
        return path.is_dir()
    except PermissionError:
        return True


def _belongs_to_another(path: Path) -> bool:
    try:
        return path.stat().st_uid != os.geteuid()
    except PermissionError:
        return True


def _closed(night_dir: Path) -> str:
    try:
        name = user_name(night_dir.stat().st_uid)
    except PermissionError:
        name = "another user"
    return f"{night_dir} belongs to {name} and this user may not read it: run hmem-night status as that user."
