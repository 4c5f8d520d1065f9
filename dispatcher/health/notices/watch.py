"""The dispatcher's look at what the owner and the chats are to be told: every minute, in the background.

Alarms, the morning report and the heartbeat are one thread's work, the digests another's, which may wait for a model. A step that fails is logged
and tried again by the next look; none stops the others, or the answers. Without REPORT_CHAT an alarm is a line of the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable
from datetime import datetime
from datetime import time as clock
from pathlib import Path
from typing import TYPE_CHECKING

import redis
import structlog
from redis import Redis

from dispatcher.health.notices.outgoing import AGAIN_SECONDS, Outgoing, due
from dispatcher.queue.chat.guests import allowed_guests
from shared.errors import HmemError
from shared.system.files import make_dir, write_atomic
from shared.text.dates.calendar_days import instant
from shared.wire.client import BACKGROUND, open_redis

if TYPE_CHECKING:
    from dispatcher.health.notices.alarms import Host
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.releases.served import ReadRelease
    from shared.config.settings import Settings

log = structlog.get_logger()

#: Seconds from the start to the first look, and from one look to the next.
FIRST_SECONDS = 15.0
LOOK_SECONDS = 60.0
#: In HMEM_STATE_DIR: when a dispatcher first ran here, for installations that never had a night.
FIRST_RUN = "first-run"


class NoticeWatch:
    """One per dispatcher. `read_release` returns the release that is read together with the day."""

    def __init__(self, settings: Settings, day: DayMemory, read_release: ReadRelease) -> None:
        self._settings, self._day, self._read_release = settings, day, read_release
        self._started = time.time()
        self._stopping = False
        self._waits: dict[str, str] = {}  # what fails now, and why
        self._logged: dict[str, tuple[str, float]] = {}  # alarm → its cause, and when the log last had it

    def stop(self) -> None:
        """Begin no further digest."""
        self._stopping = True

    async def watch(self) -> None:
        """For ever; cancelled at the end."""
        chat, allowed = self._settings.report_chat, self._settings.allowed
        if chat and allowed and int(chat) not in allowed | await asyncio.to_thread(self._guests):
            log.warning(
                "REPORT_CHAT is not in ALLOWED_CHATS, so the bot will send it no report and no alarm: add it", chat=chat
            )
        await asyncio.sleep(FIRST_SECONDS)
        with contextlib.closing(open_redis(self._settings.redis_url, BACKGROUND)) as client:
            looks = [self._again("owner", self.tell_owner, client)]
            looks += [self._again("chats", self.tell_chats, client)] if self._day.wanted else []
            await asyncio.gather(*looks)

    def _guests(self) -> set[int]:
        try:
            with contextlib.closing(open_redis(self._settings.redis_url, BACKGROUND)) as client:
                return allowed_guests(client)
        except redis.RedisError:
            return set()

    async def _again(self, name: str, look: Callable[[Redis, float], None], client: Redis) -> None:
        while True:
            await asyncio.to_thread(self._try, name, look, client, time.time())
            await asyncio.sleep(LOOK_SECONDS)

    def tell_owner(self, client: Redis, now: float) -> None:
        """One look for the owner. RedisError if Redis does not answer."""
        from dispatcher.health.notices.alarms import Host

        host = Host(
            self._settings,
            client,
            first_run(self._settings.hmem_state_dir, self._started),
            lambda: now,
            shutil.disk_usage,
        )
        self._try("alarms", lambda *_: self._raise_alarms(host), client, now)
        if self._settings.report_chat:
            self._try("report", lambda *_: send_report(host), client, now)
        if url := self._settings.heartbeat_url:
            from dispatcher.health.notices.heartbeat import beat

            beat(url, host.nights(), Outgoing(client), now)

    def _raise_alarms(self, host: Host) -> None:
        if self._settings.report_chat:
            send_alarms(host)
            return
        from dispatcher.health.notices.alarms import troubles

        for one in troubles(host):
            cause, at = self._logged.get(one.name, ("", -AGAIN_SECONDS))
            if one.what is None:
                self._logged.pop(one.name, None)
            elif cause != one.cause or host.now() - at >= AGAIN_SECONDS:
                log.error(one.text)
                self._logged[one.name] = one.cause, host.now()

    def tell_chats(self, client: Redis, now: float) -> None:
        """One look for the chats' digests. RedisError if Redis does not answer."""
        from dispatcher.health.notices.digests import send_digests

        send_digests(self._day, self._read_release, Outgoing(client), now, lambda: self._stopping)

    def _try(self, name: str, look: Callable[[Redis, float], object], client: Redis, now: float) -> None:
        """A reason that stays the same is logged once."""
        try:
            look(client, now)
        except (redis.RedisError, HmemError, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            if self._waits.get(name) != reason:
                log.warning("what the owner or a chat is to be told must wait", what=name, reason=reason)
            self._waits[name] = reason
        except Exception:  # a defect of ours: the next look must come
            log.exception("a look at what the owner or a chat is to be told failed", what=name)
        else:
            self._waits.pop(name, None)


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


def send_alarms(host: Host) -> int:
    """Raise, repeat and call off the alarms; how many messages were sent."""
    from dispatcher.health.notices.alarms import troubles

    outgoing, chat, now, sent = Outgoing(host.redis), host.settings.report_chat, host.now(), 0
    for one in troubles(host):
        sent += outgoing.alarm(one.name, chat, one.text, now, lasts=one.what is not None, cause=one.cause)
    return sent


def send_report(host: Host) -> bool:
    """Send today's morning report if it is time, this host ran by then, and it was not sent yet; whether it was."""
    settings, now, outgoing = host.settings, host.now(), Outgoing(host.redis)
    day = datetime.fromtimestamp(now, settings.timezone).date()
    at = instant(day, clock.fromisoformat(settings.report_at), settings.timezone)
    if now < at or host.first_run > at:
        return False
    if not due(outgoing.noted("report"), day):
        return False
    from dispatcher.health.notices.alarms import problems
    from dispatcher.health.notices.report import Morning, report_text

    told = outgoing.noted("report-run")
    morning = Morning(
        now,
        settings.timezone,
        host.records(),
        host.nights().good,
        int(told) if told.isdecimal() else None,
        _free_here(host),
        problems(host),
    )
    return outgoing.report(settings.report_chat, report_text(morning), day, now, morning.newest_run)


def _free_here(host: Host) -> int | None:
    settings, found = host.settings, []
    for path in (settings.hmem_state_dir, settings.hmem_memory_dir):
        with contextlib.suppress(OSError):
            found.append(host.disk_usage(path).free)
    return min(found, default=None)
