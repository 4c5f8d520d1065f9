"""The last nights in words, for picture, page and terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from nightly.night.counts import MIRROR_LAGS, MIRROR_OK
from shared.text.format import counted, day_text, size_text, zoned_text

Nights = Sequence[Mapping[str, Any]]

#: What all other steps together are called.
REST = "the rest"
MIRRORS = {MIRROR_OK: "up to date", MIRROR_LAGS: "lags behind: nothing is deleted from Redis until it is up to date"}


def span(seconds: float) -> str:
    """A duration: `4.2 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def came_in(night: Mapping[str, Any]) -> int:
    """Turns that the night added to the archive."""
    return int(night["new"] + night["new_versions"])


def result_of(night: Mapping[str, Any]) -> str:
    return f"failed at {night['failed']['step']}" if night["failed"] else "good"


def headline(nights: Nights, zone: ZoneInfo) -> tuple[str, str]:
    """A title and a line below it."""
    if not nights:
        return "No night yet", "Run hmem-night run."
    failed = sum(bool(night["failed"]) for night in nights)
    title = "The last night" if len(nights) == 1 else f"The last {len(nights)} nights"
    how = "all good" if not failed else "failed" if failed == len(nights) == 1 else f"{failed} failed"
    last = nights[-1]
    below = f"Night {last['run']}, {day_text(last['finished_at'], zone)}: {result_of(last)}, "
    return f"{title}: {how}", below + f"{counted(came_in(last), 'turn')} in {span(last['seconds'])}"


def step_shares(nights: Nights, most: int) -> tuple[list[str], list[list[float]]]:
    """Names of the `most` longest steps of all nights and of the rest, and for each night the seconds of each of them."""
    totals = Counter[str]()
    for night in nights:
        totals.update(night["steps"])
    names = [name for name, seconds in totals.most_common(most) if seconds]
    rows = [[night["steps"].get(name, 0.0) for name in names] for night in nights]
    if not any(seconds for name, seconds in totals.items() if name not in names):
        return names, rows
    rest = [sum(seconds for name, seconds in night["steps"].items() if name not in names) for night in nights]
    return [*names, REST], [[*row, more] for row, more in zip(rows, rest, strict=True)]


def lines_of(night: Mapping[str, Any], zone: ZoneInfo) -> Iterator[tuple[str, str]]:
    """One night in ten lines, as (what, how it is)."""
    failed, gate = night["failed"], night["gate"]
    yield f"Night {night['run']}", f"{result_of(night)}. {failed['sentence']}" if failed else "good"
    yield "ended", zoned_text(night["finished_at"], zone)
    yield "took", _took(night)
    yield "account", account(night)
    yield "chats with news", f"{night['chats']:,}"
    yield "archive", f"{counted(night['turns'], 'turn')}, {counted(night['chunks'], 'chunk')}"
    yield "gate", f"{gate['found']} of {gate['asked']} questions found" if gate else "no questions were asked"
    yield "release", _release(night)
    yield "mirror", MIRRORS.get(night["mirror"], "none, or it was not looked at")
    yield "disk", f"{size_text(night['free_bytes'])} free" if night["free_bytes"] is not None else "not known"


def brief(night: Mapping[str, Any], zone: ZoneInfo) -> dict[str, str]:
    """One night in a row of a terminal, by column; a row of a good night fits into 80 characters."""
    gate = night["gate"]
    return {
        "night": str(night["run"]),
        "ended": day_text(night["finished_at"], zone).rpartition(" ")[0],
        "result": result_of(night),
        "took": span(night["seconds"]),
        "turns": f"{came_in(night):,}",
        "gate": f"{gate['found']}/{gate['asked']}" if gate else "-",
        "release": known_size(night["release_bytes"]),
        "free disk": known_size(night["free_bytes"]),
    }


def known_size(size: int | None) -> str:
    return "-" if size is None else size_text(size)


def account(night: Mapping[str, Any]) -> str:
    """Where each exported record went."""
    parts = [f"{night['new']:,} new"]
    parts += [f"{night['new_versions']:,} new versions"] if night["new_versions"] else []
    parts += [f"{night['already_archived']:,} already archived"] if night["already_archived"] else []
    parts += [f"{night['quarantined']:,} quarantined"] if night["quarantined"] else []
    text = f"{night['exported']:,} exported = {' + '.join(parts)}; {night['deleted']:,} deleted from Redis"
    refused = night["refused_tombstones"]
    return f"{text}; {counted(refused, 'tombstone')} refused" if refused else text


def _took(night: Mapping[str, Any]) -> str:
    if not night["steps"]:
        return "no step was done"
    longest = max(night["steps"], key=night["steps"].__getitem__)
    return f"{span(night['seconds'])}, the longest step was {longest} with {span(night['steps'][longest])}"


def _release(night: Mapping[str, Any]) -> str:
    size = "no size known" if night["release_bytes"] is None else size_text(night["release_bytes"])
    return size if night["moved"] is None else f"{size}, {size_text(night['moved'])} sent"
