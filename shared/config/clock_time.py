"""A time of day in a setting."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator


def clock_time(value: str) -> str:
    """`18:00`, unchanged; ValueError unless it is a time from 00:00 to 23:59."""
    if not re.fullmatch(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", value):
        raise ValueError(f"{value!r} is not a time of day; write one like 18:00")
    return value


ClockTime = Annotated[str, AfterValidator(clock_time)]
