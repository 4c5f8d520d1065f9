"""The steps of the night, in order, and their execution: each step runs once, and committed steps are skipped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nightly.archive import erasing
from nightly.archive.catalog import open_catalog, recomputed
from nightly.archive.incoming import read_records, turn_keys
from nightly.archive.segments import segment_runs
from nightly.index import servers
from nightly.index.previous import Last
from nightly.index.recipe import recipe_of
from nightly.lifecycle import create_folder, discard_from, new_run, overtaken, tidy
from nightly.night import failure
from nightly.night.failure import free_bytes
from nightly.night.folder import Night, close_night, nights_dir, unfinished_run
from nightly.night.lease import connect, only_night
from nightly.night.ledger import totals
from nightly.night.progress import Reporter
from nightly.night.report import announce, counts_of
from nightly.night.target import open_target
from nightly.night.time_limit import time_limit
from nightly.steps import archive, build, chunk, dream, embed, export, flush, note, publish, restart, summarise
from shared.config.packages import missing_for_night
from shared.config.settings import Settings
from shared.errors import (
    EmbeddingError,
    HmemError,
    InvalidInput,
    LeaseLost,
    LedgerMismatch,
    ReleaseRefused,
    SettingsError,
)
from shared.release.manifest import Manifest
from shared.system.faults import crash_point
from shared.system.steps import Step, StepRunner
from shared.text.logs import Logger, bound

log = Logger()


#: `run(night, out)` writes into `out` and returns the step's result.
STEPS: tuple[Step, ...] = (
    Step("export", export.run),
    Step("archive", archive.run),
    Step("chunk", chunk.run, builds=True),
    Step("note", note.run, builds=True),
    Step("dream", dream.run, builds=True),
    Step("embed", embed.run, builds=True),
    Step("build", build.run, builds=True),
    Step("summarise", summarise.run, builds=True),
    Step("publish", publish.run, builds=True),
    Step("flush", flush.run),
    Step("restart", restart.run),
)

SKIPPED = "the current release already contains the whole archive"


def run_nights(
    settings: Settings,
    reporter: Reporter,
    from_step: str | None = None,
    *,
    accept: bool = False,
    rebuild: Callable[[Manifest | None], bool] | None = None,
) -> list[dict[str, Any]]:
    """Finish an unfinished night, then run a new one; the summary of each. With `from_step`, only rerun that part of the unfinished one.

    `accept`: also publish a release that finds far less than the current one. `rebuild`: called with the current release once an unfinished
    night is finished; if it returns true, the new night builds even if nothing is new.
    """
    with only_night(settings) as (client, lease):
        try:
            refuse_without_packages(settings)
        except SettingsError as error:
            failure.note_refused(client, lease.token, error)
            raise
        tidy(settings)
        target, old = open_target(settings), unfinished_run(settings)
        if old is not None and (why := overtaken(settings, old, target.current())):
            reporter.say(f"Night {old} is abandoned: {why}. What it exported is still in Redis or in the archive.")
            ended = {"run": old, "abandoned": why, "finished_at": time.time()}
            close_night(nights_dir(settings) / str(old), ended)
            old = None
        finished, rebuilt = [], False
        if old is not None:
            night = Night(settings, nights_dir(settings) / str(old), client, lease, reporter, accept=accept)
            finished.append(_finish(night, from_step))
            rebuilt = night.rebuild
        elif from_step:
            raise InvalidInput("There is no unfinished night to continue. Run hmem-night run without --from.")
        if from_step:
            return finished
        current, newest = target.standing()
        build = not rebuilt and rebuild is not None and rebuild(current)  # what was asked for is done then
        run = new_run(settings, lease.token, current, newest)
        folder = create_folder(settings, run, current, rebuild=build)
        reporter.say(f"Night {run}.")
        return [*finished, _run(Night(settings, folder, client, lease, reporter, accept=accept))]


def refuse_without_packages(settings: Settings) -> None:
    """SettingsError if a library that this night's embedder or indexes need is missing: found before hours of embedding, not after."""
    if missing := missing_for_night(settings):
        raise SettingsError(f"{'. '.join(missing)}. The night did not start; turns wait in Redis for the next one.")


