"""The morning report: what the night did, how recall and disks are, and what needs the owner, in about ten lines. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from dispatcher.health.notices.night_records import NightRecord
from shared.text.dates.calendar_words import ENGLISH
from shared.text.format import counted, rough_duration, size_text, time_text

#: The most problems that are listed.
MOST_PROBLEMS = 6


@dataclass(frozen=True)
class Morning:
    """What the report is made of. `told_run`: the run that the last report told of; `good`: (run, end) of the last good night; `free_here`: the
    least free space of our directories on this host, in bytes."""

    now: float
    zone: ZoneInfo
    records: Sequence[NightRecord] = ()
    good: tuple[int, float] | None = None
    told_run: int | None = None
    free_here: int | None = None
    problems: Sequence[str] = field(default_factory=list)

    @property
    def newest_run(self) -> int | None:
        """The run that this report tells of."""
        return max((run for run, _ in _good_nights(self)), default=None)


def report_text(morning: Morning) -> str:
    """The report, in English."""
    today = datetime.fromtimestamp(morning.now, morning.zone)
    date = f"{ENGLISH.weekdays[today.weekday()]} {today.day} {ENGLISH.months[today.month - 1]} {today.year}"
    good = [one for one in morning.records if one.failed_step is None]
    fresh = [one for one in good if morning.told_run is None or one.run > morning.told_run]
    if morning.told_run is None:
        fresh = fresh[-1:]
    newest, problems = good[-1] if good else None, [*morning.problems]
    if newest and morning.good and newest.run < morning.good[0]:  # older figures would pass for the last night's
        good, fresh, newest = [], [], None
        problems.append(f"the report of night {morning.good[0]} was not written; its log says why")
    lines = [f"Good morning. {date}", _night_line(morning, fresh)]
    lines += _counts(fresh) if fresh else []
    lines += [*_recall(good), *_sizes(newest, good), *_disk(newest, good, morning.free_here)]
    if newest is not None and newest.mirror == "ok":
        lines.append("Mirror of the archive: up to date.")
    return "\n".join([*lines, *_needs(problems)])


def _good_nights(morning: Morning) -> Iterator[tuple[int, float]]:
    yield from ((one.run, one.finished_at) for one in morning.records if one.failed_step is None)
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
    record = next((one for one in fresh if one.run == run), None)
    took = f", after {rough_duration(record.seconds)}" if record and record.seconds is not None else ""
    before = f"; {len(fresh)} nights since the last report" if len(fresh) > 1 else ""
    figures = "" if record else "; it left no figures"
    return f"Night: run {run} ended well at {time_text(at, morning.zone)}{took}{before}{figures}."


def _counts(fresh: Sequence[NightRecord]) -> Iterator[str]:
    """What came in, was kept, deleted and refused; of several nights together."""
    new, versions, deleted = (_sum(getattr(one, name) for one in fresh) for name in ("new", "new_versions", "deleted"))
    newest = fresh[-1]
    if new is not None:
        chats = max((one.chats for one in fresh if one.chats is not None), default=None)
        of = "" if chats is None else f" of {'at least ' * (len(fresh) > 1)}{counted(chats, 'chat')} with news"
        yield (
            f"Came in: {counted(new, 'turn')}{of}"
            + (f", and {counted(versions, 'new version')}" if versions else "")
            + "."
        )
    if newest.turns is not None:
        passages = f" in {counted(newest.chunks, 'passage')}" if newest.chunks is not None else ""
        yield f"Kept: {counted(newest.turns, 'turn')}{passages}."
    if deleted is not None:
        yield f"Deleted from Redis, once verified in archive and release: {counted(deleted, 'turn')}."
    refused = [
        counted(count, what)
        for count, what in ((newest.quarantined, "unreadable record"), (newest.refused_tombstones, "tombstone"))
        if count
    ]
    if newest.quarantined is not None or newest.refused_tombstones is not None:
        yield f"Refused: {' and '.join(refused) or 'nothing'}."


def _recall(good: Sequence[NightRecord]) -> Iterator[str]:
    """The gate's questions of the last night, against those of the night before."""
    last, before = good[-1] if good else None, good[-2] if len(good) > 1 else None
    if last is None or not last.asked or last.found is None:
        yield "Recall: not tried by the last night."
        return
    line = f"Recall: {last.found:,} of {last.asked:,} trial questions found their passage"
    if before is not None and before.asked and before.found is not None:
        line += f" (the night before: {before.found:,} of {before.asked:,})"
    yield line + "."


def _sizes(newest: NightRecord | None, good: Sequence[NightRecord]) -> Iterator[str]:
    if newest is None or newest.release_bytes is None:
        return
    grown = _growth(newest.release_bytes, good[-2].release_bytes if len(good) > 1 else None)
    moved = f", {size_text(newest.moved)} of it sent to this host" if newest.moved is not None else ""
    yield f"Release: {size_text(newest.release_bytes)}{grown}{moved}."


def _disk(newest: NightRecord | None, good: Sequence[NightRecord], free_here: int | None) -> Iterator[str]:
    parts = [f"{size_text(free_here)} free here"] if free_here is not None else []
    if newest is not None and newest.free_bytes is not None:
        grown = _growth(newest.free_bytes, good[-2].free_bytes if len(good) > 1 else None)
        parts.append(f"{size_text(newest.free_bytes)} free on the night host{grown}")
    if parts:
        yield f"Disk: {', '.join(parts)}."


def _needs(problems: Sequence[str]) -> list[str]:
    if not problems:
        return ["Needs you: nothing."]
    left = len(problems) - MOST_PROBLEMS
    more = [f"• and {left} more: run hmem doctor."] if left > 0 else []
    return ["Needs you:", *(f"• {one[:1].upper()}{one[1:]}." for one in problems[:MOST_PROBLEMS]), *more]


def _growth(now: int, before: int | None) -> str:
    if before is None:
        return ""
    return f" ({'−' if now < before else '+'}{size_text(abs(now - before))} since the night before)"


def _sum(values: Iterator[int | None]) -> int | None:
    known = [one for one in values if one is not None]
    return sum(known) if known else None
