"""`hmem restore`: the way back from a backup, or from the second copy of the day."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.arguments import Json, connect
from dispatcher.cli.copies.backup import PasswordFile
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.command import application, print_json, start
from shared.text.format import counted, zoned_text

if TYPE_CHECKING:
    from pathlib import Path

    from dispatcher.backups.restore import Restored
    from dispatcher.second_copy.restore import DayRestored

app = application()


@app.command()
def restore(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="The restic repository that hmem backup wrote to; default: BACKUP_TO.",
            show_default=False,
        ),
    ] = "",
    snapshot: Annotated[str, typer.Option(help="This backup of it, by its id; default: the newest.")] = "",
    day: Annotated[
        bool, typer.Option("--day", help="Bring the day back from JOURNAL instead, while no dispatcher runs.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Also where there is something already: the day store is replaced, what is missing is added."
        ),
    ] = False,
    password_file: PasswordFile = None,
    json: Json = False,
) -> None:
    """Bring a backup back to this host: archive, release, day store, today's Redis, settings; or with --day the day alone, from its second copy.

    Killed at any moment, run it again.
    """
    if day and (source or snapshot or password_file):
        raise InvalidInput(
            "--day brings the day back from JOURNAL, so it takes no FROM, --snapshot or --password-file. Leave them out."
        )
    if day:
        _restore_day(yes=yes, json=json)
    else:
        _from_backup(source, snapshot, password_file, yes=yes, json=json)


def _from_backup(source: str, snapshot: str, password_file: Path | None, *, yes: bool, json: bool) -> None:
    from dispatcher.backups.restore import restore_backup
    from dispatcher.chat_data.forget.receipt import last_forgotten
    from dispatcher.queue.state import refuse_running
    from shared.delivery.copies.password import read_password
    from shared.system.privileges import act_as_owner_of

    settings = start(directory=None, children=("night",))
    given = source.strip() or settings.backup_to or ""
    if not given:
        raise InvalidInput("It is not said where from: give FROM, the repository that hmem backup wrote to.")
    password = read_password(settings, password_file)
    act_as_owner_of(settings.hmem_state_dir, spanning=(settings.hmem_night_dir, settings.hmem_memory_dir))
    with closing(connect(settings)) as client:
        refuse_running(client)
        last = last_forgotten(settings.hmem_state_dir)
        result = restore_backup(settings, client, given, password, last, snapshot=snapshot or None, yes=yes)
    if json:
        print_json(result.to_json())
        return
    typer.echo(_sentence(result, settings))
    for lack in result.lacks:
        typer.echo(f"note: it lacked {lack}.", err=True)
    for number, sentence in enumerate(result.to_do, start=1):
        typer.echo(f"{number}. {sentence[0].upper()}{sentence[1:]}.")


def _sentence(result: Restored, settings: Settings) -> str:
    parts = result.parts
    archive, release, redis = parts["archive"], parts["release"], parts["redis"]
    what = [
        f"{archive['added']} of {counted(archive['files'], 'file')} of the archive" if archive else "",
        f"release {release['run']}" + ("" if release["current"] else " (a newer one stays in use)") if release else "",
        f"the day store ({counted(parts['day_store'], 'row')})" if parts["day_store"] is not None else "",
        f"{counted(redis['restored'], 'key')} of Redis" + (f" ({redis['there']} were there)" if redis["there"] else ""),
        f"{counted(parts['forgotten'], 'tombstone')}" if parts["forgotten"] else "",
    ]
    at = zoned_text(result.snapshot.at, settings.timezone)
    return f"Restored backup {result.snapshot.short} of {at} from {result.place}: {', '.join(filter(None, what))}; {result.seconds:.1f} s. Next:"


def _restore_day(*, yes: bool, json: bool) -> None:
    from shared.config.ownership import OURS
    from shared.system.files import own_root

    settings = start("dispatcher")
    own_root(settings.hmem_state_dir, OURS["hmem_state_dir"])
    found = _carry_out(settings, yes=yes)
    if json:
        print_json(found.to_json())
        return
    for line in _lines(found, settings):
        typer.echo(line)


def _carry_out(settings: Settings, *, yes: bool) -> DayRestored:
    from dispatcher.memory.store.database import Database
    from dispatcher.memory.tombstones import Forgotten
    from dispatcher.queue.state import refuse_running
    from dispatcher.second_copy.restore import DayPlace, restore_day

    forgotten = Forgotten(settings.hmem_state_dir)
    store = Database(settings.day_store_url, settings.hmem_state_dir).path if settings.has_day_store else None
    place = DayPlace(connect(settings), forgotten.all, forgotten.add, store)
    refuse_running(place.client)
    return restore_day(settings, place, yes=yes, say=lambda line: typer.echo(line, err=True))


def _lines(found: DayRestored, settings: Settings) -> list[str]:
    done = found.put_back
    when = f", as of {zoned_text(found.last_entry, settings.timezone)}" if found.last_entry else ""
    lines = [
        f"The day was restored from {found.place}{when}, in {found.seconds:g} s:",
        f"  {counted(done.turns, 'turn')} ({found.waiting_turns} wait for the night), {counted(done.conversations, 'key')} of conversations",
        f"  {counted(done.tasks, 'message')} without an answer back in the queue, {counted(done.answers, 'answer')} not fetched yet",
        f"  {counted(done.tombstones, 'tombstone')}",
        "  the day store, with typed memories, reminders and summaries"
        if found.store is not None
        else "  no day store: it is there already, or not in the journal (PostgreSQL has backups of its own)",
    ]
    if found.damaged:
        lines.append(f"note: {counted(found.damaged, 'line')} of the journal could not be read and were left out")
    return [*lines, "Start the dispatcher now (hmem run)."]
