"""`hmem-night backfill`: old history into memory, or all of it once more."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from shared.command import print_json, start
from shared.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Old history into memory, or all of it made once more.")

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


@app.callback()
def backfill() -> None:
    """A group of commands, also as long as it holds one."""


@app.command()
def archive(
    reembed: Annotated[
        bool, typer.Option("--reembed", help="Only if the release in use has vectors of another model.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", help="With --reembed: this Ollama model instead of the settings' embedder.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Publish also what finds far less than the current release.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be embedded, and about how long; write nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a new release of the whole archive, by the present program and settings; the one in use stays until then."""
    from nightly import backfill, pipeline
    from nightly.progress import Reporter
    from nightly.report import sentence

    settings = start()
    if model is not None:
        if not reembed:
            raise InvalidInput("--model says what to embed with. Give --reembed too.")
        if (settings.embedder, settings.embed_model) != ("ollama", model):
            typer.echo(backfill.model_warning(model), err=True)
            backfill.start_again_with(model, sys.argv[1:])
    report = Reporter(quiet=json or settings.log_json)
    if dry_run:
        plan = backfill.plan(settings, report)
        print_json(plan) if json else typer.echo(backfill.plan_sentence(plan, settings.step_timeout))
        return
    summaries = backfill.rebuild_archive(settings, report, reembed=reembed, accept=accept)
    if json:
        print_json(summaries)
    else:
        typer.echo("\n".join(sentence(summary) for summary in summaries))
    if alarm := pipeline.alarm_of(summaries[-1]):
        raise alarm
