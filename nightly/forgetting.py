"""The night's part of `hmem forget`: a night, which erases what the tombstones in Redis name from archive, mirror, releases and servers."""

from __future__ import annotations

import time
from typing import Any

from nightly.night.failure import alarm_of
from nightly.night.folder import DONE, night_runs, nights_dir, read_record
from nightly.night.progress import Reporter
from nightly.pipeline import run_nights
from shared.config.settings import Settings
from shared.errors import NightRunning, RestartFailed

#: How long to wait for another night, the time between two tries, and between two messages about it. Seconds.
OTHER_NIGHT_SECONDS, TRY_SECONDS, SAY_SECONDS = 3_600.0, 2.0, 60.0


def erase(settings: Settings, report: Reporter) -> dict[str, Any]:
    """Run a night, after any that is already running. What all of them erased, and `left` as `what_is_left` says.

    NightRunning if another one has not ended within OTHER_NIGHT_SECONDS.
    """
    begun = time.time()
    alarm = alarm_of(_run(settings, report)[-1])
    done = [night for night in _finished(settings) if night["finished_at"] >= begun]
    found = what_is_left(settings)
    if alarm and not isinstance(alarm, RestartFailed):
        found["left"] = str(alarm)
    return found | {
        "records": sum(night.get("erased", 0) for night in done),
        "files": sum(night.get("media", {}).get("erased", 0) for night in done),
    }


def what_is_left(settings: Settings) -> dict[str, Any]:
    """By the last night here, `left`: why mirror, day host or a vector server may still have what it removed everywhere else, or None.

    `refused`: whether it did not erase what a tombstone asked for, because that has no valid signature.
    """
    last = next(iter(_finished(settings)[-1:]), {"not_pruned": "no night has finished on this host"})
    left = next(filter(None, map(last.get, ("mirror_failed", "not_pruned", "not_swept"))), None)
    return {"left": left, "refused": any(map(last.get, ("refused_tombstones", "only_hiding_tombstones")))}


def _run(settings: Settings, report: Reporter) -> list[dict[str, Any]]:
    deadline, reported = time.monotonic() + OTHER_NIGHT_SECONDS, float("-inf")
    while True:
        try:
            return run_nights(settings, report)
        except NightRunning:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() - reported > SAY_SECONDS:
            report.say("Another night is running; waiting for it to end.")
            reported = time.monotonic()
        time.sleep(TRY_SECONDS)


def _finished(settings: Settings) -> list[dict[str, Any]]:
    """The summaries of the finished nights of this host, oldest first."""
    found = (read_record(nights_dir(settings) / str(run) / DONE) for run in night_runs(settings))
    return [summary for summary in found if summary]