def _finish(night: Night, from_step: str | None) -> dict[str, Any]:
    """Run the rest of an unfinished night, and the steps of it that must be repeated."""
    night.report.say(f"Finishing night {night.run}.")
    redo = from_step or _stale_from(night)
    if redo:
        discard_from(night, step_names()[step_names().index(redo) :])
    return _run(night)


def _stale_from(night: Night) -> str | None:
    """The first step of an unfinished night whose output is outdated, or None: the owner may have repaired something since.

    Before the segment is written, the export is simply repeated. Before the release is published, chunks must come from the archive
    as it is now, and be made as the settings say now: a night must not wait for a model that is no longer used. And a night of the chats with news
    must start from what the last one left, as it is now.
    """
    if not night.is_done("archive"):
        return None if night.run in segment_runs(night.archive_dir) else "export"
    if night.is_done("publish") or not night.is_done("chunk") or "skipped" in night.result("chunk"):
        return None
    current = night.target.current()
    if current is not None and current.run == night.run:
        return None  # it is already current: only the rest is left to do
    made_from, now = (
        {name: sha256 for name, sha256 in segments.items() if name.startswith("seg-")}  # texts come after chunking
        for segments in (night.result("chunk")["segments"], _archived(night))
    )
    refused = failure.code_of(night) in (ReleaseRefused.exit_code, LedgerMismatch.exit_code)
    if made_from != now or refused:  # the same release would be refused again and again
        return "chunk"
    return "chunk" if _starts_otherwise(night) else None


def _starts_otherwise(night: Night) -> bool:
    """Whether the chunks follow from something that is not so any more: the program, the time zone, a model; and the choice of the chats with
    news from what the last night left."""
    made, refused = night.result("chunk"), failure.code_of(night) == EmbeddingError.exit_code
    if made["recipe"] != recipe_of(night.settings, made["recipe"], ask=False):
        return True
    return not made["everything"] and bool(refused or made["last_token"] != Last(night).token)


def step_names() -> list[str]:
    return [step.name for step in STEPS]


def _run(night: Night) -> dict[str, Any]:
    """Run all steps that are not committed, in order."""
    NightRun(night).run_all(STEPS)
    summary = _summary(night) | _remove_outdated(night)
    close_night(night.folder, summary)
    failure.note_end(night, summary)
    announce(night.settings, night.redis, step_names())
    return summary


def _remove_outdated(night: Night) -> dict[str, Any]:
    """Remove releases from before something was forgotten permanently, and indexes on servers that no release uses.

    Returns the runs that are still read, and why something could not be removed: the next night tries again, and until then a forgetting
    is not complete.
    """
    erases = bool(night.result("archive").get("erased"))
    if erases:
        erasing.drop_other_indexes(night, night.parent if "skipped" in night.result("publish") else night.run)
    in_use, not_pruned = _prune(night) if erases else ([], None)
    return {"held_by_readers": in_use, "not_pruned": not_pruned, "not_swept": servers.sweep(night)}


def _prune(night: Night) -> tuple[list[int], str | None]:
    """Remove releases that contain what was forgotten permanently, once their successor is served."""
    deadline = time.monotonic() + night.settings.publish_wait
    try:
        while (in_use := night.target.prune()) and time.monotonic() < deadline:
            time.sleep(publish.SERVED_POLL_SECONDS)
    except HmemError as error:  # the day host is not reachable: memory is published anyway
        return [], str(error)
    return in_use, None


