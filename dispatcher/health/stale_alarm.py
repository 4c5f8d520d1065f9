"""The dispatcher logs an error when memory is out of date: a night that did not run has no process that could report it.

Once an hour it looks at the last good night, at what stopped a later one, and at the pin. It reads two keys and two small files; whatever
fails is logged and tried again, and never stops the answers. The owner's own message about it is in notices/.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import redis
import structlog
from redis.asyncio import Redis

from dispatcher.health.nights import NIGHT_KEYS, STALE_HOURS, pin_sentence, read_nights
from shared.config.settings import Settings
from shared.errors import ReleaseRefused
from shared.release.retention import read_pin
from shared.system.files import make_dir, write_atomic
from shared.text.format import time_text

log = structlog.get_logger()

#: Seconds from the start to the first look, and from one look to the next.
FIRST_SECONDS = 60.0
LOOK_SECONDS = 3600.0
#: Seconds that Redis and the disk may take for one look.
CHECK_TIMEOUT_SECONDS = 60.0
#: In HMEM_STATE_DIR: when a dispatcher first ran here, for installations that never had a night.
FIRST_RUN = "first-run"


class Alarm:
    """One per dispatcher."""

    def __init__(self, settings: Settings, client: Redis) -> None:
        self._settings, self._redis = settings, client
        self._started = time.time()

    async def watch(self) -> None:
        """For ever; cancelled at the end."""
        await asyncio.sleep(FIRST_SECONDS)
        while True:
            try:
                async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                    why = await self.look(time.time())
                if why:
                    log.error(why)
            except (redis.RedisError, TimeoutError) as error:
                log.warning("cannot check now whether a night was missed", error=str(error) or "no answer")
            except Exception:  # a defect of ours: the next look must come
                log.exception("the check for missed nights failed")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, now: float) -> str | None:
        """What is wrong and what to do, or None."""
        nights = read_nights([await self._redis.get(key) for key in NIGHT_KEYS])
        good, failure = nights.good, nights.failure
        pinned, overdue = await asyncio.to_thread(self._pin, now)
        first_run = await asyncio.to_thread(self._first_run)
        hours = (now - (good[1] if good else first_run)) / 3600
        if hours <= STALE_HOURS and not overdue:
            return None
        if hours <= STALE_HOURS:
            return f"Memory is out of date: {overdue}. Remove the pin (hmem release unpin), then run hmem-night run."
        missed = (
            f"the last good night (run {good[0]}) is {hours:.0f} hours old"
            if good
            else f"no night has succeeded since the dispatcher first ran here, {hours:.0f} hours ago"
        )
        last = f"; {failure.sentence(now).rstrip('.')}" if failure else ""
        return f"Memory is out of date: {missed}{last}{pinned}. Check hmem-night status and its log, then run hmem-night run."

    def _pin(self, now: float) -> tuple[str, str | None]:
        """(a clause about the pin, why the pin alone is a reason for the alarm or None)."""
        try:
            pin = read_pin(self._settings.hmem_memory_dir)
        except ReleaseRefused as error:
            return "; the pin is damaged (hmem release unpin)", str(error).rstrip(".")
        except OSError as error:  # the watch over the release reports more
            return f"; whether a release is pinned cannot be read ({error.strerror})", None
        if pin is None:
            return "", None
        since = time_text(pin.since, self._settings.timezone)
        return f"; release {pin.run} is pinned since {since} (hmem release unpin)", pin_sentence(
            pin, now, self._settings
        )

    def _first_run(self) -> float:
        return first_run(self._settings.hmem_state_dir, self._started)


def first_run(state_dir: Path, started: float) -> float:
    """When a dispatcher first looked here, in POSIX seconds; if that cannot be stored, when this one started."""
    mark = state_dir / FIRST_RUN
    try:
        return float(mark.read_text(encoding="ascii"))
    except ValueError:  # damaged: its modification time is nearly the same
        return mark.stat().st_mtime
    except OSError:
        with contextlib.suppress(OSError):
            make_dir(mark.parent)
            write_atomic(mark, f"{started:.0f}\n".encode("ascii"))
        return started
