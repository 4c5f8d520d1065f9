"""`hmem import`: bring a past from elsewhere into memory, see what was brought, and take it back.

The files are read by the night's command; this one asks, shows and hands over. Where the archive is on another host, or belongs to another user, that
command leaves the import to the next night there (shared/wire/handed_over.py).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from dispatcher.cli.arguments import Json, Yes, connect, given_chat
from shared.errors import InvalidInput
from shared.system.command import application, go_on_without_reader, print_json, start
from shared.text.format import counted, one_line, shorten, zoned_text
from shared.wire import keys
from shared.wire.handed_over import ImportHandOver

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from dispatcher.memory.store.memories import Memory
    from shared.config.settings import Settings

app = application()

#: Facts of a preview that are compared with what is known, and characters that are quoted.
COMPARED, QUOTED = 200, 80
#: An option whose value an error asks for.
_ASKED_FOR = re.compile(r"(?:[Nn]ame|[Gg]ive) [^.;]*--(chat|bot|as|only|dates)\b")


@app.command("import")
def import_(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files, directories or ZIP archives of one other program.")
    ] = None,
    chat: Annotated[
        str | None, typer.Option(help="The chat that gets it, if the files name none; --chat=-100 for a negative one.")
    ] = None,
    bot: Annotated[str | None, typer.Option(help="Who in the files is the assistant: the name, or its id.")] = None,
    as_: Annotated[
        str | None, typer.Option("--as", help="Who in the files is the person of the chat, by name.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Only this conversation, by its title, name or number.")] = None,
    dates: Annotated[
        str | None, typer.Option(help="The order of day, month and year, if the file does not show it: dmy, mdy, ymd.")
    ] = None,
    undo: Annotated[
        str | None, typer.Option(metavar="IMPORT", help="Take back what only this import has brought.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the imports.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would come in, and end.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Bring conversations from another program into memory: recognises the files, shows what would come in, asks, imports. --undo takes it back."""
    if sum((bool(files), undo is not None, list_)) != 1:
        raise InvalidInput("Name the files to import, or give --list or --undo IMPORT alone.")
    settings = start(children=("night",))
    if list_:
        _list(settings, json=json)
    elif undo is not None:
        _undo(settings, undo, yes=yes, json=json)
    else:
        given = {
            "chat": chat and given_chat(settings, chat, new=True),
            "bot": bot,
            "as": as_,
            "only": only,
            "dates": dates,
        }
        options = [f"--{name}={value}" for name, value in given.items() if value]
        paths = [str(path.absolute()) for path in files or []]
        _bring_in(settings, [*paths, *options], dry_run=dry_run, yes=yes, json=json)


def handing_over(settings: Settings) -> list[str]:
    """The option of the night's command where no night can run, as a list. Where there is a release and no archive, or a count of nights and none was
    ever begun here, another host makes them."""
    from dispatcher.releases.night_command import archive_is_here, night_is_here, night_was_here
    from shared.release.manifest import current_release

    with closing(connect(settings)) as client:  # `hmem-night join` begins to count before the first night
        nights = current_release(settings.hmem_memory_dir) is not None or (
            client.exists(keys.NIGHT_RUN) and not night_was_here(settings)
        )
    here = night_is_here(settings) and (archive_is_here(settings) or not nights)
    return [] if here else ["--hand-over"]


def _bring_in(settings: Settings, arguments: list[str], *, dry_run: bool, yes: bool, json: bool) -> None:
    from dispatcher.releases.night_command import NightCommandFailed, run_night

    elsewhere = handing_over(settings)
    arguments, new = [*arguments, *elsewhere], True
    try:
        if dry_run or not yes:
            arguments, new = _previewed(settings, arguments, json=json)
        if dry_run or not new:
            if not json:
                typer.echo("Nothing was written.")
            return
        if not yes and (json or not sys.stdin.isatty()):
            raise InvalidInput("Nothing was imported, as nobody could be asked. Add --yes.")
        if not (yes or typer.confirm("Import this?")):
            typer.echo("Nothing was imported.", err=True)
            return
        end = ["--json"] if json else []
        go_on_without_reader()
        typer.echo(run_night(settings, "backfill", *arguments, *end, ours=bool(elsewhere)), nl=False)
    except NightCommandFailed as error:
        raise SystemExit(error.code) from error  # the night has said why


