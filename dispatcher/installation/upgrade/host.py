"""What an upgrade asks of this host before it changes anything: free disk, running nights, the other host's version; and the doctor's findings."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import orjson
from redis import Redis, RedisError

from dispatcher.health.checks.formats import FormatThere, formats_there
from dispatcher.health.findings import Usage
from dispatcher.installation.upgrade.installation import Installation
from dispatcher.installation.upgrade.versions import precedence
from dispatcher.memory.store.database import Database
from shared.config.credentials import for_child
from shared.config.settings import Settings
from shared.errors import NightRunning, StorageError, UpgradeFailed
from shared.system.files import locked_file
from shared.system.formats import parse
from shared.system.privileges import as_owner_of
from shared.system.processes import last_line, run_bounded
from shared.wire import keys
from shared.wire.client import asking_once, open_redis

#: Bytes that must be free: for the new packages, and on the disk of the state beside two copies of the day store.
PACKAGE_BYTES, STATE_BYTES = 512 << 20, 64 << 20
#: Seconds for the doctor, and how long a restarted service has until the doctor finds nothing wrong.
DOCTOR_SECONDS, SETTLING_SECONDS = 300.0, 90.0
#: Checks whose new problems mean that the new version does not work here. Others are named, but no reason to go back.
DECISIVE = frozenset({"settings", "redis", "state", "formats", "release", "store", "dispatcher", "bot", "claude"})


def refuse_without_room(
    settings: Settings, installation: Installation, usage: Callable[[Path], Usage] = shutil.disk_usage
) -> None:
    """StorageError that names the disk with too little room."""
    store = store_path(settings)
    size = store.stat().st_size if store and store.exists() else 0
    for place, wanted in ((installation.prefix, PACKAGE_BYTES), (settings.hmem_state_dir, STATE_BYTES + 2 * size)):
        free = usage(next(one for one in (place, *place.absolute().parents) if one.exists())).free
        if free < wanted:
            raise StorageError(
                f"The disk of {place} has {free >> 20} MiB free, and an upgrade needs {wanted >> 20} MiB there, so nothing was changed. "
                "Free some space, then run hmem upgrade again."
            )


@contextmanager
def no_night(settings: Settings) -> Iterator[tuple[int, ...]]:
    """Meanwhile no night begins on this host; NightRunning if one runs. Where this user may not see the lock, nothing is held.

    The lock's descriptor, if it is held: whoever else has it keeps nights away until it ends, too.
    """
    with ExitStack() as held:
        lock = _night_lock(held, settings.hmem_night_dir)
        yield () if lock is None else (lock,)


def _night_lock(held: ExitStack, folder: Path) -> int | None:
    with as_owner_of(folder), suppress(FileNotFoundError, PermissionError, NotADirectoryError):
        try:
            return held.enter_context(locked_file(folder / "lock", wait=False)).fileno()
        except BlockingIOError as error:
            raise NightRunning(
                "A night is running on this host, so nothing was changed. Run hmem upgrade when it has ended (hmem-night status)."
            ) from error
    return None


def other_host(settings: Settings, installation: Installation, target: str | None) -> str:
    """What to know about the other host; "" if there is none. UpgradeFailed if this one is the night host and the day host is older than `target`,
    where its version is known before it is installed."""
    if not settings.remote_target:
        return (
            ""
            if (settings.hmem_night_dir / "archive").exists()
            else "If nights run on another host, upgrade that one after this one."
        )
    day = refuse_before_day(settings, installation.version_of(target))
    known = f" (its dispatcher is hcli-memory {day})" if day else ""
    return f"The night on this host publishes to {settings.remote_target}{known}. The day host is upgraded first; do that before you go on here."


def refuse_before_day(settings: Settings, version: str | None) -> str:
    """UpgradeFailed if nights here publish to another host whose dispatcher is older than `version`; the dispatcher's version, as far as known."""
    day = _day_program(settings) if settings.remote_target else ""
    if version and day and precedence(day) < precedence(version):
        raise UpgradeFailed(
            f"The night on this host publishes to {settings.remote_target}, whose dispatcher is hcli-memory {day}: it might not read the releases "
            f"of {version}. Run hmem upgrade on the day host first, then here."
        )
    return day


def _day_program(settings: Settings) -> str:
    try:
        with open_redis(settings.redis_url, asking_once(5.0)) as client:
            found = parse(cast(bytes | None, client.get(keys.FORMAT)))
    except (RedisError, ValueError):
        return ""
    return found.program if found else ""


def formats_now(settings: Settings) -> dict[str, int]:
    """Place → number of its format, of those places that cannot be taken back."""
    client: Redis = open_redis(settings.redis_url, asking_once(5.0))
    with client, suppress(RedisError):
        return {one.place: int(one.shown) for one in _numbered(formats_there(settings, client))}
    return {}


def _numbered(found: Iterator[FormatThere]) -> Iterator[FormatThere]:
    return (one for one in found if one.place in ("state", "memory", "night", "Redis") and one.shown.isdigit())


def store_path(settings: Settings) -> Path | None:
    """The day store's file; None for a server, or none at all."""
    return Database(settings.day_store_url, settings.hmem_state_dir).path if settings.has_day_store else None


def version_of(python: Path) -> str:
    """The version that an environment has now; "" if it does not say."""
    command = [str(python), "-c", "from importlib.metadata import version; print(version('hcli-memory'))"]
    try:
        return run_bounded(command, DOCTOR_SECONDS).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def doctor(hmem: Path) -> list[dict[str, Any]]:
    """The problems that the installed program's doctor finds; UpgradeFailed if it does not start."""
    with for_child() as (environment, descriptors):
        try:
            done = run_bounded(
                [str(hmem), "doctor", "--json"], DOCTOR_SECONDS, environment=environment, descriptors=descriptors
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UpgradeFailed(f"hmem doctor could not be run: {error}. Run it by hand.") from error
    try:
        found = orjson.loads(done.stdout)["findings"]
        return [one for one in found if one["state"] == "problem"]
    except (ValueError, KeyError, TypeError) as error:
        raise UpgradeFailed(f"hmem doctor does not run: {last_line(done)}. Run it by hand.") from error


def new_problems(hmem: Path, before: list[str], seconds: float = SETTLING_SECONDS) -> list[dict[str, Any]]:
    """Problems that were not there before. Decisive ones have some time to go away, since services are just starting."""
    until = time.monotonic() + seconds
    while True:
        found = [one for one in doctor(hmem) if one["name"] not in before]
        if time.monotonic() >= until or not any(one["name"] in DECISIVE for one in found):
            return found
        time.sleep(1.0)
