"""The morning report: one line when all is well, else what the last nights did and what needs the owner. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from dispatcher.health.nights import NightRecord
from shared.text.format import counted, rough_duration, size_text, sparkline, time_text

#: The most problems that are listed.
MOST_PROBLEMS = 6
#: The most nights that have a bar.
MOST_BARS = 14


@dataclass(frozen=True)
class Morning:
    """What the report is made of. `told_run`: the run that the last report told of; `good`: (run, end) of the last good night; `free_here`: the
    least free space of our directories on this host, in bytes; `told_by_features`: of the last
    good night, each a sentence and the command of a button."""

    now: float
    zone: ZoneInfo
    records: Sequence[NightRecord] = ()
    good: tuple[int, float] | None = None
    told_run: int | None = None
    free_here: int | None = None
    problems: Sequence[str] = field(default_factory=list)
    told_by_features: Sequence[tuple[str, str]] = ()

    @property
    def newest_run(self) -> int | None:
        """The run that this report tells of."""
        return max((run for run, _ in _good_nights(self)), default=None)


def report_text(morning: Morning) -> str:
    """The report, in English."""
    good = [one for one in morning.records if one.failed is None]
    fresh = [one for one in good if morning.told_run is None or one.run > morning.told_run]
    if morning.told_run is None:
        fresh = fresh[-1:]
    problems = [*morning.problems]
    if good and morning.good and good[-1].run < morning.good[0]:  # older figures would pass for the last night's
        good, fresh = [], []
        problems.append(f"the report of night {morning.good[0]} was not written; its log says why")
    if fresh and not problems:
        return " ".join([f"All well, {_remembered(fresh)}.", *(f"{one}." for one, _ in morning.told_by_features)])
    today = datetime.fromtimestamp(morning.now, morning.zone)
    date = f"{today:%A} {today.day} {today:%B %Y}"
    lines = [f"Good morning. {date}", _night_line(morning, fresh)]
    lines += [
        *(f"{one}." for one, _ in morning.told_by_features if fresh),
        *(_figures(morning.records[-MOST_BARS:]) if good else ()),
    ]
    lines += [f"Disk: {size_text(morning.free_here)} free here."] if morning.free_here is not None else []
    return "\n".join([*lines, *_needs(problems)])


def _remembered(fresh: Sequence[NightRecord]) -> str:
    new = sum(one.new or 0 for one in fresh)
    return f"{counted(new, 'message')} remembered" if new else "nothing new to remember"


def _good_nights(morning: Morning) -> Iterator[tuple[int, float]]:
    yield from ((one.run, one.finished_at) for one in morning.records if one.failed is None)
    if morning.good:
        yield morning.good


def _night_line(morning: Morning, fresh: Sequence[NightRecord]) -> str:
    ended = sorted(_good_nights(morning), key=lambda one: one[1])
    if not ended:
        return "Night: none has ended well yet."
    run, at = ended[-1]
    if morning.told_run is not None and run <= morning.told_run:
        hours = max(0.0, morning.now - at) / 3600
        return (
            f"Night: none has ended well since the last report; the last one (run {run}) ended {hours:.0f} hours ago."
        )
    remembered = f": {_remembered(fresh)}" if any(one.run == run for one in fresh) else "; it left no figures"
    return f"Night: run {run} ended well at {time_text(at, morning.zone)}{remembered}."


def _figures(nights: Sequence[NightRecord]) -> Iterator[str]:
    """What the last of these nights said of itself, and how it was in those before; one that failed has no bar."""
    last, good = nights[-1], [None if one.failed else one for one in nights]
    if last.new is not None:
        yield f"New messages: {last.new:,} {sparkline([one.new if one else None for one in good])}"
    if last.gate and last.gate.asked:
        shares = [one.gate.found / one.gate.asked if one and one.gate and one.gate.asked else None for one in good]
        yield f"Recall check: {last.gate.found:,} of {last.gate.asked:,} questions found {sparkline(shares)}"
    if last.seconds is not None:
        yield f"Took: {rough_duration(last.seconds)} {sparkline([one.seconds if one else None for one in good])}"
    if last.free_bytes is not None:
        yield f"Free on the night host: {size_text(last.free_bytes)} {sparkline([one.free_bytes for one in nights])}"


def _needs(problems: Sequence[str]) -> list[str]:
    if not problems:
        return ["Needs you: nothing."]
    left = len(problems) - MOST_PROBLEMS
    more = [f"• and {left} more: run hmem doctor."] if left > 0 else []
    return ["Needs you:", *(f"• {one[:1].upper()}{one[1:]}." for one in problems[:MOST_PROBLEMS]), *more]
