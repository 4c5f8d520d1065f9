"""How the day host receives a release. Six verbs; each may be repeated.

    begin [RUN]                    reports which release is current, which run is the highest, and which server indexes are in use; with a run,
                                   creates an empty incoming/<run>.<attempt>
    lacking RUN ATTEMPT SHA256     reads the manifest that was sent there first, and names the files that no release here has: the others need not
                                   be sent (shared/delivery/takeover.py)
    verify RUN 0                   hashes releases/<run> in place
    verify RUN ATTEMPT SHA256 [accept]    copies what was sent into files of our own and hashes it (takeover.py), links the rest,
                                   refuses a release that may not follow the current one, tests it, compares its recall with the current
                                   release's (shared/delivery/trial.py), and renames it into releases/; the hash is that of the manifest that
                                   the night has sealed
    switch RUN TOKEN               points `current` at it, if the calling night still holds the lease and the owner has not pinned another
    rollback RUN                   points `current` back at that release's parent, if it is current
    prune                          removes every release, and every incoming copy, from before something was forgotten permanently

One verb runs at a time, by a lock on the directory. `current` changes only here and by the owner's `hmem release rollback`. A night on this host
calls the functions; a night on another host uses ssh, where the forced command of its key passes the request to
`python -m shared.delivery.receiver "$SSH_ORIGINAL_COMMAND"` (deploy/hmem-receive): the whole line must match one verb. The key may do two more
things: send files by rsync into incoming/, which rrsync limits to that, and reach Redis (`redis`), where it needs a login.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

import orjson

from shared.config.credentials import begin_as, for_child
from shared.config.ownership import INCOMING, OURS, VERIFYING
from shared.config.settings import Settings, load_settings
from shared.delivery.switch import refuse_unless_descendant, refuse_unless_follows, switch, undo_switch
from shared.delivery.takeover import held_files, received_manifest, take_over
from shared.errors import InvalidInput, ReleaseRefused, StorageError
from shared.release import retention
from shared.release.manifest import RELEASES, Manifest, current_manifest, current_release, release_dir, verify
from shared.system.command import translate
from shared.system.faults import crash_point
from shared.system.files import (
    fresh_dir,
    fsync_dir,
    fsync_tree,
    locked_dir,
    make_dir,
    modes_of,
    own_dir,
    own_root,
    remove_halves,
    remove_tree,
)
from shared.system.formats import claim
from shared.system.privileges import close_to_others
from shared.system.processes import last_line, module_command, run_bounded
from shared.vectors.on_server import named_in

#: Seconds for the test process.
TRIAL_TIMEOUT_SECONDS = 300
TRIAL_MODULE = "shared.delivery.trial"
#: The only credentials that it gets: those for an index on a server.
TRIAL_NEEDS = ("REDIS_URL", "REDIS_VECTORS_URL", "QDRANT_URL", "QDRANT_API_KEY", "DAY_STORE_URL")
_REQUEST = re.compile(
    r"begin(?: [0-9]{1,9})?"
    r"|verify [0-9]{1,9} (?:0|[0-9]{1,12} sha256:[0-9a-f]{64}(?: accept)?)"
    r"|lacking [0-9]{1,9} [0-9]{1,12} sha256:[0-9a-f]{64}"
    r"|switch [0-9]{1,9} [0-9]{1,12}|rollback [0-9]{1,9}|prune"
)


Method = TypeVar("Method", bound=Callable[..., Any])


def _one_at_a_time(method: Method) -> Method:
    """Hold the lock of the memory directory while a verb runs: a second caller waits. StorageError if one of our directories is unsafe."""

    @wraps(method)
    def locked(self: Receiver, *arguments: Any, **named: Any) -> Any:
        with locked_dir(own_root(self._dir, OURS["hmem_memory_dir"])):
            claim(self._dir, "hmem_memory_dir", modes_of(self._dir))
            return method(self, *arguments, **named)

    return cast(Method, locked)


class Receiver:
    """The verbs, on one memory directory."""

    def __init__(self, settings: Settings, memory_dir: Path) -> None:
        self._settings, self._dir = settings, memory_dir

    def current(self) -> Manifest | None:
        return current_manifest(self._dir)

    @_one_at_a_time
    def begin(self, run: int) -> int:
        """Create an empty incoming directory and return its attempt number; the place of this run in releases/ is cleared."""
        current, served = self.current(), current_release(self._dir)
        if (current is not None and run <= current.run) or served == release_dir(self._dir, run).resolve():
            newest = current.run if current else run
            raise ReleaseRefused(f"Run {run} is not above the current release's {newest}. Run the night again.")
        modes_of(self._dir).apply_to_dir(own_dir(self._dir, RELEASES))
        remove_halves(self._dir)
        retention.unpublish(release_dir(self._dir, run))  # never current, by the lines above
        retention.prune(self._dir, self._settings.releases_kept, coming=run)
        parent = own_dir(self._dir, INCOMING)
        parent.chmod(0o700)  # even if the group may read the other directories
        self._clear()
        attempt = secrets.randbelow(10**12 - 1) + 1  # never a name that a stray rsync may still write to; 0 is taken
        make_dir(parent / f"{run}.{attempt}")
        return attempt

    @_one_at_a_time
    def lacking(self, run: int, attempt: int, sealed: str) -> list[str]:
        """The files of the release whose manifest was sent that no release here has."""
        manifest = received_manifest(self._dir / INCOMING / f"{run}.{attempt}", sealed)
        held = held_files(self._dir, manifest)
        return [name for name in manifest.files if name not in held]

    def _clear(self, but: Path | None = None) -> None:
        """Remove everything incoming (except `but`), and what a killed attempt has copied from it."""
        for folder in (INCOMING, VERIFYING):
            for left in (self._dir / folder).glob("*"):
                if left != but:
                    remove_tree(left)

    def served(self) -> list[str] | None:
        """The names of all server indexes that a release here uses; None if they cannot be determined: then they are kept, and nights still run."""
        with suppress(ReleaseRefused):
            return named_in([release_dir(self._dir, run) for run in retention.release_runs(self._dir)])
        return None

    def newest(self) -> int:
        """The highest run that has a directory, current or not; 0 for none."""
        return max(retention.release_runs(self._dir), default=0)

    @_one_at_a_time
    def check(self, run: int) -> None:
        """ReleaseRefused if a release that is here is not intact."""
        verify(release_dir(self._dir, run))

    @_one_at_a_time
    def verify(self, run: int, attempt: int, sealed: str, *, accept: bool = False) -> dict[str, Any]:
        """Take the release over, check and test it, and give it its name; nothing is switched yet. Returns the gate's record.

        `sealed`: the sha256 of the manifest that the night made; without it, anyone who may write to incoming/ could replace the release.
        `accept`: do not refuse a release because it finds far less than the current one.
        """
        brought, release = self._dir / INCOMING / f"{run}.{attempt}", release_dir(self._dir, run)
        self._clear(but=brought)
        taken = fresh_dir(own_dir(self._dir, VERIFYING) / str(run))

        def allow(manifest: Manifest) -> None:
            if manifest.run != run:
                raise ReleaseRefused(
                    f"The release that was sent as run {run} has run {manifest.run} in its manifest. Run the night again."
                )
            refuse_unless_descendant(manifest, self.current())

        try:
            take_over(brought, taken, self._dir, sealed, allow, modes_of(self._dir))
            crash_point("publish:taken-over")
            refuse_unless_follows(taken, self._dir)
            record = run_trial(taken, current_release(self._dir), accept=accept)
            fsync_tree(taken)  # only a release that passed gets its name
            taken.rename(release)
            crash_point("publish:named")
        except BaseException:
            remove_tree(taken)
            raise
        fsync_dir(release.parent)
        fsync_dir(taken.parent)
        self._clear()
        return record

    @_one_at_a_time
    def switch(self, run: int, token: int) -> int | None:
        """The commit point (shared/delivery/switch.py). Returns None, or the run that the owner has pinned: then nothing is switched."""
        from shared.wire.client import RECEIVER, open_redis  # late: of all that a night asks, only this needs Redis

        with open_redis(self._settings.redis_url, RECEIVER) as client:
            return switch(self._dir, run, token, client)

    @_one_at_a_time
    def rollback(self, run: int) -> None:
        """Undo a switch to this run, which is not served; nothing if it is not current."""
        undo_switch(self._dir, run)

    @_one_at_a_time
    def prune(self) -> list[int]:
        """Remove releases that may contain words that the current one has forgotten permanently; returns the runs that are still being read."""
        self._clear()
        return retention.prune_outdated(self._dir)


class ReaderDied(ReleaseRefused):
    """The release crashes its reader, so it must not be opened."""


def run_trial(release: Path, current: Path | None, *, accept: bool = False) -> dict[str, Any]:
    """Open the release and search it in a separate process, which may crash (a damaged index can cause a segmentation fault).

    Returns the gate's record; ReleaseRefused if the test failed, ReaderDied if the process died or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="hmem-trial-") as state:
        paths = [str(release), state, *([str(current)] if current else [])]
        command = module_command(TRIAL_MODULE, *paths)
        try:
            with for_child(only=TRIAL_NEEDS) as (environment, descriptors):
                done = run_bounded(command, TRIAL_TIMEOUT_SECONDS, environment=environment, descriptors=descriptors)
        except subprocess.TimeoutExpired as error:
            raise ReaderDied(f"Release {release.name} did not answer within {TRIAL_TIMEOUT_SECONDS} s.") from error
    tried = f"Release {release.name} failed its test on the day host"
    if done.returncode < 0:
        raise ReaderDied(f"{tried}: the process was killed by signal {-done.returncode}.")
    if done.returncode != 0:
        raise ReleaseRefused(f"{tried}: {last_line(done).rstrip('.')}.")
    record: dict[str, Any] = orjson.loads(done.stdout.strip().splitlines()[-1])
    if record.get("refuse") and not accept:
        raise ReleaseRefused(f"{record['refuse']} If this is intended, publish it with hmem-night run --accept.")
    return record


