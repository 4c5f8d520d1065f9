"""`hmem upgrade`: arguments and printing; what is done is in steps.py."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

import dispatcher
from dispatcher.installation.upgrade import host, journal
from dispatcher.installation.upgrade.installation import Installation, find_installation
from dispatcher.installation.upgrade.services import HostServices, Services
from dispatcher.installation.upgrade.steps import Upgrade
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.command import application, start
from shared.system.files import make_dir, remove_tree, write_atomic
from shared.system.privileges import as_owner_of

app = application()
Say = Callable[[str], None]


@app.command()
def upgrade(
    target: Annotated[
        str, typer.Argument(help="A wheel (FILE.whl) or a git address; of a checkout: none, to follow its branch.")
    ] = "",
    back: Annotated[bool, typer.Option("--back", help="Go back to the version before the last upgrade.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what was found and what would be done.")] = False,
) -> None:
    """Install a newer version, keep the way back, and go back by itself if it does not work. Killed at any moment, run it again."""
    settings = start("owner", None, children=("dispatcher",), logs=False, formats=False)
    installation, services = find_installation(Path(dispatcher.__file__).resolve().parent.parent), HostServices()
    wanted = target if not target.endswith(".whl") else str(Path(target).absolute())
    typer.echo(f"This is {installation.sentence}.")
    if back and target:
        raise InvalidInput("--back takes no other argument: it goes back to the version before.")
    if dry_run:
        for line in plan(settings, installation, services, wanted or None, back=back):
            typer.echo(line)
        return
    with ExitStack() as held:
        with as_owner_of(settings.hmem_state_dir):
            lock = held.enter_context(journal.alone(make_dir(settings.hmem_state_dir)))
        locks = (lock, *held.enter_context(host.no_night(settings)))
        carry_on(settings, installation, services, wanted or None, typer.echo, locks, back=back)


def carry_on(
    settings: Settings,
    installation: Installation,
    services: Services,
    target: str | None,
    say: Say,
    locks: tuple[int, ...],
    *,
    back: bool = False,
) -> None:
    """Go on with an unfinished upgrade, or begin one, or go back; to its end."""
    found = (
        _to_go_back(settings, installation)
        if back
        else journal.unfinished(settings.hmem_state_dir, installation.prefix)
    )
    if found is None:
        found = _begun(settings, installation, target, say)
    elif not back:
        _refuse_another(found, target)
        way = "back" if found.back else "on"
        say(f"An upgrade of {found.from_version} was interrupted before its step {found.step!r}; it goes {way}.")
    doing = Upgrade(settings, installation, services, found, say, locks)
    if back:
        doing.go_back()
    else:
        doing.run()
        if not found.back:
            say(
                f"Done: {found.from_version} is now {host.version_of(installation.python)}. The way back: hmem upgrade --back"
            )
    for path in journal.to_prune(settings.hmem_state_dir, installation.prefix):
        remove_tree(path)


def plan(
    settings: Settings, installation: Installation, services: Services, target: str | None, *, back: bool
) -> list[str]:
    """What would be done, line by line; the refusals of a real run."""
    found = (
        _to_go_back(settings, installation)
        if back
        else journal.unfinished(settings.hmem_state_dir, installation.prefix)
    )
    if found:
        what = "go back to" if back or found.back else "go on with the upgrade of"
        return [f"It would {what} {found.from_version} ({found.folder}). Nothing was changed."]
    installation.refuse_target(target)
    host.refuse_without_room(settings, installation)
    note, running = host.other_host(settings, installation, target), list(services.running())
    store = host.store_path(settings)
    lines = [note] if note else []
    lines += [
        "It would",
        f"  keep a copy of {store or 'the day store on its server (pg_dump)'}, the settings and the present version,",
    ]
    lines += [f"  run {' '.join(command)}" for command in installation.forward(target)]
    lines += [
        "  take over the formats,",
        f"  restart {', '.join(running) or 'nothing: no service of ours runs under systemd or supervisord'},",
    ]
    return [
        *lines,
        "  run hmem doctor, and go back if that finds that the new version does not work. Nothing was changed.",
    ]


def _begun(settings: Settings, installation: Installation, target: str | None, say: Say) -> journal.UpgradeJournal:
    """A new upgrade, noted; refused before anything is changed if it cannot be done here."""
    installation.refuse_target(target)
    host.refuse_without_room(settings, installation)
    if note := host.other_host(settings, installation, target):
        say(note)
    wheel = Path(target) if target and target.endswith(".whl") else None
    content = wheel.read_bytes() if wheel else b""
    with as_owner_of(settings.hmem_state_dir):
        folder = journal.new_folder(settings.hmem_state_dir)
    packages = make_dir(journal.packages_dir(folder, installation.prefix))
    if wheel:  # the file may be gone when a killed upgrade goes on
        target = str(make_dir(packages / "new") / wheel.name)
        write_atomic(Path(target), content)
    made = journal.UpgradeJournal(folder, packages, installation.version, target, installation.commit)
    made.write_packages()
    with as_owner_of(settings.hmem_state_dir):
        made.write()
    return made


def _refuse_another(found: journal.UpgradeJournal, target: str | None) -> None:
    """InvalidInput if an unfinished upgrade has another target than is asked for now."""
    if target and found.target and Path(found.target).name != Path(target).name:
        raise InvalidInput(
            f"An upgrade to {Path(found.target).name} is unfinished. Run hmem upgrade without an argument to go on, or hmem upgrade --back."
        )


def _to_go_back(settings: Settings, installation: Installation) -> journal.UpgradeJournal:
    """The upgrade to undo: an unfinished one, or the newest that was not undone."""
    found = next(
        (
            one
            for one in reversed(journal.journals(settings.hmem_state_dir, installation.prefix))
            if one.outcome != "back"
        ),
        None,
    )
    if found is None:
        raise InvalidInput(
            "There is no upgrade to go back from: none was made here, or all that are kept were undone. hmem upgrade begins one."
        )
    return found
