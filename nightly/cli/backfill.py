"""`hmem-night backfill`: bring old history into memory, or rebuild the release from the archive."""

from __future__ import annotations

import os
from collections.abc import Mapping
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any

import typer

from shared.errors import InvalidInput
from shared.system.command import answer, start_night

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


#: Not a format of files: the archive of this host.
ARCHIVE, OF_ARCHIVE = "archive", ("reembed", "model", "accept")
#: What every format of files takes.
OF_FILES = ("since", "until", "chat", "hand-over")


Form = Annotated[
    str | None,
    typer.Argument(
        metavar="FORMAT",
        help="Which program made the files; a file in its place is recognised; without either, all are listed.",
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Argument(help="Files, directories or ZIP archives; - is standard input, for jsonl. For archive: a copy."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; write nothing.")]
Since = Annotated[
    str | None, typer.Option(help="Only turns from this time on: ISO 8601 (in CHAT_TIMEZONE) or POSIX seconds.")
]
Until = Annotated[str | None, typer.Option(help="Only turns before this time.")]
Chat = Annotated[
    str | None,
    typer.Option(
        help="Only this chat; if the files name no chat, the chat that they belong to. --chat=-100 for a negative one."
    ),
]
# Options of formats, which say which of them they take.
Bot = Annotated[
    str | None, typer.Option(help="The sender who is the assistant: its name as the file shows it, or its id.")
]
As = Annotated[str | None, typer.Option("--as", help="Who in the files is the person of the chat, by name.")]
Only = Annotated[
    str | None, typer.Option(help="Only this conversation, by its title, name or number; of mem0, this user_id.")
]
Dates = Annotated[
    str | None, typer.Option(help="The order of day, month and year, if the file does not show it: dmy, mdy or ymd.")
]
HandOver = Annotated[
    bool,
    typer.Option(
        "--hand-over", help="Leave it to the next night of the host that has the archive, as hmem import does there."
    ),
]
# Options of archive.
Reembed = Annotated[
    bool, typer.Option("--reembed", help="Of archive: only if the current release has vectors of another model.")
]
Model = Annotated[
    str | None, typer.Option(help="With --reembed: this Ollama model instead of the configured embedder.")
]
Accept = Annotated[bool, typer.Option("--accept", help="Of archive: publish the release even if it finds far less.")]


def backfill(
    form: Form = None,
    files: Files = None,
    dry_run: DryRun = False,
    since: Since = None,
    until: Until = None,
    chat: Chat = None,
    bot: Bot = None,
    as_: As = None,
    only: Only = None,
    dates: Dates = None,
    reembed: Reembed = False,
    model: Model = None,
    accept: Accept = False,
    hand_over: HandOver = False,
    json: Json = False,
) -> None:
    """Import the history of another program, or rebuild the release from the archive (FORMAT archive); the current one serves until then."""
    from nightly.imports.formats import format_named, format_of, formats, other_format

    if form is None:
        _list_formats(json=json)
        return
    recognised = False
    if form not in (ARCHIVE, *formats()) and os.path.exists(form):  # noqa: PTH110 - for a Path it raises if the name is too long
        files = [Path(form), *(files or [])]
        form, why = format_of(files)
        recognised = True
        typer.echo(why, err=json)
    if "/" in form:
        raise InvalidInput(
            f"There is no {form}, or the user {getuser()}, as whom nights run, may not read it. Check the name, and its rights."
        )
    every = {
        "since": since, "until": until, "chat": chat,
        "bot": bot, "as": as_, "only": only, "dates": dates,
        "reembed": reembed, "model": model, "accept": accept, "hand-over": hand_over,
    }  # fmt: skip
    given = {name: value for name, value in every.items() if value not in (None, False)}
    takes = {ARCHIVE: OF_ARCHIVE} | {name: (*OF_FILES, *one.options) for name, one in formats().items()}
    for name in given:
        if name not in takes.get(form, every):
            others = ", ".join(one for one, options in takes.items() if name in options)
            raise InvalidInput(f"--{name} means nothing for {form}, only for {others}. Leave it out.")
    if form == ARCHIVE:
        _rebuild(files or [], model, reembed=reembed, accept=accept, dry_run=dry_run, json=json)
        return
    format_named(form)
    if not files:
        raise InvalidInput(f"No file was named: hmem-night backfill {form} FILE.")
    if form != "jsonl" and Path("-") in files:
        raise InvalidInput(f"Only backfill jsonl reads standard input. Name a file for backfill {form}.")
    other = "" if recognised else other_format(form, files)
    _import(form, files, given, other, dry_run=dry_run, json=json)


def _list_formats(*, json: bool) -> None:
    from nightly.imports.formats import formats

    found = [{"name": one.name, "what": one.what, "options": one.options} for one in formats().values()]
    lines = []
    for one in formats().values():
        options = "".join(f" --{name}" for name in one.options)
        lines.append(f"{one.name:13} {one.what}{options and ';' + options}")
    whole = f"{ARCHIVE:13} no files: build a new release from the whole archive with the present program and settings"
    answer(found, "\n".join([*lines, whole]), json=json)


def _rebuild(files: list[Path], model: str | None, *, reembed: bool, accept: bool, dry_run: bool, json: bool) -> None:
    from nightly.backfill import copied_archive, rebuild
    from nightly.cli.status import tell_nights
    from nightly.night.progress import Reporter

    settings = start_night()
    if len(files) > 1:
        raise InvalidInput("backfill archive takes one copy of an archive at most. Name one.")
    if model is not None:
        if not reembed:
            raise InvalidInput("--model names the model to embed with, so it needs --reembed. Add --reembed.")
        if (settings.embedder, settings.model_name) != ("ollama", model):
            typer.echo(
                f"Set EMBEDDER=ollama and EMBED_MODEL={model} in the settings of both the night host and the day host, and restart the "
                "dispatcher. Until then it searches by keyword only, and the next night returns to the configured model.",
                err=True,
            )
            settings = rebuild.with_model(settings, model)
    report = Reporter(quiet=json or settings.log_json)
    for copy in files:  # bring it to this host, which has none
        report.say(copied_archive.bring(settings, copy, report))
    if dry_run:
        plan = rebuild.plan(settings, report)
        answer(plan, rebuild.plan_sentence(plan), json=json)
        return
    tell_nights(rebuild.rebuild_archive(settings, report, reembed=reembed, accept=accept), json=json)


def _import(form: str, files: list[Path], given: Mapping[str, Any], other: str, *, dry_run: bool, json: bool) -> None:
    """`given`: options by name; `other`: which other format a file has, if any."""
    from nightly.backfill import import_files
    from nightly.cli.status import brief_sentence
    from nightly.night.failure import raise_alarm
    from nightly.night.progress import Reporter

    settings = start_night()
    chat_id = given_chat(given["chat"]) if "chat" in given else None
    limits = import_files.wanted_of(given.get("since"), given.get("until"), chat_id, settings.timezone)
    options = {name: value for name, value in given.items() if name not in OF_FILES}
    request, elsewhere = import_files.Request(form, files, limits, options), "hand-over" in given
    quiet = settings.log_json or (json and not dry_run)  # hmem import shows that of a plan
    progress = Reporter(quiet=quiet, counts=False)

    if other:
        typer.echo(f"Warning: read as {form}, but {other}", err=True)
    try:
        if dry_run:
            report = import_files.plan(settings, request, progress, elsewhere=elsewhere)
        else:
            bring = import_files.hand_over if elsewhere else import_files.bring_in
            report = bring(settings, request, progress)
    except InvalidInput as error:
        if not other:
            raise
        raise InvalidInput(f"{error} {other}") from error
    nights = report.get("nights", [])
    text = report.get("text") or import_files.lines(report, settings.timezone)
    end = ["Nothing was written."] if dry_run else map(brief_sentence, nights)
    answer(report, "\n".join([*text, *end]), json=json)
    if nothing := import_files.nothing_read(report, other):
        raise nothing
    raise_alarm(nights)


def given_chat(value: str) -> str:
    """What --chat names, or InvalidInput."""
    from shared.turns.records import RecordRefused, chat_id_of

    try:
        return chat_id_of(value)
    except RecordRefused as error:
        raise InvalidInput(f"--chat {value!r} cannot be used: {error}. Give the chat id that the bot sees.") from error
