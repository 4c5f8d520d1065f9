"""The night host's half: `python -m dispatcher.installation.night_host.there.agent VERB`, started over ssh by the day host.

It reads a JSON object on standard input and ends with one on standard output: what it found, or `error` with a sentence. Each verb may be repeated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rich.console import Console

from dispatcher.installation import environment
from dispatcher.installation.init.terminal import Terminal
from dispatcher.installation.layout import BINARIES
from dispatcher.installation.night_host import archive_place
from dispatcher.installation.night_host.there import setup as night_setup
from dispatcher.installation.night_host.there.setup import NightSide
from dispatcher.installation.run import run
from dispatcher.installation.services.base import ServiceManager
from shared.errors import InstallationIncomplete
from shared.system.archive_folder import kept_copies, moved_marker, moved_to
from shared.system.command import translate
from shared.system.files import remove_tree
from shared.system.privileges import close_to_others

#: Seconds that the tunnel may take to answer, and that a night may take.
START_SECONDS, NIGHT_SECONDS = 60.0, 8 * 3600.0
_AGAIN = "Correct that, then run the same command on the day host again."


def prepare(side: NightSide, given: dict[str, Any]) -> dict[str, Any]:
    """Accounts, directories and keys. Returns where things are, and the keys' public halves."""
    side.refuse_other_installation()
    night_setup.make_places(side)
    public = night_setup.make_keys(side)
    return {"public": public, **state(side, given)}


def state(side: NightSide, _given: dict[str, Any]) -> dict[str, Any]:
    place = side.layout.night
    return {
        "night": str(place),
        "arriving": str(archive_place.arriving(place)),
        "arrived": archive_place.is_used(place) and moved_to(place) is None,
        "moved": moved_to(place),
        "socket": str(side.socket),
        "has_login": side.redis_url() != "",
    }


def connect(side: NightSide, given: dict[str, Any]) -> dict[str, Any]:
    """How ssh reaches the day host from here, and the encryption key of both."""
    keys = night_setup.write_keys(side, given["encryption"])
    return {"changed": night_setup.write_ssh_files(side, given) or keys}


def try_keys(side: NightSide, given: dict[str, Any]) -> dict[str, Any]:
    """`redis_url`: "" for the one in the settings; `thorough`: also what must be refused, which may be asked only while no night runs."""
    trial = side.trial(given["address"])
    said = trial.thoroughly() if given["thorough"] else trial.briefly()
    url = given["redis_url"] or side.redis_url()
    if not given["tunnel"] or side.socket.exists():
        trial.ask_redis(url)
    else:
        trial.redis(side.socket, url)
    return {"said": said}


def verify(side: NightSide, _given: dict[str, Any]) -> dict[str, Any]:
    """Hash the copy that has arrived; what it has."""
    copy = archive_place.arriving(side.layout.night)
    archive_place.give(copy, side.layout.night_user)
    command = [str(BINARIES / "hmem-night"), "verify", "--json"]
    remedy = "Nothing was changed on the day host; run the same command there again."
    said = run(command, "Verifying the copy", remedy, seconds=NIGHT_SECONDS, **_how(side, HMEM_NIGHT_DIR=str(copy)))
    return {"counts": json.loads(said[said.index("{") :])}


def arrive(side: NightSide, given: dict[str, Any]) -> dict[str, Any]:
    archive_place.put_in_place(side.layout.night)
    return state(side, given)


def settings(side: NightSide, given: dict[str, Any]) -> dict[str, Any]:
    return {"changed": night_setup.write_night_settings(side, given["values"], given["redis_url"])}


def services(side: NightSide, given: dict[str, Any]) -> dict[str, Any]:
    """Write, start, and wait until Redis answers through the tunnel."""
    manager = side.manager(tunnel=given["tunnel"])
    names = [program.name for program in manager.programs]
    changed, stopped = manager.install(side.journal), manager.stopped()
    if changed or stopped:
        manager.start(names)
    if given["restart"]:
        manager.restart([name for name in names if name not in stopped])
    if given["tunnel"]:
        _wait_for_tunnel(side, given["address"])
    started = "started" if changed or stopped else "running already"
    return {"sentence": f"{', '.join(names)}: {started} (by {manager.name})", "note": manager.after_restart()}


def _wait_for_tunnel(side: NightSide, address: str) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return side.trial(address).ask_redis(side.redis_url())
        except InstallationIncomplete:
            if time.monotonic() > end:
                raise
            time.sleep(1.0)


def night(side: NightSide, _given: dict[str, Any]) -> dict[str, Any]:
    """One night now."""
    command = [str(BINARIES / "hmem-night"), "run"]
    said = run(command, "The night", f"hmem-night status shows more. {_AGAIN}", seconds=NIGHT_SECONDS, **_how(side))
    return {"said": said.strip().splitlines()[-1] if said.strip() else "ended well"}


def stop(side: NightSide, given: dict[str, Any]) -> dict[str, Any]:
    """No nights here any more, from the moment when the one that runs has ended; the archive stays until it is on the day host."""
    place = side.layout.night
    manager = side.manager(tunnel=given["tunnel"])
    if archive_place.is_used(place) and moved_to(place) is None:
        with archive_place.no_night(place, partial(side.context.terminal.busy, "Waiting for the night")):
            _stop(manager)
            archive_place.mark_moved(place, given["to"])
    else:
        _stop(manager)
    return state(side, given)


def _stop(manager: ServiceManager) -> None:
    with suppress(subprocess.SubprocessError):
        manager.stop([program.name for program in manager.programs if program.name == "night"])


def remove(side: NightSide, given: dict[str, Any]) -> dict[str, Any]:
    """Everything that was made here but the archive, and the program, which is this one."""
    place = side.layout.night
    if archive_place.is_used(place) and moved_to(place) is None:
        raise InstallationIncomplete(f"{place} is the archive that nights use, so nothing was removed. {_AGAIN}")
    with suppress(FileNotFoundError):
        side.manager(tunnel=given["tunnel"]).remove(side.journal)
    archive_place.put_aside(place)
    remove_tree(archive_place.arriving(place))
    if not archive_place.is_used(place):  # else it is a disk of its own
        moved_marker(place).unlink(missing_ok=True)
    night_setup.remove_places(side)
    return {"kept": [str(path) for path in kept_copies(place)], "account": side.journal.names("account")}


def _how(side: NightSide, **more: str) -> dict[str, Any]:
    """In a clean environment; what root starts goes on as the account that owns the night's directory."""
    file = side.layout.settings_file
    named = {"HMEM_CONFIG": str(file)} if file.exists() else {}
    return {"env": {**environment.clean(own=True), **named, **side.encryption, **more}, "cwd": "/"}


VERBS: dict[str, Callable[[NightSide, dict[str, Any]], dict[str, Any]]] = {
    "prepare": prepare, "state": state, "connect": connect, "try": try_keys, "verify": verify, "arrive": arrive, "settings": settings,
    "services": services, "night": night, "stop": stop, "remove": remove,
}  # fmt: skip


def main(verb: str) -> None:
    close_to_others()
    os.umask(0o077)
    given = json.loads(sys.stdin.read())
    terminal = Terminal(unattended=True, console=Console(file=sys.stderr, soft_wrap=True))
    try:
        found = VERBS[verb](night_setup.night_side(terminal, own_user=given["user"]), given)
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        found = {"error": str(ours)}
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
