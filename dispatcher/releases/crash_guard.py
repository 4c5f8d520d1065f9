"""Opens the vectors of a release without crashing on it again and again.

An index can end its reader with a segmentation fault, which cannot be caught. So there is a mark in HMEM_STATE_DIR from before the vectors are
opened until a first search has been answered: a file, locked by who opens them. A mark that nobody has locked means that a dispatcher or a
command died while it opened this release, possibly for another reason (SIGKILL, power failure). Then the release is first tried in a separate
process. If that fails, or one dies again although it passed, only keywords and summaries are served, and a dispatcher does not open the vectors
until `current` moves or it is restarted. If a later search kills the process, that counts against its task, which becomes a dead letter after
three deaths. Memory servers open vectors without a mark: they are killed with their Claude process, which would look like a crash.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from shared.config.settings import Settings
from shared.errors import ReleaseRefused, StorageError
from shared.release.manifest import release_dir
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.system.files import locked_file, make_dir
from shared.text.logs import Logger

log = Logger()

#: In HMEM_STATE_DIR: a mark for each release (run and inode) that is being opened, or that ended who opened it.
MARKS = "opening"
#: What a mark says: that the vectors are opened, or that this is done after a trial that they have passed.
OPENED, PASSED = b"opened", b"passed"


def open_vectors(settings: Settings, release: OpenRelease) -> None:
    """Open the vectors and run a first search, or leave them out while this release is open. Slow; raises nothing."""
    if not release.has_vectors:
        return
    with _marked(settings, release) as why:
        if why is None:
            release.open_vectors()
            _ask(release)
            return
    release.without_vectors(f"a process died while it opened release {release.run}")
    log.error(
        "A process died while it opened this release, so it is served with keywords and summaries only. "
        "Roll back to another one (hmem release rollback), or run the night again; a restart tries this one again.",
        release=release.run,
        why=why,
    )


@contextmanager
def _marked(settings: Settings, release: OpenRelease) -> Iterator[str | None]:
    """Why the vectors stay closed, or None: then there is a mark until the end, except while another process opens them, too, or without a
    usable disk."""
    with ExitStack() as stack:
        try:
            # Another one if the run was published again.
            place = make_dir(settings.hmem_state_dir / MARKS) / f"{release.run}-{release.path.stat().st_ino}"
            why = _suspicion(release, stack.enter_context(locked_file(place, wait=False)))
        except (OSError, StorageError):
            yield None
            return
        try:
            yield why
        finally:
            if why is None:
                place.unlink(missing_ok=True)


def forget_gone(settings: Settings) -> None:
    """Remove the marks of releases that no longer exist."""
    with contextlib.suppress(OSError, ValueError):
        for place in (settings.hmem_state_dir / MARKS).iterdir():
            run, _, inode = place.name.partition("-")
            release = release_dir(settings.hmem_memory_dir, int(run))
            if not release.is_dir() or str(release.stat().st_ino) != inode:
                place.unlink()


def _suspicion(release: OpenRelease, mark: IO[bytes]) -> str | None:
    """Why the vectors should not be opened, or None; the mark says what is done next."""
    said, why = mark.read(), None
    if said == PASSED:
        why = "it passed its trial, but then another process died while it opened it"
    elif said:
        why = _trial(release)
    mark.seek(0)
    mark.truncate()
    mark.write(PASSED if said and why is None else OPENED)
    mark.flush()
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
