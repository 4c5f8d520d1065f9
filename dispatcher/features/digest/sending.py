"""Sends the chats' digests: each morning at REPORT_AT to every chat that wants one (`/digest on`) and has something to be told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from datetime import time as clock
from typing import TYPE_CHECKING

import structlog

from dispatcher.features.digest.outgoing import Outgoing, due
from dispatcher.features.digest.settings import DigestSettings
from shared.errors import HmemError
from shared.text.dates.calendar_days import instant

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.releases.served import ReadRelease

log = structlog.get_logger()

#: Seconds for which no other dispatcher begins with the digests.
TURN_SECONDS = 900.0


def send_digests(
    day: DayMemory, read_release: ReadRelease, outgoing: Outgoing, now: float, stopping: Callable[[], bool]
) -> int:
    """Send today's digests that were not sent yet; how many. RedisError if Redis does not answer. A chat whose digest fails is tried again."""
    settings = day.settings
    today = datetime.fromtimestamp(now, settings.timezone).date()
    if now < instant(today, clock.fromisoformat(settings.of(DigestSettings).report_at), settings.timezone):
        return 0
    chats = {chat: last for chat, last in outgoing.wanted_digests().items() if due(last, today)}
    if not chats or not outgoing.my_turn("digests", now, TURN_SECONDS):
        return 0
    try:
        return sum(
            _send(day, read_release, outgoing, chat, last, today, now) for chat, last in chats.items() if not stopping()
        )
    finally:
        outgoing.done("digests")


def _send(
    day: DayMemory, read_release: ReadRelease, outgoing: Outgoing, chat: str, last: str, today: date, now: float
) -> int:
    from dispatcher.features.digest.digest import digest_text

    try:
        forgotten = day.forgotten.of(chat)
        with read_release() as release:
            text = digest_text(day, release, chat, today, now, date.fromisoformat(last), outgoing.language(chat))
        if day.forgotten.of(chat) != forgotten:  # while a model wrote: the next look makes another one
            return 0
    except (HmemError, OSError) as error:
        log.warning("a digest must wait", reason=str(error))
        return 0
    except Exception:  # a defect of ours: the other chats get theirs, and this one is not tried every minute
        log.exception("a digest failed")
        text = None
    return int(outgoing.digest(chat, text, today, now) and text is not None)
