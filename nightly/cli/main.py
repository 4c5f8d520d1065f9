"""`hmem-night`: the batch that turns the day's turns into tomorrow's memory."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nightly.cli.backfill import Json, backfill, given_chat
from shared.errors import EmbeddingError, InvalidInput
from shared.system.command import answer, application, end_with, print_json, run_command, start_night

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from nightly.night.progress import Reporter
    from shared.config.settings import Settings


#: Commands that the schedule runs → what people call one.
WORDS = {"run": "night", "capture": "capture"}
When = Annotated[str | None, typer.Option(help="ISO 8601 (in CHAT_TIMEZONE if it names no zone) or POSIX seconds.")]
app = application(__doc__)
app.command("backfill")(backfill)


def main() -> None:
    run_command(app)


@app.command()
def run(
    json: Json = False,
    from_step: Annotated[
        str | None, typer.Option("--from", help="Run the unfinished night again from this step.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; write nothing.")] = False,
    pull: Annotated[
        bool, typer.Option("--pull", help="First pull the models that the Ollama server does not have.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Publish the release even if it finds far less than the current one.")
    ] = False,
) -> None:
    """Run one night; an unfinished night is finished first."""
    from nightly import pipeline
    from nightly.cli.status import tell_nights
    from nightly.night.progress import Reporter

    settings = start_night()
    if from_step is not None and from_step not in pipeline.step_names():
        raise InvalidInput(f"--from {from_step}: no such step. Steps are {', '.join(pipeline.step_names())}.")
    if dry_run:
        plan = pipeline.dry_run(settings)
        found = f"{plan['keys']} keys in Redis, {plan['not_archived']} of them not archived"
        unfinished = f"unfinished night: {plan['unfinished_night'] or 'none'}"
        answer(plan, f"{found}; {unfinished}. Nothing was written.", json=json)
        return
    report = Reporter(quiet=json or settings.log_json)
    if pull:
        pipeline.refuse_without_packages(settings)  # before gigabytes are downloaded
        pull_missing(settings, report)
    tell_nights(pipeline.run_nights(settings, report, from_step, accept=accept), json=json)


@app.command()
def capture(json: Json = False) -> None:
    """Copy what today has into the archive and its mirror, without building memory or deleting anything: seconds, as often as a timer likes."""
    from nightly.archive.capture import capture as write_capture
    from nightly.night.progress import Reporter
    from shared.text.format import counted

    settings = start_night()
    counts = write_capture(settings, Reporter(quiet=json or settings.log_json))
    found = f"{counted(counts['records'], 'new record')} and {counted(counts['tombstones'], 'tombstone')}"
    place = " Its mirror has it, too." if counts["mirrored"] else ""
    answer(counts, f"Captured: {found} since the last night.{place}", json=json)


@app.command(hidden=True)
def forget(
    look: Annotated[
        bool, typer.Option("--look", help="Change nothing; only say what is left of earlier ones.")
    ] = False,
) -> None:
    """Erase what requests to forget name: a night, after any that is running. `hmem forget` calls this; it prints what came of it as JSON."""
    from nightly.forgetting import erase, what_is_left
    from nightly.night.progress import Reporter

    settings = start_night()
    print_json(what_is_left(settings) if look else erase(settings, Reporter(quiet=settings.log_json, counts=False)))


@app.command()
def join(
    day: Annotated[
        str, typer.Argument(metavar="HOST[:PORT]", help="Where this host reaches the sshd of the day host.")
    ],
    line: Annotated[
        str, typer.Argument(help="What hmem admit has printed there; without it, it is read from the terminal.")
    ] = "",
) -> None:
    """Make this host the night's host of a day host: a key, one line to run there, one line back, a trial of everything, the schedule."""
    from nightly.cli.join import join_day

    join_day(day, line)


@app.command()
def schedule() -> None:
    """Run the night on NIGHT_CRON and a capture each hour, for hosts without cron or systemd. Each is a process of its own."""
    from apscheduler.schedulers.blocking import BlockingScheduler
    from apscheduler.triggers.cron import CronTrigger

    from shared.config.values import named_weekdays

    settings = start_night()
    trigger = CronTrigger.from_crontab(named_weekdays(settings.night_cron), timezone=settings.timezone)
    scheduler = BlockingScheduler(timezone=settings.timezone)
    once = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
    scheduler.add_job(_run_apart, trigger, args=["run", settings.timezone], **once)
    scheduler.add_job(_run_apart, CronTrigger(minute=17), args=["capture", settings.timezone], **once)
    typer.echo(
        f"Nights run at {settings.night_cron} ({settings.chat_timezone}), captures each hour. Stop with Ctrl-C.",
        err=True,
    )
    try:
        scheduler.start()
    except (KeyboardInterrupt, SystemExit):
        typer.echo("Stopped.", err=True)


def _run_apart(command: str, zone: ZoneInfo) -> None:
    """A night that fails (or crashes) reports it and leaves the schedule running; the next night finishes it first."""
    import subprocess

    from shared.config.credentials import for_child
    from shared.system.processes import module_command
    from shared.text.format import zoned_text

    with for_child() as (environment, descriptors):
        night = module_command("nightly", command)
        code = subprocess.run(night, env=environment, pass_fds=descriptors, check=False).returncode
    typer.echo(f"{zoned_text(time.time(), zone)} {WORDS[command]} ended with exit code {code}", err=True)


