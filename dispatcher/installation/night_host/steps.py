"""`hmem init --night-host`: from the first look at the other host to a night there. Run again, it goes on where it stopped, or changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dispatcher.installation.init.context import InitContext
from dispatcher.installation.init.steps import SetupStep, carry_out, show_findings, status_of
from dispatcher.installation.init.terminal import Terminal
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.layout import Layout
from dispatcher.installation.night_host import day_access, night_settings
from dispatcher.installation.night_host.archive_move import archive_here, move_archive, refuse_running
from dispatcher.installation.night_host.archive_place import NIGHT_SECONDS, size_of
from dispatcher.installation.night_host.move import (
    JOURNAL,
    DayAddress,
    NightMove,
    refuse_other_host,
)
from dispatcher.installation.night_host.program import PROGRAM_BYTES, provide_program
from dispatcher.installation.night_host.redis_login import redis_login
from dispatcher.installation.night_host.remote import RemoteHost
from dispatcher.installation.run import DOWNLOAD_SECONDS
from dispatcher.installation.services.choose import services_of
from dispatcher.installation.settings_files import given_settings
from shared.errors import InstallationIncomplete
from shared.system import faults
from shared.system.archive_folder import moved_to

#: Bytes that must be left beside the archive.
SPARE_BYTES = 1 << 30


def command_of(installation: InitContext, name: str, *, undo: bool = False) -> str:
    """As the owner types it."""
    return f"hmem init{' --undo' if undo else ''}{' --user' if installation.as_user else ''} --night-host {name}"


def begin_move(installation: InitContext, name: str, *, undo: bool = False) -> NightMove:
    """InstallationIncomplete if `hmem init` has not set up this host."""
    layout = installation.layout
    if installation.journal.is_empty or not layout.settings_file.exists():
        raise InstallationIncomplete(
            f"This host was not set up by hmem init ({layout.journal} or {layout.settings_file} does not exist). Run hmem init first, then "
            f"{command_of(installation, name)}. A host that was set up by hand: docs/two-hosts.md."
        )
    remote = RemoteHost(name, installation.terminal, command_of(installation, name, undo=undo))
    installation.values = given_settings(layout)
    journal = InstallationJournal(layout.config / JOURNAL)
    refuse_other_host(journal, name)
    return NightMove(installation, remote, journal)


def give_nights(installation: InitContext, name: str, day_address: str, host_key: str) -> int:
    """The exit code: 0, or that of the first problem that the doctor found."""
    move = begin_move(installation, name)
    move.day_address, move.host_key = day_address, host_key
    faults.arm(installation.settings())
    terminal = installation.terminal
    terminal.title(f"hcli-memory: the nights on {name}")
    if not move.journal.names("night-host"):
        _show_plan(terminal, installation.layout, name)
        if not terminal.confirm("Go ahead?"):
            terminal.say("Nothing was changed.")
            return 0
    for step_name, step in STEPS:
        carry_out(installation, SetupStep(step_name, partial(_of_move, step, move)), move.remote.command)
    code = show_findings(installation)
    for note in installation.notes:
        terminal.note("note", note)
    terminal.title(f"The nights run on {name}")
    again = command_of(installation, name, undo=True)
    terminal.say(f"  There: {move.survey['program']}/.venv/bin/hmem-night status. Back to this host: {again}.")
    return code


def _of_move(step: Callable[[NightMove], str], move: NightMove, _installation: InitContext) -> str:
    return step(move)


def _show_plan(terminal: Terminal, layout: Layout, name: str) -> None:
    terminal.say(
        f"  On {name}: this program, its packages, three keys for this host, and services for tunnel and night."
    )
    terminal.say(
        "  Here: a line for each key in authorized_keys, which allows one command, and a user of Redis for the night."
    )
    terminal.say(f"  The archive in {layout.night} is copied, verified there, and kept here under another name.")


def check_day(move: NightMove) -> str:
    """Everything of this host that the night host needs."""
    installation = move.installation
    if not archive_here(move):
        raise InstallationIncomplete(
            f"No night has run here yet, so there is no archive in {installation.layout.night}. Run hmem init, which runs one, then run the same "
            "command again."
        )
    stopped = [name for name in services_of(installation.layout, installation.settings()).stopped() if name != "night"]
    if stopped:
        raise InstallationIncomplete(
            f"{', '.join(stopped)} of this installation {'does' if len(stopped) == 1 else 'do'} not run. Run hmem init (or hmem doctor --fix), "
            "then run the same command again."
        )
    if not status_of(installation):
        raise InstallationIncomplete(
            "hmem status does not work on this host, and says why. Correct that, then run the same command again."
        )
    day_access.host_keys(_host_key(move))
    if moved_to(installation.layout.night):
        refuse_running(move)
    return "set up by hmem init, and its parts work"


def connect(move: NightMove) -> str:
    """ssh, what must be installed there, and room."""
    found = move.look_around()
    if found["missing"]:
        found = _fetch(move, found)
    if found["foreign"]:
        raise InstallationIncomplete(
            f"{found['program']} on {move.remote.name} exists, and hmem init did not put it there. Move it away, or use another user."
        )
    archive = size_of(move.installation.layout.night) if archive_here(move) else 0
    wanted = {"program": 0 if found["stamp"] else PROGRAM_BYTES, "archive": 2 * archive + SPARE_BYTES}
    for what, needed in wanted.items():
        free = found[f"free_for_{what}"]
        if free < needed:
            raise InstallationIncomplete(
                f"{move.remote.name} has {free >> 20} MiB free for the {what}, and {needed >> 20} MiB are needed. Free some space there, then "
                f"run {move.remote.command} again."
            )
    move.journal.remember("night-host", move.remote.name)
    return f"{move.remote.name} answers (as {found['user']})"


def _fetch(move: NightMove, found: dict[str, Any]) -> dict[str, Any]:
    packages = found["missing"]
    if not found["root"] or not found["apt"]:
        raise InstallationIncomplete(
            f"{', '.join(packages)} {'is' if len(packages) == 1 else 'are'} missing on {move.remote.name}. Install "
            f"{'it' if len(packages) == 1 else 'them'} there (sudo apt-get install {' '.join(packages)}), then run {move.remote.command} again."
        )
    remedy = f"Install them there by hand, then run {move.remote.command} again."
    move.remote.script(
        "fetch", {"packages": packages}, f"Installing {', '.join(packages)} there", remedy, DOWNLOAD_SECONDS
    )
    return move.look_around()


def put_program(move: NightMove) -> str:
    """Services that run an older one are started again."""
    outcome, installed = provide_program(move.remote, move.survey)
    move.changed |= installed
    return outcome


def exchange_keys(move: NightMove) -> str:
    """The keys are made there, and only their public halves come here."""
    installation, layout = move.installation, move.installation.layout
    _choose_address(move)
    move.there = move.ask("prepare", f"Making keys on {move.remote.name}")
    if layout.kind == "three-users":  # its account's home is the night's directory, which the move renames
        installation.make_directory(layout.night, 0o700, layout.night_user)
    move.login = redis_login(installation, move.journal, keep=move.there["has_login"])
    changed = day_access.allow(installation, move.journal, move.there["public"], move.login.address)
    given: dict[str, Any] = {
        "address": move.address.host, "port": move.address.port, "account": day_access.owner_of_releases(layout).pw_name,
        "host_keys": day_access.host_keys(_host_key(move)),
    }  # fmt: skip
    given |= {"encryption": night_settings.encryption_files(installation.settings())}
    move.changed |= move.ask("connect", "Writing its ssh files", **given)["changed"]
    words = "three keys, one command each" if changed else "there already"
    return f"{words}; Redis {move.login.sentence}"


def _choose_address(move: NightMove) -> None:
    """How that host reaches this one: as given, as before, or by the address from which ssh came."""

    def checked(answer: str) -> str:
        return str(DayAddress.parse(answer))

    given = move.day_address or next(iter(move.journal.names("day-address")), "")
    if not given:
        move.installation.terminal.explain(
            f"At which address does {move.remote.name} reach the sshd of this host? (HOST or HOST:PORT)"
        )
    default = str(DayAddress(move.survey["seen_from"], 22)) if move.survey["seen_from"] else ""
    move.journal.remember(
        "day-address", move.installation.terminal.ask("Address of this host (--day-address)", default, checked, given=given)
    )  # fmt: skip


def _host_key(move: NightMove) -> str:
    if move.host_key:
        move.journal.remember("host-key", move.host_key)
    return next(iter(move.journal.names("host-key")), "")


def give_settings(move: NightMove) -> str:
    values, notes = night_settings.for_night_host(move.installation)
    move.installation.notes += notes
    changed = move.ask("settings", "Writing its settings", values=values, redis_url=move.redis_url)["changed"]
    move.changed |= changed
    return f"{'written' if changed else 'unchanged'} on {move.remote.name}"


def start_services(move: NightMove) -> str:
    answer = move.ask(
        "services", f"Starting services on {move.remote.name}", tunnel=move.tunnel, address=str(move.address), restart=move.changed
    )  # fmt: skip
    if answer["note"]:
        move.installation.notes.append(f"On {move.remote.name}: {answer['note']}")
    return str(answer["sentence"])


def first_night(move: NightMove) -> str:
    """One night there now, so that everything that it needs has been proven."""
    if move.journal.names("first-night"):
        return "has run before"
    said = str(move.ask("night", f"Running a night on {move.remote.name}", NIGHT_SECONDS)["said"])
    night_settings.remove_keyring_here(move.installation.settings())
    move.journal.add("first-night", move.remote.name)
    return said


STEPS: Sequence[tuple[str, Callable[[NightMove], str]]] = (
    ("this host", check_day),
    ("ssh", connect),
    ("program", put_program),
    ("keys", exchange_keys),
    ("archive", move_archive),
    ("settings", give_settings),
    ("services", start_services),
    ("night", first_night),
)
