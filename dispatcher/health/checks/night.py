"""Checks of the nights: has one succeeded lately, can the next one write, is the archive intact, does its mirror exist, can the owner sign.

They run as the dispatcher's user on the dispatcher's host. That user may not read the night user's files, and with two hosts the night's directory
is on the other one. In these cases a check reports that and who can look (`hmem-night status`), which is not a fault.
"""

from __future__ import annotations

import os
from pathlib import Path

from dispatcher.health.findings import Fault, Finding, Setup, of_error, ok, problem, warning
from dispatcher.health.nights import STALE_HOURS, nights_of, records_of, since_then
from dispatcher.health.status import turns_waiting
from shared.config.ownership import user_name
from shared.config.values import names_a_host
from shared.errors import EmbeddingError, MemoryStale, MirrorFailed, SettingsError
from shared.system.archive_folder import cannot_write, look, unwritable
from shared.system.command import KEY_FILE
from shared.wire.values import shown

LOOK_AT_NIGHT = "Check hmem-night status and its log, then run hmem-night run."


def check_night(setup: Setup) -> Finding:
    """A night has succeeded lately."""
    now, good = setup.now(), nights_of(setup.redis).good
    if good is not None:
        hours = max(0.0, now - good[1]) / 3600
        if hours <= STALE_HOURS:
            return ok(f"The last good night was run {good[0]}, {hours:.1f} hours ago.")
        sentence = f"The last good night is {hours:.0f} hours old ({STALE_HOURS:.0f} are the limit): {since_then(setup.settings)}."
        return problem(MemoryStale.exit_code, sentence, LOOK_AT_NIGHT)
    _, oldest = turns_waiting(setup.redis)
    waiting = 0.0 if oldest is None else (now - oldest) / 3600
    if waiting > STALE_HOURS:
        sentence = f"No night has succeeded yet, and turns have been waiting for {waiting:.0f} hours."
        return problem(MemoryStale.exit_code, sentence, LOOK_AT_NIGHT)
    return warning("No night has run yet.", "Run hmem-night run once, then every night (scripts/nightly.sh from cron).")


def check_failed_night(setup: Setup) -> Finding:
    """None has failed since the last good one."""
    failure = nights_of(setup.redis).failure
    if failure is None:
        return ok("No night has failed since the last good one.")
    cause = f"{failure.run} {failure.step}"
    return problem(Fault.NIGHT_FAILED, f"N{failure.sentence(setup.now())[1:].rstrip('.')}.", LOOK_AT_NIGHT, cause)


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
        return ok(look(night_dir))
    except PermissionError:
        return ok(_closed(night_dir))


def check_mirror(setup: Setup) -> Finding:
    """The mirror of the archive exists, and the last night that used it brought it up to date."""
    place = setup.settings.archive_mirror
    if next((one.mirror for one in reversed(records_of(setup.redis)) if one.mirror), None) == "lags":
        return problem(
            MirrorFailed.exit_code,
            "The mirror of the archive lags behind, so nights delete nothing from Redis.",
            "Check its disk or host (ARCHIVE_MIRROR), then run hmem-night verify --repair on the night host.",
        )
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


def check_writer(setup: Setup) -> Finding:
    """The model that writes by night gives what can be used."""
    records = records_of(setup.redis)
    if not records or not (why := records[-1].writer):
        return ok("The last night did not give up the model that writes (WRITER), or none is set.")
    sentence = f"The last night gave up the model that writes (WRITER): {shown(why, 300).rstrip('.')}."
    fix = "Check its server, or set another model; what it wrote before stays, or summaries are picked sentences, and the next night asks again."
    return problem(EmbeddingError.exit_code, sentence, fix)


def check_owner_key(setup: Setup) -> Finding:
    """If the night trusts an owner's key, the owner still has it."""
    from shared.system.owner_key import WITHOUT_COPY, key_file, trusted_key  # which `hmem status` need not load

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