@app.command()
def status(
    json: Json = False,
    chats: Annotated[
        bool,
        typer.Option(
            "--chats", help="Also the ledger of each chat, in the last night or --run's; with --json in each."
        ),
    ] = False,
    nights: Annotated[
        int | None, typer.Option(min=1, help="Only so many of the newest nights; default: 10, with --json all.")
    ] = None,
    run: Annotated[int | None, typer.Option(min=0, help="Only this night.")] = None,
) -> None:
    """Show nights, their steps and ledgers, and where one stopped. Exit code 14 or 15 if archive or night directory is unusable."""
    from nightly.cli.status import SHOWN_NIGHTS, night_text, print_chats, read_nights
    from nightly.night.folder import night_runs
    from shared.system.archive_folder import condition

    settings = start_night()
    if run is not None and run not in night_runs(settings):
        raise InvalidInput(f"--run {run}: this host has no such night. hmem-night status shows which there are.")
    runs = night_runs(settings) if run is None else [run]
    shown = read_nights(settings, runs[-(nights or (0 if json else SHOWN_NIGHTS)) :], chats=json and chats)
    if json:
        print_json(shown)
    elif not shown:
        typer.echo("No night has run on this host yet. Run hmem-night run.")
    else:
        for night in shown:
            typer.echo(night_text(night, settings.timezone))
        if chats:
            print_chats(settings, runs)
    end_with(condition(settings.hmem_night_dir))


@app.command(hidden=True)
def turns(
    chat: str | None = None,
    only_in: str | None = None,
    undone: list[str] | None = None,
    imports: bool = False,
    events_of: Path | None = None,
) -> None:
    """How `hmem` reads the archive: JSON lines with every turn in every version, hidden ones included, and the words of every event.

    `--chat`: only of this one. `--only-in IMPORT`: only what this import has brought and no other, where the events `--undone` (as `--imports`
    names them) are on their way out. Instead of turns, `--imports`: what each import has brought into each chat; `--events-of COPY`: the last
    event of each memory, schedule and chat in this copy of an archive.
    """
    from nightly.archive.catalog import archived_turns
    from nightly.imports.batches import archived_batches
    from shared.release.imports import last_of
    from shared.release.imports import only_in as ids_only_in
    from shared.turns.records import dumps

    directory = start_night().hmem_night_dir
    if events_of is not None:
        from nightly.archive.incoming import last_events
        from nightly.backfill.copied_archive import archive_of

        found = (event.to_json() for event in last_events(archive_of(events_of)))
    elif imports:
        found = (dumps(one) for one in last_of(archived_batches(directory / "archive")))
    else:
        read_batches = partial(archived_batches, directory / "archive", undone or ())
        ids = set().union(*ids_only_in(only_in, read_batches).values()) if only_in else None
        found = (dumps(turn) for turn in archived_turns(directory, chat, ids))
    sys.stdout.buffer.writelines(line + b"\n" for line in found)


@app.command("export-archive")
def export_archive(
    out: Annotated[
        Path | None, typer.Option(help="The folder to create; default: hmem-export-<date> in the current directory.")
    ] = None,
    chat: Annotated[
        list[str] | None, typer.Option(help="Only this chat; may be repeated. --chat=-100 for a negative one.")
    ] = None,
    since: When = None,
    until: When = None,
    json: Json = False,
) -> None:
    """Write the archive to files: per chat, JSONL that can be imported again and Markdown to read. Changes nothing in the archive."""
    from nightly.archive import export
    from nightly.night.progress import Reporter
    from shared.system.export_folder import default_folder
    from shared.text.format import counted
    from shared.text.times import given_moment

    settings = start_night()
    wanted = export.ExportScope(
        frozenset(map(given_chat, chat or ())),
        given_moment("--since", since, settings.timezone),
        given_moment("--until", until, settings.timezone),
    )
    folder, report = out or default_folder(settings.timezone), Reporter(quiet=json or settings.log_json)
    index = export.export_archive(settings, folder, wanted, report)
    counts = index["counts"]
    left = f"; {counted(counts['forgotten'], 'forgotten turn')} left out" if counts["forgotten"] else ""
    written = f"{folder} has {counted(counts['turns'], 'turn')} of {counted(counts['chats'], 'chat')}{left}."
    answer({"out": str(folder.resolve()), **index}, written, json=json)


@app.command()
def verify(
    json: Json = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair archive and ARCHIVE_MIRROR from each other's intact copies.")
    ] = False,
) -> None:
    """Hash the whole archive again, record by record, compare it with ARCHIVE_MIRROR, and list what is damaged."""
    from nightly.archive import verification
    from nightly.night.progress import Reporter

    settings, report = start_night(), Reporter(quiet=json)
    counts = verification.repair(settings, report) if repair else verification.verify(settings, report)
    amounts = ", ".join(f"{name} {count}" for name, count in counts.items() if name != "repaired")
    mended = f"Repaired files: {len(counts['repaired'])}." if counts.get("repaired") else "There was nothing to repair."
    answer(counts, f"The archive is intact: {amounts}." + (f"\n{mended}" if repair else ""), json=json)


def pull_missing(settings: Settings, report: Reporter) -> None:
    """Pull the Ollama models that the settings name and the server does not have.

    Never raises if the server fails: the night exports and archives without it, and its steps report what is missing.
    """
    from contextlib import closing

    from shared.config.night_settings import WORKS
    from shared.embedding.known_models import known_model
    from shared.embedding.open import open_ollama

    names = []
    if settings.embedder == "ollama" and settings.indexes:
        known_model(settings.model_name, "ollama")  # a typo is reported before gigabytes are downloaded
        names.append(settings.model_name)
    names += [one.model for one in map(settings.writer_of, WORKS) if one and one.kind == "ollama"]
    if not names:
        return
    try:
        with closing(open_ollama(settings)) as server:
            for name in dict.fromkeys(names):
                if server.find(name) is None:
                    report.amounts(server.pull(name), f"pull {name}")
                    server.digest(name)  # raises if the model is still missing
    except EmbeddingError as error:
        report.say(f"Nothing was pulled: {error}")