def _previewed(settings: Settings, arguments: list[str], *, json: bool) -> tuple[list[str], bool]:
    """Show what would come in; (the arguments, with what had to be asked for; whether anything is new)."""
    from dispatcher.releases.night_command import NightCommandFailed, run_night

    while True:
        try:
            ours = "--hand-over" in arguments
            printed = run_night(settings, "backfill", *arguments, "--dry-run", "--json", ours=ours)
            break
        except NightCommandFailed as error:
            missing = _ASKED_FOR.search(error.message)
            if missing is None or json or not sys.stdin.isatty():
                raise
            answer = typer.prompt(f"--{missing[1]}")
            answer = given_chat(settings, answer, new=True) if missing[1] == "chat" else answer  # by its name, too
            arguments = [*arguments, f"--{missing[1]}={answer}"]
    report = orjson.loads(printed)
    new = bool(report["new"])
    typer.echo(printed if json else preview_text(settings, report), nl=not json)
    return arguments, new


def preview_text(settings: Settings, report: dict[str, Any]) -> str:
    """What a dry run reports, with what the chats know already, or nearly, of the facts that would come in."""
    return "\n".join([*report["text"], *_like_known_ones(settings, report["facts"])])


def _like_known_ones(settings: Settings, facts: list[dict[str, Any]]) -> Iterator[str]:
    """What the chats know of these facts already, or nearly, as lines."""
    from dispatcher.cli.memory import opened_day
    from dispatcher.memory.store.memories import MemoryType

    if not facts or not settings.has_day_store:
        return
    with opened_day(settings, vectors=True) as day:
        for one in facts[:COMPARED]:
            like = day.remembering.plan(one["chat_id"], MemoryType.FACT, one["text"], now=one["at"])
            what = f'  "{shorten(one_line(one["text"]), QUOTED)}"'
            if like.same:
                yield f"{what} is known as {_numbered(like.same)}"
            elif like.near:
                yield f"{what} may be about the same as {_numbered(like.near)}; both will be kept"
    if len(facts) > COMPARED:
        yield f"  The other {len(facts) - COMPARED} facts are compared when they come in."


def _numbered(memory: Memory) -> str:
    return f'{memory.number}. "{shorten(one_line(memory.text), QUOTED)}"'


def imports(settings: Settings) -> list[dict[str, Any]]:
    """What each import has brought into each chat, oldest first, then the ones that were handed to the nights of another host.

    `archived`: whether the archive, or the release, has it; `undone`: it is still there, until a night has taken it out. Of what was handed over:
    `waiting`, `outcome` (how many turns were new, known …), `done_at`, and `damaged`, if they were.
    """
    found = _archived(settings)
    with closing(connect(settings)) as client:
        handed = ImportHandOver(client).all()
    for one in handed:
        became = {"waiting": one.waits, "outcome": one.outcome, "done_at": one.done_at, "damaged": one.damaged}
        taken = [each for each in found if each["import"] == one.name and not one.waits]
        for each in taken:
            each.update(became)
        if not taken:
            about = {"import": one.name, "at": one.at, "source": one.source, "files": one.files}
            about |= {"archived": False, "undone": False} | became
            found += [about | {"chat_id": chat_id, "turns": turns} for chat_id, turns in one.chats.items()]
    return found


def _archived(settings: Settings) -> list[dict[str, Any]]:
    """As the archive says, or the release where the archive is elsewhere."""
    from dispatcher.chat_data.forget.select import undone_imports
    from dispatcher.releases.night_command import archive_is_here, read_archive
    from shared.release.imports import last_of, released_batches

    undone, here = undone_imports(settings), archive_is_here(settings)
    found = list(read_archive(settings, "--imports") if here else last_of(released_batches(settings.hmem_memory_dir)))
    return [one | {"archived": True, "undone": one.pop("event") in undone} for one in found]


