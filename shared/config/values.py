"""Single values as settings and people write them: a time zone, a time of day, an address to listen on, a place on another host, a person."""

from __future__ import annotations

import re
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

#: Accounts of Telegram's under which many people write: an anonymous administrator, a channel, Telegram's own notices.
SHARED_ACCOUNTS = frozenset({"1087968824", "136817688", "777000"})
#: Where nothing else is said, only this host comes in.
LOOPBACK = "127.0.0.1"
_WRITTEN = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:\[\]/@]*)):)?(?P<port>[0-9]{1,5})")


def known_zone(value: str) -> str:
    """The name of a time zone as it was given; ValueError if this host knows none of that name."""
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{value!r} is no time zone; write one like Europe/Berlin") from error
    return value


def clock_time(value: str) -> str:
    """`18:00`, as it was given; ValueError for what is no time from 00:00 to 23:59."""
    if not re.fullmatch(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", value):
        raise ValueError(f"{value!r} is no time of day; write one like 18:00")
    return value


ClockTime = Annotated[str, AfterValidator(clock_time)]


def listen_address(written: str) -> tuple[str, int]:
    """(host, port) of `127.0.0.1:9464`, `[::1]:9464` or `9464`; ValueError with a sentence for anything else."""
    match = _WRITTEN.fullmatch(written.strip())
    if match is None or not 1 <= int(match["port"]) <= 65_535:
        raise ValueError(f"{written!r} is no address to listen on; write it like 127.0.0.1:9464 or [::1]:9464")
    return match["six"] or match["host"] or LOOPBACK, int(match["port"])


def names_a_host(place: str) -> bool:
    """Whether a place is `[user@]host:path`, as rsync reads it: a colon before the first slash."""
    return ":" in place.split("/")[0]


def is_person(user: str) -> bool:
    """Whether a user id is that of one person: a number above zero, and none of Telegram's shared accounts."""
    return bool(re.fullmatch(r"[1-9][0-9]{0,18}", user)) and user not in SHARED_ACCOUNTS
