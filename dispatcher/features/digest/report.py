"""The morning report (`report.txt.j2`): one line when all is well, else what the last nights did and what needs the owner. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from dispatcher.health.nights import NightRecord
from shared.text.format import counted, rough_duration, size_text, sparkline, time_text
from shared.text.templates import templates

#: The most nights that have a bar.
MOST_BARS = 14
_WORDS = {"counted": counted, "duration": rough_duration, "size": size_text, "sparkline": sparkline, "time": time_text}
_TEMPLATE = templates("dispatcher.features.digest", ".", trim_blocks=True).get_template("report.txt.j2", globals=_WORDS)


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
    def ended(self) -> Sequence[tuple[int, float]]:
        """(run, end) of the nights that ended well, the last one last."""
        found = [(one.run, one.finished_at) for one in self.records if one.failed is None]
        return sorted([*found, *([self.good] if self.good else [])], key=lambda one: one[1])

    @property
    def newest_run(self) -> int | None:
        """The run that this report tells of."""
        return max((run for run, _ in self.ended), default=None)


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
    nights, today = morning.records[-MOST_BARS:] if good else [], datetime.fromtimestamp(morning.now, morning.zone)

    def bars(name: str) -> str:
        """A night that failed has none."""
        return sparkline([None if one.failed else getattr(one, name) for one in nights])

    more = {
        "problems": problems,
        "date": f"{today:%A} {today.day} {today:%B %Y}",
        "new": sum(one.new or 0 for one in fresh),
    }
    ended = morning.ended[-1] if morning.ended else None
    return _TEMPLATE.render(vars(morning) | more, ended=ended, fresh=fresh, nights=nights, bars=bars).rstrip()