def handle(receiver: Receiver, request: str) -> dict[str, Any]:
    """Execute one request of a night; anything but a verb with its numbers is refused."""
    if not _REQUEST.fullmatch(request):
        raise InvalidInput(
            "This key allows only: begin [RUN], lacking RUN ATTEMPT SHA256, verify RUN 0, verify RUN ATTEMPT SHA256 [accept], switch RUN TOKEN, "
            "rollback RUN, prune."
        )
    match request.split():
        case ["begin", *runs]:
            current = receiver.current()
            return {
                "current": orjson.loads(current.to_json()) if current else None,
                "attempt": receiver.begin(int(runs[0])) if runs else None,
                "newest": receiver.newest(),
                "served": receiver.served(),
            }
        case ["lacking", run, attempt, sealed]:
            return {"lacking": receiver.lacking(int(run), int(attempt), sealed)}
        case ["verify", run, _]:
            receiver.check(int(run))
            return {}
        case ["verify", run, attempt, sealed, *accept]:
            return receiver.verify(int(run), int(attempt), sealed, accept=bool(accept))
        case ["switch", run, token]:
            return {"pinned": receiver.switch(int(run), int(token))}
        case ["rollback", run]:
            receiver.rollback(int(run))
            return {}
    return {"held": receiver.prune()}


