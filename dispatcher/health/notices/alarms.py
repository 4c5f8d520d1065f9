"""What the owner must know at once: each alarm with whether it holds now, as one sentence that says what to do.

The checks are those of `hmem doctor`, and run with the rights of the dispatcher; what cannot be judged now (no answer, no right) neither raises an
alarm nor ends one.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as clock
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import NoPermissionError

from dispatcher.health.checks.host import check_disk
from dispatcher.health.checks.memory import check_pin
from dispatcher.health.checks.night import check_mirror
from dispatcher.health.checks.queue import check_dead
from dispatcher.health.checks.redis import check_eviction, check_persistence
from dispatcher.health.findings import Finding, Setup, Usage, of_error
from dispatcher.health.nights import NIGHT_KEYS, STALE_HOURS, Nights, read_nights
from dispatcher.health.notices.claude_errors import errors_since
from dispatcher.health.notices.night_records import NightRecord, read_records
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.text.dates.calendar_days import instant
from shared.text.format import one_line, shorten, time_text
from shared.wire import keys

#: Seconds after REPORT_AT by which a good night must have come.
LATE_SECONDS = 3_600.0
#: The longest that a night's own reason is quoted. Characters.
REASON_CHARACTERS = 300
LOOK_AT_NIGHT = "check hmem-night status and its log, then run hmem-night run"


@dataclass(frozen=True)
class Trouble:
    """`what`: what is wrong and what to do, None if all is well; `well`: what to say when it is over."""

    name: str
    what: str | None
    well: str
    cause: str = ""  # another cause is another alarm, at once

    @property
    def text(self) -> str:
        return f"Well again: {self.well}." if self.what is None else f"Alarm: {self.what}."


@dataclass(frozen=True)
class Host:
    """What the alarms look at. Clock and disks are parameters, because a test cannot change the real ones."""

    settings: Settings
    redis: Redis
    first_run: float  # when a dispatcher first ran here, in POSIX seconds
    now: Callable[[], float] = time.time
    disk_usage: Callable[[Path], Usage] = shutil.disk_usage

    @property
    def setup(self) -> Setup:
        return Setup(self.settings, self.redis, self.now, self.disk_usage)

    def nights(self) -> Nights:
        client: Any = self.redis
        return read_nights([client.get(key) for key in NIGHT_KEYS])

    def records(self) -> list[NightRecord]:
        client: Any = self.redis
        return read_records(client.get(keys.NIGHT_REPORT))


def troubles(host: Host) -> Iterator[Trouble]:
    """Every alarm that can be judged now; RedisError if Redis does not answer.

    Where dispatchers disagree (each sees its own disk), an alarm lasts as long as one of them finds it: `alarm.lua` wants all to be well for longer
    than from one look to the next.
    """
    nights = host.nights()
    yield _missed(host, nights)
    yield _failed(nights)
    for name, check, well in (
        ("disk", check_disk, "there is room on the disks of this host"),
        ("eviction", check_eviction, "Redis never evicts"),
        ("persistence", check_persistence, "Redis writes its data to the disk"),
        ("pin", check_pin, "nights switch to the releases that they publish"),
    ):
        finding = carry_out(check, host.setup)
        if finding is not None:
            yield Trouble(name, _alarming(name, finding), well)
    yield from _mirror(host)
    yield _claude(host)


def problems(host: Host) -> list[str]:
    """What needs the owner, for the morning report: what the doctor would call a problem or a warning, each in a sentence with what to do."""
    found = [one.what for one in (_failed(host.nights()), *_mirror(host), _claude(host)) if one.what]
    for check in (check_eviction, check_persistence, check_disk, check_pin, check_dead):
        finding = carry_out(check, host.setup)
        if finding is not None and finding.state in ("problem", "warning"):
            found.append(_in_one(finding))
    return found


def carry_out(check: Callable[[Setup], Finding], setup: Setup) -> Finding | None:
    """What a check of the doctor finds; None if it cannot be made now."""
    try:
        return check(setup)
    except HmemError as error:
        return of_error(error)
    except (NoPermissionError, OSError, KeyError, ValueError):
        return None


def _alarming(name: str, finding: Finding) -> str | None:
    """A warning about persistence is an alarm, too: this user may only not ask how bad it is."""
    states = ("problem", "warning") if name == "persistence" else ("problem",)
    return _in_one(finding) if finding.state in states else None


def _in_one(finding: Finding) -> str:
    """A finding as one sentence without a full stop: what it found, and what to do."""
    sentence, fix = finding.sentence.rstrip("."), finding.fix.rstrip(".")
    return f"{_small(sentence)}; {_small(fix)}" if fix else _small(sentence)


def _small(sentence: str) -> str:
    """The sentence as it goes on after a colon: a first word of small letters loses its capital, a name keeps it."""
    first = sentence.split(" ", 1)[0]
    return sentence[:1].lower() + sentence[1:] if re.fullmatch(r"[A-Z][a-z]*", first) and first != "Redis" else sentence


def _missed(host: Host, nights: Nights) -> Trouble:
    """Between the last time of day at which a night must have come and the one a day before, there was none."""
    settings, now, zone = host.settings, host.now(), host.settings.timezone
    report_at, today = clock.fromisoformat(settings.report_at), datetime.fromtimestamp(now, zone).date()
    days = [today - timedelta(back) for back in range(4)]
    limits = [limit for day in days if (limit := instant(day, report_at, zone) + LATE_SECONDS) <= now]
    last = nights.good[1] if nights.good else host.first_run
    well = (
        f"night {nights.good[0]} ended well at {time_text(nights.good[1], zone)}"
        if nights.good
        else "a night is not due yet"
    )
    if last > limits[1] and now - last <= STALE_HOURS * 3600:
        return Trouble("night", None, well)
    said = (
        f"the last one (run {nights.good[0]}) ended at {time_text(last, zone)}"
        if nights.good
        else f"none has succeeded since the dispatcher first ran here ({time_text(last, zone)})"
    )
    due = time_text(limits[0], zone).split(" ")[1]
    return Trouble("night", f"no good night came by {due}: {said}; {LOOK_AT_NIGHT}", well)


def _failed(nights: Nights) -> Trouble:
    failure = nights.failure
    well = f"night {nights.good[0]} succeeded" if nights.good else "the failed night is forgotten"
    if failure is None:
        return Trouble("failed-night", None, well)
    why = shorten(one_line(failure.error), REASON_CHARACTERS).rstrip(".")
    what = f"night {failure.run} stopped at {failure.step} ({why}); {LOOK_AT_NIGHT}"
    return Trouble("failed-night", what, well, cause=f"{failure.run} {failure.step}")


def _mirror(host: Host) -> Iterator[Trouble]:
    """As the last night that brought it up to date said; and whether it is there, where it is on this host."""
    said = next((one.mirror for one in reversed(host.records()) if one.mirror), None)
    finding = carry_out(check_mirror, host.setup)
    here = finding is not None and finding.state == "problem"
    what = _in_one(finding) if here and finding is not None else None
    if said == "lags":
        what = (
            "the mirror of the archive lags behind, so nights delete nothing from Redis; check its disk or host (ARCHIVE_MIRROR), "
            "then run hmem-night verify --repair on the night host"
        )
    if said is not None or here or host.settings.archive_mirror:
        yield Trouble("mirror", what, "the mirror of the archive is up to date")


def _claude(host: Host) -> Trouble:
    client: Any = host.redis
    values: Sequence[bytes | None] = client.hmget(keys.CLAUDE_ERRORS, ["first", "last"])
    times, zone = errors_since(values), host.settings.timezone
    if times is None:
        return Trouble("claude", None, "Claude answers")
    first, last = (time_text(one, zone) for one in times)
    what = (
        f"Claude has given errors only since {first} (the last one at {last}); check hmem doctor (claude, login) as the dispatcher's user "
        "and the dispatcher's log"
    )
    return Trouble("claude", what, "Claude answers")
