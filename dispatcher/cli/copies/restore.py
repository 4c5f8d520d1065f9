"""`hmem restore`: from the second copy of the day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.arguments import Json, connect
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.command import application, print_json, start
from shared.text.format import counted, zoned_text

if TYPE_CHECKING:
    from dispatcher.second_copy.restore import DayRestored

app = application()


@app.command()
def restore(
    day: Annotated[
        bool, typer.Option("--day", help="Bring the day back from JOURNAL, while no dispatcher runs.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Also on a host that is not empty.")] = False,
    json: Json = False,
) -> None:
    """Bring the day back on an empty host from its second copy: turns, queue, conversations, tombstones, day store."""
    if not day:
        raise InvalidInput("hmem restore needs to know what to restore. Write hmem restore --day.")
    _restore_day(yes=yes, json=json)


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
    from dispatcher.second_copy.restore import DayPlace, restore_day

    forgotten = Forgotten(settings.hmem_state_dir)
    store = Database(settings.day_store_url, settings.hmem_state_dir).path if settings.has_day_store else None
    place = DayPlace(connect(settings), forgotten.all, forgotten.add, store)
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
