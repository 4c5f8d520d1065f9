"""Opens the vectors of a release without crashing on it again and again.

An index can end its reader with a segmentation fault, which cannot be caught. So there is a mark in HMEM_STATE_DIR from before the vectors are
opened until a first search has been answered: a private directory, whose lock shows whether its owner is alive. An abandoned mark means that a
dispatcher or a command died while it opened this release, possibly for another reason (SIGKILL, power failure). Then the release is first tried in
a separate process. If that fails, or one dies again although it passed, only keywords and summaries are served, and a dispatcher does not open the
vectors until `current` moves or it is restarted. If a later search kills the process, that counts against its task, which becomes a dead letter
after three deaths. Memory servers open vectors without a mark: they are killed with their Claude process, which would look like a crash.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from shared.config.settings import Settings
from shared.errors import ReleaseRefused, StorageError
from shared.release.manifest import release_dir
from shared.release.retention import in_use
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.system.files import PrivateDir, locked_dir, make_dir, remove_tree

log = structlog.get_logger()

#: In HMEM_STATE_DIR: a directory for each release (run and inode), with one for each process that is opening it or died doing so.
MARKS = "opening"
#: A file next to those: the release has passed its trial, and will be opened next.
PASSED = "passed"


class VectorCrashGuard:
    """One for each dispatcher, or for a command."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def open_vectors(self, release: OpenRelease) -> None:
        """Open the vectors and run a first search, or leave them out while this release is open. Slow; raises nothing."""
        if not release.has_vectors:
            return
        place = self._settings.hmem_state_dir / MARKS
        try:
            place /= f"{release.run}-{release.path.stat().st_ino}"  # another one if the run was published again
            why = _suspicion(release, place)
        except OSError as error:  # a mark that cannot be written
            why = str(error)
        if why:
            release.without_vectors(f"a process died while it opened release {release.run}")
            log.error(
                "A process died while it opened this release, so it is served with keywords and summaries only. "
                "Roll back to another one (hmem release rollback), or run the night again; a restart tries this one again.",
                release=release.run,
                why=why,
            )
            return
        with _marked(place):
            release.open_vectors()
            _ask(release)

    def forget_gone(self) -> None:
        """Remove the marks of releases that no longer exist."""
        with contextlib.suppress(OSError, ValueError):
            for place in (self._settings.hmem_state_dir / MARKS).iterdir():
                run, _, inode = place.name.partition("-")
                release = release_dir(self._settings.hmem_memory_dir, int(run))
                if not release.is_dir() or str(release.stat().st_ino) != inode:
                    remove_tree(place)


def _someone_died(place: Path) -> bool:
    with contextlib.suppress(OSError), locked_dir(place):  # a mark that is being created is not locked yet
        return any(not in_use(mark) for mark in place.iterdir() if mark.is_dir())
    return False


def _suspicion(release: OpenRelease, place: Path) -> str | None:
    """Why the vectors should not be opened, or None."""
    if not _someone_died(place):
        return None
    passed = place / PASSED
    if passed.exists():
        passed.unlink(missing_ok=True)
        return "it passed its trial, but then another process died while it opened it"
    why = _trial(release)
    if why is None:
        passed.touch()
    return why


def _trial(release: OpenRelease) -> str | None:
    """How the release crashed a separate process, or None. An unavailable embedder is not a crash."""
    from shared.delivery.receiver import ReaderDied, run_trial

    log.warning("a process died while it opened this release; testing it in a separate process", release=release.run)
    try:
        run_trial(release.path, None)
    except ReaderDied as error:
        return str(error)
    except ReleaseRefused:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, serving without vectors is safe
        return str(error) or repr(error)
    return None


def _ask(release: OpenRelease) -> None:
    """A first search, in a large chat, which loads what opening does not."""
    from shared.delivery.trial import PLAIN_WORDS

    if release.vectors_missing is None and (chat_id := release.largest_chat()) is not None:
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            release.recall(Query(chat_id, PLAIN_WORDS, 1))


@contextmanager
def _marked(place: Path) -> Iterator[None]:
    """A mark for the duration of the block; removes abandoned marks, too, because the release has passed. Without a usable disk there is no mark."""
    mark: PrivateDir | None = None
    with contextlib.suppress(OSError, StorageError):
        make_dir(place)
        mark = PrivateDir(place)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if mark:
                mark.remove()
            (place / PASSED).unlink(missing_ok=True)
            place.rmdir()  # unless another dispatcher is using it
