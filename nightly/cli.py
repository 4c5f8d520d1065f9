"""`hmem-night`: the batch that turns the day's turns into tomorrow's memory."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import typer

from shared.command import print_json, run_command, start
from shared.errors import ArchiveDamaged, InvalidInput, RestartFailed, SettingsError
from shared.settings import Settings

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, help=__doc__)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def main() -> None:
    run_command(app)


@app.command()
def run(
    json: Json = False,
    from_step: Annotated[
        str | None, typer.Option("--from", help="Redo the unfinished night from this step on.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")] = False,
    pull: Annotated[bool, typer.Option("--pull", help="First fetch the models that the Ollama server lacks.")] = False,
) -> None:
    """The whole night; finishes an unfinished one first."""
    from nightly import pipeline
    from nightly.progress import Reporter
    from nightly.pull import pull_missing

    settings = start()
    if from_step is not None and from_step not in pipeline.step_names():
        raise InvalidInput(f"--from {from_step}: no such step. Steps are {', '.join(pipeline.step_names())}.")
    if dry_run:
        plan = pipeline.dry_run(settings)
        if json:
            print_json(plan)
        else:
            typer.echo(
                f"{plan['keys']} keys in Redis, {plan['not_archived']} of them not archived; "
                f"unfinished night: {plan['unfinished_night'] or 'none'}. Nothing was written."
            )
        return
    report = Reporter(quiet=json)
    if pull:
        pull_missing(settings, report)
    summaries = pipeline.run_nights(settings, report, from_step)
    if json:
        print_json(summaries)
    else:
        for summary in summaries:
            typer.echo(_sentence(summary))
    if why := summaries[-1]["restart_failed"]:
        raise RestartFailed(
            f"RESTART_COMMAND failed: {why}. Memory is published and safe; restart the dispatcher by hand."
        )


def _sentence(summary: dict[str, Any]) -> str:
    if "abandoned" in summary:
        return f"Night {summary['run']} was given up: {summary['abandoned']}."
    seconds = sum(summary["seconds"].values())
    text = (
        f"Night {summary['run']} done in {seconds:.1f} s: {summary['exported']} exported = {summary['new']} new + "
        f"{summary['new_versions']} new versions + {summary['already_archived']} already archived + {summary['quarantined']} quarantined; "
        f"{summary['deleted']} deleted from Redis, {summary['changed_since']} changed since and kept; "
        + (f"{summary['unproven']} not in the release in use and kept; " if summary["unproven"] else "")
        + ("released." if summary["published"] else "nothing new to release.")
    )
    for reason, count in summary["reasons"].items():
        text += f"\n  quarantined: {count} × {reason}"
    for reason, count in summary.get("not_embedded", {}).items():
        text += f"\n  not embedded, found by keyword only: {count} × {reason}"
    for reason, count in summary.get("without_model", {}).items():
        text += f"\n  summary without the model, sentences instead: {count} × {reason}"
    return text


@app.command()
def schedule() -> None:
    """Run the night on NIGHT_CRON, for hosts without cron or systemd. Each night is a process of its own."""
    from apscheduler.schedulers.blocking import BlockingScheduler
    from apscheduler.triggers.cron import CronTrigger

    settings = start()
    try:
        trigger = CronTrigger.from_crontab(named_weekdays(settings.night_cron), timezone=settings.timezone)
    except ValueError as error:
        raise SettingsError(
            f"NIGHT_CRON={settings.night_cron!r} is no cron expression: {error}. Write one like '0 3 * * *'."
        ) from error
    scheduler = BlockingScheduler(timezone=settings.timezone)
    scheduler.add_job(_one_night, trigger, coalesce=True, max_instances=1, misfire_grace_time=None)
    typer.echo(f"Nights run at {settings.night_cron} ({settings.chat_timezone}). Stop with Ctrl-C.", err=True)
    try:
        scheduler.start()
    except (KeyboardInterrupt, SystemExit):
        typer.echo("Stopped.", err=True)


def named_weekdays(expression: str) -> str:
    """A cron expression with its weekdays as names: APScheduler counts from Monday = 0, cron from Sunday = 0 (or 7)."""
    *others, weekdays = expression.split() or [""]
    names = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
    days: list[str] = []
    for part in weekdays.split(","):
        first, dash, last = part.partition("-")
        if not (first.isdigit() and (not dash or last.isdigit())):
            return expression  # names, * and steps mean the same to both
        days += [names[day % 7] for day in range(int(first), int(last or first) + 1)]
    return " ".join([*others, ",".join(dict.fromkeys(days))])


def _one_night() -> None:
    """A night that fails (or crashes) says so and leaves the schedule running; the next one finishes it first."""
    code = subprocess.run([sys.executable, "-m", "nightly", "run"], check=False).returncode
    typer.echo(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%SZ} night ended with exit code {code}", err=True)


@app.command()
def status(json: Json = False) -> None:
    """Nights, their steps and ledgers."""
    nights = _nights(start())
    if json:
        print_json(nights)
        return
    if not nights:
        typer.echo("No night has run on this host yet. Run hmem-night run.")
    for night in nights[-10:]:
        if night["summary"]:
            ended = datetime.fromtimestamp(night["summary"]["finished_at"], UTC)
            typer.echo(f"{ended:%Y-%m-%d %H:%M}Z  {_sentence(night['summary'])}")
        else:
            done = ", ".join(night["steps"]) or "nothing"
            typer.echo(f"Night {night['run']} is unfinished; done: {done}. hmem-night run finishes it.")


def _nights(settings: Settings) -> list[dict[str, Any]]:
    from nightly.night import DONE, RESULT, night_runs, nights_dir
    from nightly.pipeline import step_names

    nights = []
    for number in night_runs(settings):
        folder = nights_dir(settings) / str(number)
        done = folder / DONE
        steps = {
            name: orjson.loads((folder / name / RESULT).read_bytes())
            for name in step_names()
            if (folder / name).is_dir()
        }
        nights.append(
            {"run": number, "steps": steps, "summary": orjson.loads(done.read_bytes()) if done.exists() else None}
        )
    return nights


@app.command()
def verify(json: Json = False) -> None:
    """Re-hash the whole archive, record by record; a damaged segment is named."""
    from nightly.segments import read_archive

    settings = start()
    archive = read_archive(settings.hmem_night_dir / "archive")
    known: dict[str, str] = {}
    for night in _nights(settings):  # what each night saw there: a whole segment may be gone without a trace
        known |= night["steps"].get("archive", {}).get("segments", {})
    for name, sha256 in known.items():
        if archive.segments.get(name) != sha256:
            raise ArchiveDamaged(f"Archive segment {name} is missing or another than it was. Restore it from a copy.")
    counts = {
        "segments": len(archive.segments),
        "records": len(archive.hashes),
        "turns": len(archive.versions),
        "quarantined": len(archive.quarantined),
        "tombstones": len(archive.tombstones),
        "texts": len(archive.texts),
    }
    if json:
        print_json(counts)
    else:
        typer.echo("The archive is sound: " + ", ".join(f"{count} {name}" for name, count in counts.items()) + ".")
