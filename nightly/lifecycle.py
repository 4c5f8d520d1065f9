"""How a night starts, and how an interrupted one ends: its number and folder, cleaning up after a kill, repeating and abandoning."""

from __future__ import annotations

import time
from pathlib import Path

import orjson

from nightly.archive.erasing import DONE as ERASED
from nightly.archive.segments import segment_runs
from nightly.night.folder import DONE, FETCHED, REPAIRING, STATE, Night, drop_bulk, night_runs, nights_dir
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.release.manifest import Manifest
from shared.system.files import commit_dir, fresh_dir, remove_halves, remove_tree, write_atomic
from shared.vectors.on_server import SERVERS_FILE

#: How far the counter may be ahead of all known runs: a night that finds another one running also takes a number, and `hmem forget`
#: tries every two seconds.
MOST_AHEAD = 100_000
#: Files in HMEM_NIGHT_DIR that only a night writes.
OWN_FILES = (ERASED, SERVERS_FILE)


def tidy(settings: Settings) -> None:
    """Clean up after a kill: files and folders that never got their final names, and the bulk of closed nights."""
    for name in (FETCHED, REPAIRING):  # copies of the mirror's files, perhaps from before something was erased
        remove_tree(settings.hmem_night_dir / name)
    archive = settings.hmem_night_dir / "archive"
    for directory in (archive, *archive.glob("media/*"), *nights_dir(settings).glob("[0-9]*")):
        remove_halves(directory)
    for name in OWN_FILES:  # others, such as owner.pub, are also written while a night runs
        remove_halves(settings.hmem_night_dir, name)
    for folder in list(nights_dir(settings).iterdir()) if nights_dir(settings).is_dir() else []:
        if folder.suffix == ".tmp":
            remove_tree(folder)
        elif (folder / DONE).exists():
            drop_bulk(folder)


def overtaken(settings: Settings, run: int, current: Manifest | None) -> str | None:
    """Why an unfinished night can no longer be finished, or None: another release became current after it had started."""
    folder = nights_dir(settings) / str(run)
    if (folder / "publish").is_dir():
        return None
    now = current.run if current else None
    parent = orjson.loads((folder / STATE).read_bytes())["parent"]
    if now in (parent, run):
        return None
    return f"release {now} became current after it had started" if now else "the release that it follows is not current"


def new_run(settings: Settings, token: int, current: Manifest | None, newest: int) -> int:
    """A run above every one that this host, the day host (`newest`: its highest run, current or not) or the counter knows.

    A counter that is far ahead of all of them does not count nights and is ignored: a run is permanent, and each later one must be above it.
    """
    published = current.run if current else 0
    known = [0, *night_runs(settings), *segment_runs(settings.hmem_night_dir / "archive"), published, newest]
    follows = max(known) + 1
    return max(follows, token) if token <= follows + MOST_AHEAD else follows


def create_folder(settings: Settings, run: int, current: Manifest | None, *, rebuild: bool = False) -> Path:
    """Create a new night's folder, with its state; it appears complete or not at all."""
    parent = current.run if current else None
    temporary = fresh_dir(nights_dir(settings) / f"{run}.tmp")
    state = {"run": run, "parent": parent, "started_at": time.time(), "rebuild": rebuild}
    write_atomic(temporary / STATE, orjson.dumps(state, option=orjson.OPT_INDENT_2))
    folder = nights_dir(settings) / str(run)
    commit_dir(temporary, folder)
    return folder


def discard_from(night: Night, steps: list[str]) -> None:
    """Discard the outputs of these steps, so that they run again; the archive step cannot be repeated once its segment is written."""
    if "archive" in steps and night.run in segment_runs(night.archive_dir):
        raise InvalidInput(
            f"Night {night.run} has archived its turns, so this step cannot be repeated. Use --from chunk, or a later step."
        )
    # the last first, each renamed before it is removed: a kill leaves no partial output behind
    for step in reversed(steps):
        if night.is_done(step):
            remove_tree(night.folder / f"{step}.tmp")
            night.output(step).rename(night.folder / f"{step}.tmp")
            remove_tree(night.folder / f"{step}.tmp")
    (night.folder / DONE).unlink(missing_ok=True)
