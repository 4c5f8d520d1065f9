"""Reading values from Redis. Other programs may store anything under our keys, so names and numbers are checked."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, cast

from shared.text.format import shorten
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

#: Runs are numbers below this (shared/release/manifest_schema.py); a run as a dispatcher writes it.
RUNS = 10**9
_RUN = re.compile(rb"[0-9]{1,9}")
_COUNT = re.compile(rb"[0-9]{1,18}")
#: Characters of a name that are shown.
SHOWN_CHARACTERS = 100


def run_of(raw: bytes | None) -> int | None:
    """A run from its value in Redis; 0 if there is none, None if it is not a run."""
    if raw is None:
        return 0
    return int(raw) if _RUN.fullmatch(raw) else None


def count_of(raw: bytes | None) -> int:
    """A count from its value in Redis; 0 if it is not a count."""
    return int(raw) if raw and _COUNT.fullmatch(raw) else 0


def amount_of(raw: bytes | None) -> float:
    """A sum of money or tokens, or a time in POSIX seconds, from its value in Redis; 0 if it is not one."""
    try:
        amount = float(raw or 0)
    except ValueError:
        return 0.0
    return amount if math.isfinite(amount) and amount > 0 else 0.0


def living(client: Redis) -> dict[str, int | None]:
    """Running dispatchers → run that they serve; 0 for none, None if it is not a run. The names may be arbitrary."""
    served = cast(dict[bytes, bytes], client.hgetall(keys.RELEASE))
    names = {raw: raw.decode("utf-8", "replace") for raw in cast(set[bytes], client.smembers(keys.WORKERS))}
    return {name: run_of(served.get(raw)) for raw, name in names.items() if client.exists(keys.lease(name))}


def shown(raw: bytes | str, characters: int = SHOWN_CHARACTERS) -> str:
    """Text from Redis for a message: on one line, without characters that a terminal would obey, and shortened."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return shorten(visible(text, but=""), characters)


def visible(text: str, but: str = "\n\t") -> str:
    """Without characters that a terminal would obey, except `but`."""
    return "".join(one if one.isprintable() or one in but else "\N{REPLACEMENT CHARACTER}" for one in text)
