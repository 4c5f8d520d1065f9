"""What the nights leave in Redis for the day: when the last good one ended, what stopped a later one, and figures of the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt
from redis import RedisError

from shared.config.settings import Settings
from shared.text.format import one_line
from shared.wire import keys
from shared.wire.ids import LATEST_TIMESTAMP
from shared.wire.values import shown

#: A night is missed when the last good one is older than this.
STALE_HOURS = 36.0
#: What `read_nights` reads, in this order.
NIGHT_KEYS = (keys.NIGHT_LAST, keys.NIGHT_FAILED)


@dataclass(frozen=True)
class Failure:
    """Why a night stopped, as the night recorded it; `at` in POSIX seconds."""

    run: int
    step: str
    error: str
    exit_code: int
    at: float

    def sentence(self, now: float) -> str:
        return f"night {self.run} stopped at {self.step}, {max(0.0, now - self.at) / 3600:.1f} hours ago: {self.error}"


@dataclass(frozen=True)
class Nights:
    """`good`: (run, POSIX seconds of its end) of the last good night; `failure`: what stopped a later one. None for none."""

    good: tuple[int, float] | None
    failure: Failure | None


def nights_of(client: Any) -> Nights:
    """What the nights have left in Redis."""
    return read_nights([client.get(key) for key in NIGHT_KEYS])


def read_nights(values: Sequence[Any]) -> Nights:
    """From the values of NIGHT_KEYS, bytes or None; what cannot be read counts as nothing."""
    good, failure = None, None
    with suppress(ValueError, KeyError, TypeError):
        record = orjson.loads(values[0] or b"null")
        good = int(record["run"]), float(record["finished_at"])
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        record = orjson.loads(values[1] or b"null")
        texts = record.get("sentence") or record["error"], record["step"]
        error, step = (shown(one_line(str(text)), 2000) for text in texts)
        failure = Failure(int(record["run"]), step, error, int(record["exit_code"]), float(record["at"]))
    return Nights(good, failure if failure and (good is None or failure.at > good[1]) else None)


class Gate(BaseModel):
    """How many questions the new release was asked before it was served, and to how many it found the turn."""

    asked: NonNegativeInt
    found: NonNegativeInt


class NightRecord(BaseModel):
    """One night of the report (nightly/night/report.py). Times are POSIX seconds, sizes bytes; None where the night said nothing."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    run: NonNegativeInt
    finished_at: Annotated[float, Field(ge=0, lt=LATEST_TIMESTAMP)]
    seconds: NonNegativeFloat | None = None
    new: NonNegativeInt | None = None
    turns: NonNegativeInt | None = None
    free_bytes: NonNegativeInt | None = None
    gate: Gate | None = None
    mirror: str | None = None
    writer: str | None = None
    failed: dict[str, str] | None = None

    @property
    def found_share(self) -> float | None:
        """Of the gate's questions, how many found their turn."""
        return self.gate.found / self.gate.asked if self.gate and self.gate.asked else None


def read_records(raw: bytes | None) -> list[NightRecord]:
    """The nights of NIGHT_REPORT's value, oldest first, without unreadable ones."""
    found = list[NightRecord]()
    with suppress(ValueError, TypeError, KeyError):
        for night in orjson.loads(raw or b"null")["nights"]:
            with suppress(ValueError):
                found.append(NightRecord.model_validate(night))
    return sorted(found, key=lambda one: one.finished_at)


def records_of(client: Any) -> list[NightRecord]:
    """Those in Redis; none while it does not answer, which other checks name."""
    with suppress(RedisError):
        return read_records(client.get(keys.NIGHT_REPORT))
    return []


def since_then(settings: Settings) -> str:
    """What happens to turns that are not in a release yet, as part of a sentence."""
    if not settings.has_day_store or settings.memory_tokens <= 0:
        return "newer turns are not recalled"
    if settings.memory_backend == "summary":
        return "newer turns are not in a summary"
    return "newer turns are recalled from the day store only"
