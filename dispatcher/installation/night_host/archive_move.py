"""The archive's way to the night host and back. At every moment at most one host has an archive that nights may use (archive_place.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from dispatcher.installation.init.steps import how_ours_run
from dispatcher.installation.layout import BINARIES
from dispatcher.installation.night_host import archive_place
from dispatcher.installation.night_host.archive_place import NIGHT_SECONDS
from dispatcher.installation.night_host.move import NightMove
from dispatcher.installation.run import run
from dispatcher.installation.services.choose import services_of
from shared.errors import InstallationIncomplete
from shared.system.archive_folder import kept_copies, moved_to
from shared.system.faults import crash_point
from shared.wire import keys
from shared.wire.client import asking_once, open_redis

#: Seconds for a copy.
COPY_SECONDS = 24 * 3600.0


def archive_here(move: NightMove) -> bool:
    """Whether there is one, or was until it was moved."""
    place = move.installation.layout.night
    return moved_to(place) is not None or archive_place.is_used(place)


def move_archive(move: NightMove) -> str:
    """Try the keys, copy, verify there, mark it as moved here, put it in place there."""
    place, name = move.installation.layout.night, move.remote.name
    if moved_to(place) is None:
        counts = _verified_here(move)
        waiting = partial(move.installation.terminal.busy, "Waiting for the end of the night that runs")
        with archive_place.no_night(place, waiting), _stopped_schedule(move):
            refuse_running(move)
            _try_keys(move, thorough=True)
            _copy_there(move, counts)
            crash_point("night-host:copied")
            archive_place.mark_moved(place, name)
        crash_point("night-host:marked")
        outcome = f"moved and verified: {_shown(counts)}"
    else:
        _try_keys(move, thorough=False)
        outcome = "there already" if move.there["arrived"] else "moved"
    move.there |= move.ask("arrive", "Putting the archive in its place there")
    _let_go_here(move)
    if kept := kept_copies(place):
        move.installation.notes.append(
            f"A copy of the archive stays in {', '.join(map(str, kept))}. It is not kept up to date, and what hmem forget erases stays in it: delete "
            "it once you trust the night host and its backup (rm -r)."
        )
    return outcome


def _verified_here(move: NightMove) -> dict[str, int]:
    """What the archive has. InstallationIncomplete if it is damaged: a damaged one must not be moved."""
    with move.installation.terminal.busy("Verifying the archive") as show:
        said = run(
            [str(BINARIES / "hmem-night"), "verify", "--json"],
            "hmem-night verify",
            "Nothing was moved.",
            seconds=NIGHT_SECONDS,
            show=show,
            **how_ours_run(move.installation),
        )
    return dict(json.loads(said[said.index("{") :]))


@contextmanager
def _stopped_schedule(move: NightMove) -> Iterator[None]:
    """The schedule of nights here, started again unless the archive was moved meanwhile."""
    layout = move.installation.layout
    manager = services_of(layout, move.installation.settings())
    manager.stop(["night"])
    try:
        yield
    finally:
        if moved_to(layout.night) is None:
            manager.start(["night"])


def refuse_running(move: NightMove) -> None:
    """InstallationIncomplete if a night of this installation runs on another host: what it uses must not change meanwhile."""
    url = move.installation.values["REDIS_URL"]
    with closing(open_redis(url, asking_once(5.0))) as client:
        owner = client.get(keys.NIGHT_OWNER)
    if isinstance(owner, bytes):
        raise InstallationIncomplete(
            f"A night runs on another host ({owner.decode('utf-8', 'replace')}), or was killed there less than 90 s ago. Wait, then run "
            f"{move.remote.command} again."
        )


def _try_keys(move: NightMove, *, thorough: bool) -> None:
    move.ask(
        "try", "Trying the keys", thorough=thorough, redis_url=move.redis_url, tunnel=move.tunnel, address=str(move.address)
    )  # fmt: skip


def _copy_there(move: NightMove, counts: dict[str, int]) -> None:
    place, target = move.installation.layout.night, move.there["arriving"]
    what = f"Copying the archive to {move.remote.name}"
    move.remote.copy(str(place), target, what, *archive_place.NOT_COPIED, seconds=COPY_SECONDS)
    found = move.ask("verify", "Verifying the archive there", NIGHT_SECONDS)["counts"]
    if found != counts:
        raise InstallationIncomplete(
            f"The copy on {move.remote.name} has {_shown(found)}, but the archive here {_shown(counts)}. Run {move.remote.command} again."
        )


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if name != "repaired")


def _let_go_here(move: NightMove) -> None:
    """No schedule here any more, and the old copy under another name."""
    layout = move.installation.layout
    archive_place.put_aside(layout.night)
    manager = services_of(layout, move.installation.settings())
    if manager.install(move.installation.journal):
        manager.start([])


def bring_back(move: NightMove) -> str:
    """From the moment when no night may run there: copy, verify here, put it in place here, and start the schedule."""
    layout, place = move.installation.layout, move.installation.layout.night
    if moved_to(place) is None:
        return "is here"
    state = move.ask(
        "stop", f"Stopping the nights on {move.remote.name}", NIGHT_SECONDS, to="the day host", tunnel=move.tunnel
    )  # fmt: skip
    if state["moved"]:
        copy = archive_place.arriving(place)
        what = f"Copying the archive from {move.remote.name}"
        move.remote.copy(state["night"], str(copy), what, *archive_place.NOT_COPIED, seconds=COPY_SECONDS, back=True)
        archive_place.give(copy, layout.night_user)
        _verify_copy(move)
        crash_point("night-host:brought")
    elif not archive_place.is_used(place):
        _use_kept(move)
    archive_place.put_in_place(place)
    return "brought back and verified"


def _verify_copy(move: NightMove) -> None:
    how = how_ours_run(move.installation)
    how["env"] = {**how["env"], "HMEM_NIGHT_DIR": str(archive_place.arriving(move.installation.layout.night))}
    command = [str(BINARIES / "hmem-night"), "verify"]
    with move.installation.terminal.busy("Verifying the archive") as show:
        run(
            command,
            "Verifying the copy",
            f"The archive is still on {move.remote.name}.",
            seconds=NIGHT_SECONDS,
            show=show,
            **how,
        )


def _use_kept(move: NightMove) -> None:
    """It was given away here, but never put in its place there: then what stayed here is the archive."""
    place = move.installation.layout.night
    copies = kept_copies(place)
    if move.ask("state", "Looking for the archive there")["arrived"] or not copies:
        raise InstallationIncomplete(
            f"The archive is neither here nor on {move.remote.name} as it should be. Look for {place.name}.kept and {place.name}.arriving."
        )
    copies[-1].rename(archive_place.arriving(place))