def _receive_files(settings: Settings) -> None:
    """Become rrsync, which reads the request from the environment and only lets files be written into incoming/."""
    incoming = str(own_dir(make_dir(settings.hmem_memory_dir), INCOMING))
    try:
        os.execvp("rrsync", ["rrsync", "-wo", "-no-del", "-munge", incoming])  # noqa: S606 - none is wanted
    except OSError as error:
        raise StorageError(
            f"rrsync, which comes with rsync and limits what the night may write, cannot be started ({error.strerror}). Install rsync 3.2 or newer."
        ) from error


def main() -> int:
    """Print JSON to standard output; an error is its message on standard error and its exit code."""
    close_to_others()
    begin_as("night")
    try:
        settings = load_settings()
        request = sys.argv[1] if len(sys.argv) == 2 else ""
        if request.startswith("rsync --server "):
            _receive_files(settings)
        elif request == "redis":
            relay(settings.redis_url)
        else:
            answer = handle(Receiver(settings, settings.hmem_memory_dir), request)
            sys.stdout.buffer.write(orjson.dumps(answer))
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        sys.stderr.write(f"{ours}\n")
        return ours.exit_code
    return 0


# ── Redis for a night on another host, through ssh. sshd forwards nothing: it can limit a key to one port, but not to one socket,
# where the Redis of a single user is.


def relay(url: str) -> None:
    """Connect standard input and output with the Redis of this URL, until one side ends."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        redis = socket.socket(socket.AF_UNIX)
        redis.connect(unquote(parts.path))
    else:
        redis = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379))
    threading.Thread(target=_copy, args=(redis.recv, sys.stdout.buffer), daemon=True).start()
    _copy(lambda most: os.read(0, most), redis.makefile("wb"))


def _copy(read: Callable[[int], bytes], out: Any) -> None:
    """The first of both directions that ends, ends the process: the other may wait for ever."""
    with suppress(OSError):
        while piece := read(1 << 16):
            out.write(piece)
            out.flush()
    os._exit(0)


if __name__ == "__main__":
    raise SystemExit(main())
