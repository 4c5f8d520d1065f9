"""What our processes read in Redis. Whoever may write to it can leave anything under our keys: a name or a number is taken for what it may be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from shared.text.format import shorten
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

#: Runs are numbers below this (manifest_shape.py); a run as a dispatcher writes it.
RUNS = 10**9
_RUN = re.compile(rb"[0-9]{1,9}")
_COUNT = re.compile(rb"[0-9]{1,18}")
#: Characters of a name that are shown.
SHOWN_CHARACTERS = 100


def run_of(raw: bytes | None) -> int | None:
    """A run as Redis holds it; 0 if nothing stands there, None for what is no run."""
    if raw is None:
        return 0
    return int(raw) if _RUN.fullmatch(raw) else None


def count_of(raw: bytes | None) -> int:
    """A count as Redis holds it; 0 for what is none."""
    return int(raw) if raw and _COUNT.fullmatch(raw) else 0


def living(client: Redis) -> dict[str, int | None]:
    """Dispatchers that live → run that they serve; 0 for none, None for what is no run. Any name may stand there."""
    served = cast(dict[bytes, bytes], client.hgetall(keys.RELEASE))
    names = {raw: raw.decode("utf-8", "replace") for raw in cast(set[bytes], client.smembers(keys.WORKERS))}
    return {name: run_of(served.get(raw)) for raw, name in names.items() if client.exists(keys.lease(name))}


def shown(raw: bytes | str, characters: int = SHOWN_CHARACTERS) -> str:
    """Text out of Redis for a sentence: without what a terminal would obey, and not endless."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return shorten("".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text), characters)