class NightRun(StepRunner):
    """The steps of a night, each with its folder, while we hold the lease."""

    def __init__(self, night: Night) -> None:
        self._night = night

    def is_done(self, step: Step) -> bool:
        return self._night.is_done(step.name)

    @contextmanager
    def limits(self, step: Step) -> Iterator[None]:
        limit = time_limit(step.name, self._night.settings.step_timeout)
        with bound(run=self._night.run, step=step.name), limit:
            yield

    def carry_out(self, step: Step) -> Any:
        night = self._night
        night.lease.check()
        out = night.begin(step.name)
        crash_point(f"{step.name}:begun")
        return _skipped(night, step) if step.builds and _nothing_to_build(night) else step.run(night, out)

    def commit(self, step: Step, result: Any, seconds: float) -> None:
        night = self._night
        night.commit(step.name, {**result, "seconds": seconds})
        shown = {name: value for name, value in result.items() if isinstance(value, int) or name == "skipped"}
        if night.settings.log_json:
            log.info("step done", seconds=seconds, **shown)
        else:
            counts = ", ".join(f"{name} {value}" for name, value in shown.items())
            night.report.say(f"  {step.name:9} {seconds:7.2f} s  {counts if night.report.counts else ''}".rstrip())

    def failed(self, step: Step, error: Exception) -> None:
        failure.note(self._night, step.name, error)
        if not isinstance(error, LeaseLost):
            announce(self._night.settings, self._night.redis, step_names())


def _nothing_to_build(night: Night) -> bool:
    """Decided once, at the first building step; the others follow it."""
    return "skipped" in night.result("chunk") if night.is_done("chunk") else _up_to_date(night)


def _skipped(night: Night, step: Step) -> dict[str, Any]:
    """The result of a step that builds nothing; of the first one also what the release has that stays, for the summary."""
    current = night.target.current() if step.name == "chunk" else None
    kept = {"chunks": current.chunks, "bytes": current.size} if current else {}
    return {"skipped": SKIPPED, **kept}


def _up_to_date(night: Night) -> bool:
    """Whether the current release is what the last night left, of this archive, and would be made as that was."""
    current, segments, last = night.target.current(), _archived(night), Last(night)
    if current is None:
        return not segments
    if last.path is None or last.recipe is None or (last.path.name, segments) != (str(current.run), current.segments):
        return False
    written_by = [current.summary_model, current.notes_model]  # None: it waits for a model's texts
    if last.recipe != recipe_of(night.settings, last.recipe, ask=False) or last.recipe["written_by"] != written_by:
        return False
    try:
        night.target.check(current.run)
    except ReleaseRefused as error:
        night.report.say(f"  {error} It is rebuilt.")
        return False
    return True


def _archived(night: Night) -> dict[str, str]:
    """The segments with their hashes."""
    with open_catalog(night) as catalog:
        return catalog.segments


def _summary(night: Night) -> dict[str, Any]:
    """The summary of a finished night for people."""
    results = {name: night.result(name) for name in step_names()}
    return counts_of(results) | {
        "run": night.run,
        "finished_at": time.time(),
        "ledger": totals(results),
        "set_aside": results["chunk"].get("set_aside", {}),
        "without_summary": results["summarise"].get("without_summary", {}),
        "not_embedded": dict(Counter(results["embed"].get("refused", {}).values())),
        "without_model": results["summarise"].get("without_model_reasons", {}),
        "notes": {name: results["note"].get(name, 0) for name in ("notes", "windows", "postponed", "asked")},
        "without_notes": results["note"].get("without_model_reasons", {}),
        "only_hiding_tombstones": results["archive"].get("only_hiding_tombstones", 0),
        "erased": results["archive"].get("erased", {}).get("records", 0),
        "still_found": results["archive"].get("erased", {}).get("scan", {}).get("found", []),
        "imported": results["export"].get("imports", {}).get("new", 0),
        "published": "skipped" not in results["publish"],
        "pinned": results["publish"].get("pinned"),
        "changed_since": results["flush"]["changed_since"],
        "unproven": results["flush"]["unproven"],
        "mirror_failed": results["flush"].get("mirror_failed"),
        "restart_failed": results["restart"].get("failed"),
        "free_bytes": free_bytes(night.settings.hmem_night_dir),
    }


def dry_run(settings: Settings) -> dict[str, Any]:
    """What a night would find, without writing anything there."""
    with connect(settings) as client, recomputed(settings, Reporter(quiet=True)) as catalog:
        names = turn_keys(client)
        return {
            "unfinished_night": unfinished_run(settings),
            "keys": len(names),
            "not_archived": sum(catalog.segment_of(record.sha256) is None for record in read_records(client, names)),
        }
