"""Checks of single values. Each function returns the value, or raises a ValueError that shows how to write it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator

from shared.text.logs import hidden

#: Telegram accounts that many people share: anonymous administrators, channels, Telegram's own notices.
SHARED_ACCOUNTS = frozenset({"1087968824", "136817688", "777000"})
#: Where an endpoint listens if its address names a port alone: only connections from this host.
LOOPBACK = "127.0.0.1"
_WRITTEN = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:\[\]/@]*)):)?(?P<port>[0-9]{1,5})")

#: Once a day, at this minute and hour; and cron's numbers of the weekdays.
_DAILY = re.compile(r"[0-5]?[0-9] (?:[01]?[0-9]|2[0-3]) \* \* \*")
_WEEKDAYS = frozenset("01234567")


def known_zone(value: str) -> str:
    """The name of a time zone, unchanged; ValueError if this host does not know it."""
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{value!r} is not a time zone; write one like Europe/Berlin") from error
    return value


def database_url(value: str | None) -> str | None:
    """Address of the day store: PostgreSQL, SQLite, `none`, or unset."""
    scheme = (value or "").partition("://")[0].partition("+")[0].strip().lower()
    if scheme not in ("", "postgresql", "postgres", "none", "sqlite"):
        raise ValueError("write it like postgresql://user:password@host/database, or none")
    return value


def redis_url(value: str) -> str:
    """A URL that redis-py accepts. The library itself is loaded only for a URL with options, since loading takes long."""
    try:
        parts = urlsplit(value)
        if not value.startswith(("redis://", "rediss://", "unix://")) or parts.port == 0:
            raise ValueError(value)
        if parts.query:
            with hidden("opentelemetry"):  # as shared/wire/client.py
                from redis.connection import parse_url
            parse_url(value)  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise ValueError("write it like redis://127.0.0.1:6379/0") from error
    return value


def http_url(value: str) -> str:
    """A URL, without a slash at its end."""
    parts = urlsplit(value)  # a wrong port raises here or in the next line
    if parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 1) < 1:
        raise ValueError("write it like https://example.org or http://127.0.0.1:8000")
    return value.rstrip("/")


def chat_ids(value: str) -> str:
    """Comma-separated numbers; groups are negative."""
    for one in filter(None, map(str.strip, value.split(","))):
        if not re.fullmatch(r"-?[0-9]{1,19}", one):
            raise ValueError(f"{one!r} is not a chat id; write numbers separated by commas, such as 9912,-1001234")
    return value


def named_chats(value: str) -> frozenset[str]:
    """The ids of a comma-separated list, of any form; ValueError if it has none, though something was written."""
    found = frozenset(filter(None, map(str.strip, value.split(","))))
    if value.strip() and not found:
        raise ValueError("write chat ids separated by commas, such as 9912,-1001234")
    return found


def user_ids(value: str) -> str:
    """Comma-separated user ids."""
    for one in filter(None, map(str.strip, value.split(","))):
        if not is_person(one):
            raise ValueError(
                f"{one!r} is not the id of a person; write user ids separated by commas, such as 9912,31337"
            )
    return value


def is_person(user: str) -> bool:
    """Whether a user id is that of one person: a number above zero that is not one of Telegram's shared accounts."""
    return bool(re.fullmatch(r"[1-9][0-9]{0,18}", user)) and user not in SHARED_ACCOUNTS


def names_a_host(place: str) -> bool:
    """Whether a place is `[user@]host:path`, as rsync reads it: a colon before the first slash."""
    return ":" in place.split("/")[0]


def listen_address(written: str) -> tuple[str, int]:
    """(host, port) of `127.0.0.1:9464`, `[::1]:9464` or `9464`; ValueError with a sentence for anything else."""
    match = _WRITTEN.fullmatch(written.strip())
    if match is None or not 1 <= int(match["port"]) <= 65_535:
        raise ValueError(f"{written!r} is not an address to listen on; write it like 127.0.0.1:9464 or [::1]:9464")
    return match["six"] or match["host"] or LOOPBACK, int(match["port"])


