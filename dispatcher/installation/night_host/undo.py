"""`hmem init --undo --night-host`: the archive and the nights back to this host, and everything taken out that was made for the other one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from dispatcher.installation.init.context import InitContext
from dispatcher.installation.init.steps import SetupStep, carry_out
from dispatcher.installation.night_host import day_access
from dispatcher.installation.night_host.archive_move import bring_back
from dispatcher.installation.night_host.move import JOURNAL, NightMove
from dispatcher.installation.night_host.redis_login import forget_login
from dispatcher.installation.night_host.steps import begin_move
from dispatcher.installation.services.choose import services_of
from shared.system import faults
from shared.system.archive_folder import moved_to


def take_nights_back(installation: InitContext, name: str) -> int:
    move, terminal = begin_move(installation, name, undo=True), installation.terminal
    faults.arm(installation.settings())
    if not move.journal.names("night-host"):
        terminal.say(f"The nights of this installation were never given to {name}, so there is nothing to undo.")
        return 0
    terminal.title(f"The nights come back from {name}")
    terminal.say(
        f"  The archive is copied back and verified here; program, keys, settings and services on {name} are removed."
    )
    if not terminal.confirm("Go ahead?"):
        terminal.say("Nothing was changed.")
        return 0
    for step_name, step in STEPS:
        carry_out(installation, SetupStep(step_name, partial(_of_move, step, move)), move.remote.command)
    for note in installation.notes:
        terminal.note("stays", note)
    terminal.title("The nights run on this host")
    return 0


def _of_move(step: Callable[[NightMove], str], move: NightMove, _installation: InitContext) -> str:
    return step(move)


def _connect(move: NightMove) -> str:
    found = move.look_around()
    return f"{move.remote.name} answers (as {found['user']})"


def _schedule(move: NightMove) -> str:
    installation = move.installation
    manager = services_of(installation.layout, installation.settings())
    manager.install(installation.journal)
    manager.start(["night"])
    return f"nights run here again (by {manager.name})"


def _remove_there(move: NightMove) -> str:
    if not move.survey["stamp"]:
        return "nothing is left"
    if move.survey["packages"]:
        answer = move.ask("remove", f"Removing services and settings on {move.remote.name}", tunnel=True)
        if answer["kept"]:
            move.installation.notes.append(
                f"On {move.remote.name} a copy of the archive, in {', '.join(answer['kept'])}. To delete it: rm -r."
            )
        if answer["account"]:
            move.installation.notes.append(
                f"On {move.remote.name} the account {', '.join(answer['account'])}, which owns it. To delete it: userdel NAME."
            )
    given = {"program": move.survey["program"]}
    move.remote.script("remove", given, "Removing the program", f"Then run {move.remote.command} again.", 600.0)
    return "services, settings, keys and program removed"


def _remove_here(move: NightMove) -> str:
    layout, journal = move.installation.layout, move.journal
    day_access.refuse_all(layout)
    forget_login(move.installation, journal)
    day_access.restore_shell(journal)
    for name in journal.names("file"):
        Path(name).unlink(missing_ok=True)
    if moved_to(layout.night) is None:
        (layout.config / JOURNAL).unlink(missing_ok=True)
    return "the keys are not accepted any more"


STEPS: Sequence[tuple[str, Callable[[NightMove], str]]] = (
    ("ssh", _connect),
    ("archive", bring_back),
    ("schedule", _schedule),
    ("there", _remove_there),
    ("here", _remove_here),
)