def _list(settings: Settings, *, json: bool) -> None:
    found = imports(settings)
    if json:
        print_json(found)
        return
    for one in found:
        files = ", ".join(one["files"])
        at = zoned_text(one["at"], settings.timezone)
        state = "; undone, and gone with the next night" if one["undone"] else state_of(one, settings.timezone)
        what = f"{one['source']}: {counted(one['turns'], 'turn')} into chat {one['chat_id']}, from {files}{state}"
        typer.echo(f"{one['import']}  {at}  {what}")
    if not found:
        typer.echo("Nothing has been imported yet.", err=True)


def state_of(one: dict[str, Any], zone: ZoneInfo) -> str:
    """What became of an import that was handed over, with a semicolon ahead; "" for another."""
    if "waiting" not in one:
        return ""
    if one["waiting"]:
        return f"; waits for the next night, since {zoned_text(one['at'], zone)}"
    counts = ", ".join(f"{count} {name}" for name, count in one["outcome"].items()) or "nothing"
    became = "it was damaged on its way and left out; import it again" if one["damaged"] else counts
    return f"; the night of {zoned_text(one['done_at'], zone)}: {became}"


def _undo(settings: Settings, name: str, *, yes: bool, json: bool) -> None:
    from dispatcher.chat_data.forget.request import ForgetRequest
    from dispatcher.chat_data.forget.steps import open_context
    from dispatcher.cli.copies.chat_data import begin

    if settings.remote_target:
        raise InvalidInput(
            f"The bot's memory is on another host (PUBLISH_TARGET), where an import is undone: run hmem import --undo {name} there."
        )
    if _taken_back(settings, name):
        return
    known = [one for one in imports(settings) if one["import"] == name]
    if not known:
        raise InvalidInput(f"There is no import {name}. hmem import --list shows all.")
    if later := _not_served_yet(settings, {one["chat_id"] for one in known}):
        raise InvalidInput(
            f"The release in use does not have the import {later} yet. Undo {name} after the next good night."
        )
    if not any(one["archived"] for one in known):
        raise InvalidInput(f"The import {name} has brought nothing, so there is nothing to undo.")
    if all(one["undone"] for one in known):
        raise InvalidInput(f"The import {name} is undone already. hmem forget --resume finishes it, or the next night.")
    with closing(connect(settings)) as client:
        client.ping()
        with open_context(settings, client, lambda text: typer.echo(text, err=True)) as context:
            begin(context, ForgetRequest("import", batch=name), yes=yes, later=False, json=json)


def _not_served_yet(settings: Settings, chats: set[str]) -> str | None:
    """An import into one of these chats which a later night of another host than that of the release in use has taken, or is taking: what it brings,
    perhaps the same, is not known here."""
    from dispatcher.releases.night_command import archive_is_here
    from shared.release.manifest import current_release, read_manifest

    if archive_is_here(settings):
        return None
    release = current_release(settings.hmem_memory_dir)
    run = read_manifest(release).run if release else 0
    with closing(connect(settings)) as client:
        into = [one for one in ImportHandOver(client).all() if chats & one.chats.keys() and not one.damaged]
    return next((one.name for one in into if (one.run or 0) > run), None)


def _taken_back(settings: Settings, name: str) -> bool:
    """Remove an import that waits for the nights of another host; False if there is none."""
    with closing(connect(settings)) as client:
        handed = ImportHandOver(client)
        for one in (one for one in handed.waiting() if one.name == name):
            if one.run or client.exists(keys.NIGHT_OWNER):
                raise InvalidInput(
                    "A night has begun to take it. When one has ended well, hmem import --list shows what became of it."
                )
            handed.take_back(one)
            typer.echo(f"The import {name} is taken back: no night will see it.")
            return True
    return False