def clock_time(value: str) -> str:
    """`18:00`, unchanged; ValueError unless it is a time from 00:00 to 23:59."""
    if not re.fullmatch(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", value):
        raise ValueError(f"{value!r} is not a time of day; write one like 18:00")
    return value


def cron_expression(value: str) -> str:
    """Five fields with a blank between them: it may become a line of a crontab. ValueError if it is none."""
    value = " ".join(value.split())
    if _DAILY.fullmatch(value):  # the library itself is loaded only for others, since loading takes long
        return value
    from apscheduler.triggers.cron import CronTrigger

    try:
        if not re.fullmatch("[0-9A-Za-z*/, -]*", value):
            raise ValueError("it has other characters than cron knows")
        CronTrigger.from_crontab(named_weekdays(value), timezone="UTC")
    except ValueError as error:
        raise ValueError(f"{value!r} is not a cron expression ({error}); write one like 0 3 * * *") from None
    return value


def named_weekdays(expression: str) -> str:
    """A cron expression with its weekdays as names: APScheduler counts from Monday = 0, cron from Sunday = 0 (or 7)."""
    *others, weekdays = expression.split() or [""]
    names = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
    days: list[str] = []
    for part in weekdays.split(","):
        first, dash, last = part.partition("-")
        if not (first in _WEEKDAYS and (not dash or last in _WEEKDAYS)):
            return expression  # names, * and steps mean the same in both
        days += [names[day % 7] for day in range(int(first), int(last or first) + 1)]
    return " ".join([*others, ",".join(dict.fromkeys(days))])


def bot_token(value: str) -> str:
    """The token of a Telegram bot, without the white space around it. The error does not name it."""
    token = value.strip()
    if not re.fullmatch(r"[0-9]+:[A-Za-z0-9_-]+", token):
        faults = {"has a space in it": r"\s", "has a quotation mark in it": "[\"'“”‘’«»]", "has no colon": "^[^:]*$"}
        wrong = next((fault for fault, pattern in faults.items() if re.search(pattern, token)), "has another form")
        raise ValueError(f"TELEGRAM_BOT_TOKEN is not a bot token: it {wrong}, and one looks like 123456:ABC-DEF")
    return token


def absolute(value: Path) -> Path:
    """The same place from every working directory."""
    return value.expanduser().absolute()


def _blank_to_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _ids_as_text(value: Any) -> Any:
    """The settings file may also have a number, or a list."""
    several = value if isinstance(value, list) else [value]
    return ",".join(str(one) for one in several) if not any(isinstance(one, bool) for one in several) else value


def accepted_by(check: Callable[[str], object]) -> AfterValidator:
    """Of a value that is nothing, or one for which `check` raises no ValueError; it stays as it is written, but for white space around it."""

    def accepted(value: str) -> str:
        if value := value.strip():
            check(value)
        return value

    return AfterValidator(accepted)


T = TypeVar("T")
#: What is set to nothing is unset.
BlankIsUnset = Annotated[T | None, BeforeValidator(_blank_to_none)]
AbsolutePath = Annotated[Path, AfterValidator(absolute)]
CronExpression = Annotated[str, AfterValidator(cron_expression)]
ClockTime = Annotated[str, AfterValidator(clock_time)]
HttpUrl = Annotated[str, AfterValidator(http_url)]
RedisUrl = Annotated[str, AfterValidator(redis_url)]
ChatIds = Annotated[str, BeforeValidator(_ids_as_text), AfterValidator(chat_ids)]
UserIds = Annotated[str, BeforeValidator(_ids_as_text), AfterValidator(user_ids)]
TimeZone = Annotated[str, AfterValidator(known_zone)]
DatabaseUrl = Annotated[str | None, AfterValidator(database_url)]
