"""`hmem-night backfill`: bring old history into memory, or rebuild the release from the archive."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from nightly.cli.arguments import Json
from shared.errors import InvalidInput
from shared.system.command import application, print_json, start_night

app = application("Bring old history into memory, or rebuild the release from the archive.")

Files = Annotated[list[Path], typer.Argument(help="Files, or directories that contain them.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be imported and what would not; write nothing.")
]
Since = Annotated[
    str | None,
    typer.Option("--since", help="Only turns from this time on: ISO 8601 (in CHAT_TIMEZONE) or POSIX seconds."),
]
Until = Annotated[str | None, typer.Option("--until", help="Only turns before this time.")]
Chat = Annotated[
    str | None, typer.Option("--chat", help="Only this chat; if the files name no chat, the chat that they belong to.")
]


@app.callback()
def backfill() -> None:
    """A group of commands, even while it has only one."""


@app.command()
def archive(
    copy: Annotated[
        Path | None, typer.Argument(help="First bring this copy of an archive to this host, which has none.")
    ] = None,
    reembed: Annotated[
        bool, typer.Option("--reembed", help="Only if the current release has vectors of another model.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="With --reembed: embed with this Ollama model instead of the configured embedder."
        ),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Publish the release even if it finds far less than the current one.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be embedded and about how long it takes; write nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Build a new release from the whole archive with the present program and settings; the current one serves until then."""
    from nightly.backfill import copied_archive, rebuild
    from nightly.night.progress import Reporter

    settings = start_night()
    if model is not None:
        if not reembed:
            raise InvalidInput("--model names the model to embed with, so it needs --reembed. Add --reembed.")
        if (settings.embedder, settings.model_name) != ("ollama", model):
            typer.echo(rebuild.model_warning(model), err=True)
            rebuild.start_again_with(model, sys.argv[1:])
    report = Reporter(quiet=json or settings.log_json)
    if copy is not None:
        report.say(copied_archive.sentence(copied_archive.bring(settings, copy, report)))
    if dry_run:
        plan = rebuild.plan(settings, report)
        print_json(plan) if json else typer.echo(rebuild.plan_sentence(plan, settings.step_timeout))
        return
    summaries = rebuild.rebuild_archive(settings, report, reembed=reembed, accept=accept)
    if json:
        print_json(summaries)
    _print_nights(summaries, quiet=json)


