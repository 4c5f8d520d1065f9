"""What a single value of a setting must look like. Each function returns the value, or raises a ValueError that shows how to write it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

#: Accounts of Telegram's under which many people write: an anonymous administrator, a channel, Telegram's own notices.
SHARED_ACCOUNTS = frozenset({"1087968824", "136817688", "777000"})


def known_zone(value: str) -> str:
    """The name of a time zone as it was given; ValueError if this host knows none of that name."""
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{value!r} is no time zone; write one like Europe/Berlin") from error
    return value


def store_url(value: str | None) -> str | None:
    """Address of the store of the day: PostgreSQL, SQLite, `none`, or unset."""
    scheme = (value or "").partition("://")[0].partition("+")[0].strip().lower()
    if scheme not in ("", "none", "sqlite", "postgresql", "postgres"):
        raise ValueError("write it like postgresql://user:password@host/database, or none")
    return value


def redis_url(value: str) -> str:
    """What redis-py takes. The library itself is loaded only for a URL with options: that takes long."""
    try:
        parts = urlsplit(value)
        if not value.startswith(("redis://", "rediss://", "unix://")) or parts.port == 0:
            raise ValueError(value)
        if parts.query:
            from redis.connection import parse_url

            parse_url(value)  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise ValueError("write it like redis://127.0.0.1:6379/0") from error
    return value


def http_url(value: str, example: str) -> str:
    parts = urlsplit(value)  # a wrong port raises here or in the next line
    if parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 1) < 1:
        raise ValueError(f"write it like {example}")
    return value


def chat_ids(value: str) -> str:
    """Numbers with commas; groups are negative."""
    for one in filter(None, map(str.strip, value.split(","))):
        if not re.fullmatch(r"-?[0-9]{1,19}", one):
            raise ValueError(f"{one!r} is no chat id; write numbers with commas, such as 9912,-1001234")
    return value


def user_ids(value: str) -> str:
    """Numbers of persons, with commas."""
    for one in filter(None, map(str.strip, value.split(","))):
        if not is_person(one):
            raise ValueError(f"{one!r} is no person's number; write user ids with commas, such as 9912,31337")
    return value


def is_person(user: str) -> bool:
    """Whether a user id is that of one person: a number above zero, and none of Telegram's shared accounts."""
    return bool(re.fullmatch(r"[1-9][0-9]{0,18}", user)) and user not in SHARED_ACCOUNTS


def names_a_host(place: str) -> bool:
    """Whether a place is `[user@]host:path`, as rsync reads it: a colon before the first slash."""
    return ":" in place.split("/")[0]
