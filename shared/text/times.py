"""Times as a person writes them on a command line."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from shared.errors import InvalidInput


def moment(said: object, zone: ZoneInfo) -> float | None:
    """POSIX seconds of a number or an ISO 8601 text (in `zone` if it names none), None of None; ValueError otherwise."""
    if said is None:
        return None
    try:
        seconds = float(str(said))
    except ValueError:
        read = datetime.fromisoformat(str(said))
        seconds = (read if read.tzinfo else read.replace(tzinfo=zone)).timestamp()
    try:
        datetime.fromtimestamp(seconds, zone)
    except (OverflowError, OSError) as error:
        raise ValueError(f"{said} is not a time") from error
    return seconds


def given_moment(option: str, said: str | None, zone: ZoneInfo) -> float | None:
    """The same of an option's value; InvalidInput that names the option."""
    try:
        return moment(said, zone)
    except ValueError as error:
        raise InvalidInput(
            f"{option} {said} is not a time: write 2026-05-08, 2026-05-08T14:00 or POSIX seconds."
        ) from error