@app.command(
    help="Turns as JSON lines, byte for byte: as hmem-night export-archive writes them, or as Redis stores them. - is standard input."
)
def jsonl(
    files: Files,
    dry_run: DryRun = False,
    since: Since = None,
    until: Until = None,
    chat: Chat = None,
    with_tombstones: Annotated[
        bool,
        typer.Option("--with-tombstones", help="Import tombstones too: they remove turns. Shows which ones, and asks."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --with-tombstones: import them without asking.")] = False,
    json: Json = False,
) -> None:
    if yes and not with_tombstones:
        raise InvalidInput("--yes confirms tombstones, so it needs --with-tombstones. Add that, or leave --yes out.")
    _from_files(
        "jsonl", files, since, until, chat, dry_run=dry_run, json=json, with_tombstones=with_tombstones, yes=yes
    )


def _file_command(source: str, what: str) -> None:
    """A command for a format that is read from files and has no options of its own."""

    def command(
        files: Files,
        dry_run: DryRun = False,
        since: Since = None,
        until: Until = None,
        chat: Chat = None,
        json: Json = False,
    ) -> None:
        _from_files(source, files, since, until, chat, dry_run=dry_run, json=json)

    app.command(source, help=what)(command)


_file_command("chunks", "h-cli's session files, chunk_<UTC>.txt.")
_file_command(
    "audit",
    "h-cli's audit log. It names no chat: give --chat; for a private chat, only tasks of that user are imported.",
)


@app.command()
def telegram(
    file: Annotated[Path, typer.Argument(help="result.json, or the directory that contains it.")],
    bot: Annotated[
        str | None, typer.Option("--bot", help="The bot: its name as Telegram shows it, or its user id.")
    ] = None,
    dry_run: DryRun = False,
    since: Since = None,
    until: Until = None,
    chat: Chat = None,
    json: Json = False,
) -> None:
    """A JSON export of Telegram Desktop: one chat, or a whole account, of which the chats with the bot are imported."""
    _from_files("telegram", [file], since, until, chat, bot=bot, dry_run=dry_run, json=json)


class SourceProgram(StrEnum):
    """Whose export it is."""

    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    WHATSAPP = "whatsapp"
    SIGNAL = "signal"
    OPENCLAW = "openclaw"
    BASIC_MEMORY = "basic-memory"
    MEM0 = "mem0"


#: Options of some programs alone.
_OPTIONS = {
    "--bot": (SourceProgram.WHATSAPP, SourceProgram.SIGNAL),
    "--only": (SourceProgram.CHATGPT, SourceProgram.CLAUDE, SourceProgram.SIGNAL, SourceProgram.MEM0),
    "--dates": (SourceProgram.WHATSAPP,),
}


@app.command("from")
def from_program(
    program: Annotated[SourceProgram, typer.Argument(help="The program that made the files.")],
    files: Annotated[list[Path], typer.Argument(help="ZIP archives, directories, or files.")],
    chat: Annotated[
        str | None, typer.Option(help="The chat that it belongs to; required. --chat=-100 for a negative one.")
    ] = None,
    bot: Annotated[
        str | None,
        typer.Option(
            help="Of WhatsApp and Signal the sender who is the assistant, as the file names them; default: nobody."
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Only this conversation, by its title or the name of the contact or group, or the number that is listed; of mem0, this user_id."
        ),
    ] = None,
    dates: Annotated[
        str | None,
        typer.Option(
            help="Of WhatsApp the order of day, month and year, if the file does not show it: dmy, mdy or ymd."
        ),
    ] = None,
    dry_run: DryRun = False,
    since: Since = None,
    until: Until = None,
    json: Json = False,
) -> None:
    """What another assistant, messenger or memory exports: its ZIP, directory or file (docs/import-export.md)."""
    from nightly.imports.readers.whatsapp import ORDERS

    for name, value in (("--bot", bot), ("--only", only), ("--dates", dates)):
        if value is not None and program not in _OPTIONS[name]:
            raise InvalidInput(
                f"{name} means nothing for {program.value}, only for {', '.join(_OPTIONS[name])}. Leave it out."
            )
    if dates is not None and dates not in ORDERS:
        raise InvalidInput(f"--dates {dates} is no order. Write dmy, mdy or ymd.")
    _from_files(program.value, files, since, until, chat, bot=bot, only=only, dates=dates, dry_run=dry_run, json=json)


def _from_files(
    source: str,
    files: list[Path],
    since: str | None,
    until: str | None,
    chat: str | None,
    *,
    dry_run: bool,
    json: bool,
    bot: str | None = None,
    only: str | None = None,
    dates: str | None = None,
    with_tombstones: bool = False,
    yes: bool = False,
) -> None:
    from nightly.backfill import import_files
    from nightly.night.progress import Reporter

    settings = start_night()
    if source != "jsonl" and Path("-") in files:
        raise InvalidInput(f"Only backfill jsonl reads standard input. Name a file for backfill {source}.")
    wanted = import_files.wanted_of(since, until, chat, settings.timezone)
    request = import_files.Request(source, files, wanted, bot, with_tombstones, only, dates)
    progress = Reporter(quiet=json or settings.log_json)

    def agreed(covered: list[dict[str, Any]]) -> bool:
        if yes:
            return True
        typer.echo("\n".join(import_files.covered_lines(covered)), err=True)
        return sys.stdin.isatty() and typer.confirm("Import these tombstones?", err=True)

    report = (
        import_files.plan(settings, request, progress)
        if dry_run
        else import_files.bring_in(settings, request, progress, agreed)
    )
    if json:
        print_json(report)
    else:
        typer.echo("\n".join(import_files.lines(report, settings.timezone, dry=dry_run)))
    if error := import_files.nothing_read(report):
        raise error
    _print_nights(report.get("nights", []), quiet=json)


def _print_nights(summaries: list[dict[str, Any]], *, quiet: bool) -> None:
    from nightly import pipeline
    from nightly.cli.status import sentence

    if not quiet:
        for summary in summaries:
            typer.echo(sentence(summary))
    if summaries and (alarm := pipeline.alarm_of(summaries[-1])):
        raise alarm
