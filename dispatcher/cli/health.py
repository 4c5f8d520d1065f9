"""`hmem status` and `hmem doctor`: the state of this installation, and what is wrong with it."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from dispatcher.cli.arguments import Json, connect
from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.system.command import application, print_bytes, print_json, start
from shared.text.format import counted, size_text, zoned_text

app = application()


@app.command()
def status(json: Json = False) -> None:
    """Queue, dispatchers, release, pin, last night and last failure. Exit code 42 or 43 when no dispatcher answers, 21 when memory is stale."""
    settings = start(logs=False)
    client = connect(settings)
    from dispatcher.health.doctor import status_problems
    from dispatcher.health.status import read_status

    found = read_status(settings, client)
    errors = [(one.code, f"{one.sentence} {one.fix}") for one in status_problems(settings)]
    if why := found["index_error"]:
        errors.append((SettingsError.exit_code, f"Memory is searched by words only: {why}."))
    if json:
        print_json(found | {"errors": [{"exit_code": code, "error": text} for code, text in errors]})
    else:
        typer.echo(_status_text(found, settings), nl=False)
    for _, text in errors:
        typer.echo(text, err=True)
    raise typer.Exit(errors[0][0] if errors else 0)


def _status_text(found: dict[str, Any], settings: Settings) -> str:
    """For people."""
    from dispatcher.health.status import SAMPLED_TURNS
    from shared.text.templates import templates
    from shared.wire.media import MOST_BYTES

    template = templates("dispatcher.cli", trim_blocks=True, lstrip_blocks=True).get_template("status.txt.j2")
    limits = {"sampled": SAMPLED_TURNS, "most_bytes": MOST_BYTES, "without_vectors": settings.without_vectors}
    words = {
        "counted": counted,
        "size": size_text,
        "zoned": partial(zoned_text, zone=settings.timezone),
        "now": time.time(),
    }
    return template.render(found | limits | words)


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
