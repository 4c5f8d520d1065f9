"""`hmem status` and `hmem doctor`: the state of this installation, and what is wrong with it."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.arguments import Json, connect
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.system.command import application, print_bytes, print_json, start
from shared.text.format import counted, size_text, zoned_text

if TYPE_CHECKING:
    from dispatcher.health.status import Status

app = application()


@app.command()
def status(json: Json = False) -> None:
    """Queue, dispatchers, release, pin, last night and last failure. Exit code 42 or 43 when no dispatcher answers, 21 when memory is stale."""
    settings = start(logs=False)
    client = connect(settings)
    from dispatcher.health.doctor import examine
    from dispatcher.health.status import read_status

    found = read_status(settings, client)
    faults = [one for one in examine(settings, lambda check: check.status) if one.state == "problem"]
    errors = [(one.code, f"{one.sentence} {one.fix}") for one in faults]
    if found.index_error:
        errors.append((SettingsError.exit_code, f"Memory is searched by words only: {found.index_error}."))
    if json:
        print_json(asdict(found) | {"errors": [{"exit_code": code, "error": text} for code, text in errors]})
    else:
        for name, value in _status_rows(found, settings).items():
            typer.echo(f"{name:16} {value}")
    for _, text in errors:
        typer.echo(text, err=True)
    raise typer.Exit(errors[0][0] if errors else 0)


def _status_rows(found: Status, settings: Settings) -> dict[str, str]:
    from dispatcher.health.status import SAMPLED_TURNS

    night = (
        "never"
        if found.last_night_hours is None
        else f"run {found.last_night_run}, {found.last_night_hours:.1f} hours ago"
    )
    release = f"{found.release}: {found.turns_archived} turns of {found.chats} chats" if found.release else "none yet"
    workers = ", ".join(
        f"{name} (release {run or ('none' if run == 0 else 'unreadable')})" for name, run in found.workers.items()
    )
    more = "+" if found.turns_waiting == SAMPLED_TURNS else ""
    rows = {
        "queue": f"{found.queued} waiting, {found.in_flight} in flight, {found.dead_letters} dead letters"
        + (" (hmem dead)" if found.dead_letters else ""),
        "dispatchers": workers or "none running",
        "telegram bot": found.bot or "none running (other bots are not visible here)",
        **({"guests": f"{found.guests} (beside ALLOWED_CHATS)"} if found.guests else {}),
        "turns in Redis": f"{found.turns_waiting}{more} waiting for the night",
        "release": release,
    }
    if found.files_waiting:
        from shared.wire.media import MOST_BYTES

        size, most = size_text(found.file_bytes_waiting), size_text(MOST_BYTES)
        rows["kept files"] = f"{found.files_waiting} waiting for the night, {size} of {most}"
    if settings.without_vectors:
        what = "the summary only, no search" if settings.memory_backend == "summary" else "words only"
        rows["recall by"] = f"{what} ({settings.without_vectors})"
    if found.pin:
        since = zoned_text(found.pin.since, settings.timezone)
        note = "" if found.pin.run == found.release else " (not current: hmem release rollback was interrupted)"
        rows["pin"] = f"pinned at {found.pin.run} since {since}{note}; hmem release rollback --unpin"
    rows["last good night"] = night
    if found.forgetting:
        rows["forgetting"] = f"{len(found.forgetting)} unfinished ({', '.join(found.forgetting)}); hmem forget --resume"
    if found.last_failure:
        rows["last failure"] = found.last_failure.sentence(time.time())
    return rows


@app.command()
def doctor(
    json: Json = False,
    try_claude: Annotated[
        bool, typer.Option("--try-claude", help="Instead: ask the installed Claude CLI, and say what it cannot do.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", "-v", help="Show the checks that are fine, too.")] = False,
) -> None:
    """What is wrong on this host, why, and what to do. Exits with the code of the first problem; it changes nothing."""
    from dispatcher.health import doctor as checks

    settings = start(formats=False)
    findings, found = checks.examine(settings), []
    if try_claude:
        from dispatcher.health.try_claude import try_claude as trial

        findings, every = trial(settings), True
    for finding in findings:
        found.append(finding)
        if not json and (every or not (finding.state == "ok" or finding.sentence.startswith(checks.WAITS))):
            print_bytes(checks.lines(finding).encode())
    if json:
        print_json({"exit_code": checks.exit_code(found), "findings": list(map(asdict, found))})
    elif not every:
        fine = counted(sum(one.state == "ok" for one in found), "check is", "checks are")
        if waiting := sum(one.sentence.startswith(checks.WAITS) for one in found):
            said = counted(waiting, "check could", "checks could")
            typer.echo(f"{checks.MARKS['skipped']} {said} not run because of the problems above (--all shows them)")
        typer.echo(f"{checks.MARKS['ok']} {fine} fine (--all shows them)")
    raise typer.Exit(checks.exit_code(found))
