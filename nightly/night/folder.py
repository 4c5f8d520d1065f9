"""A night is a folder: `nights/<run>/`, one committed output folder a step. Who may write is settled here, by a lock and a lease.

    nights/<run>/state.json        run, parent release, start
    nights/<run>/<step>/           a step's output with result.json; it exists only when the step is done
    nights/<run>/<step>.tmp/       a step under way; discarded after a crash

One night at a time: a lock on the night directory (released by the kernel when its holder dies) and a lease in Redis for night hosts that
do not share a directory. The lease carries a fencing token; the switch and the flush check it, so a night that was stopped for a while
and wakes up late changes nothing. Runs are numbered by a counter, never by a clock.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import orjson
import redis
from redis import Redis

from nightly.archive.segments import segment_runs
from nightly.night.progress import Reporter
from nightly.night.target import Target, open_target
from shared.config.ownership import OURS
from shared.config.settings import Settings
from shared.errors import InvalidInput, LeaseLost, NightRunning, RedisUnavailable
from shared.release.manifest import Manifest
from shared.system.faults import crash_point
from shared.system.files import commit_dir, fresh_dir, own_root, remove_halves, remove_tree, write_atomic
from shared.wire import keys
from shared.wire.client import NIGHT, is_wrong_value, open_redis
from shared.wire.values import RUNS, shown

RENEW_SECONDS = 20.0
RESULT = "result.json"
#: In the night's directory: what may be made anew at any time; the mirror's copies of files, while they are compared with ours or mended.
CACHE, FETCHED, REPAIRING = "cache.sqlite", "mirror.tmp", "repair.tmp"
STATE = "state.json"
DONE = "done.json"
#: How far the counter may be ahead of all runs that are known: a night that finds another one running counts, too, and `hmem forget` asks
#: every two seconds.
MOST_AHEAD = 100_000

_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('EXPIRE', KEYS[1], ARGV[2]) end return 0"
_TAKE_OVER = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3]) return 1 end return 0"
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def connect(settings: Settings) -> Redis:
    return open_redis(settings.redis_url, NIGHT)


class Lease:
    """The right to be the night, renewed in the background. `value` names token, host, directory and process."""

    def __init__(self, client: Redis, night_dir: Path) -> None:
        self._redis = client
        self._place = f"{socket.gethostname()} {night_dir.resolve()}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True, name="lease")
        self.token = 0
        self.value = ""

    def take(self) -> None:
        self.token = self._next_token()
        self.value = f"{self.token} {self._place} {os.getpid()}"
        if (
            not self._redis.set(keys.NIGHT_OWNER, self.value, nx=True, ex=keys.NIGHT_LEASE_TTL_SECONDS)
            and not self._take_over()
        ):
            owner = shown(cast(bytes, self._redis.get(keys.NIGHT_OWNER) or b"another host"))
            raise NightRunning(
                f"Another night holds the lease ({owner}). Try again when it has ended; a dead one expires in 90 s. "
                f"One that is there for longer while no night runs is no night's: redis-cli DEL {keys.NIGHT_OWNER}."
            )
        self._thread.start()

    def _next_token(self) -> int:
        """RedisUnavailable if what counts them is no count: nothing was begun, so that nothing keeps the number once it is gone."""
        try:
            token = self._redis.incr(keys.NIGHT_RUN)
        except redis.ResponseError as error:
            if not is_wrong_value(error):
                raise
            token = 0
        if 0 < token < RUNS:
            return token
        raise RedisUnavailable(
            f"{keys.NIGHT_RUN} in Redis is no count of nights: somebody else has written there. Remove it (redis-cli DEL {keys.NIGHT_RUN}) and "
            "run the night again; it counts on from the newest run that archive, releases and nights know."
        )

    def _take_over(self) -> bool:
        """From a night of this very directory: we hold its lock, so its process is dead."""
        owner = cast(bytes | None, self._redis.get(keys.NIGHT_OWNER))
        if owner is None or owner.decode("utf-8", "replace").partition(" ")[2].rpartition(" ")[0] != self._place:
            return False
        return bool(self._redis.eval(_TAKE_OVER, 1, keys.NIGHT_OWNER, owner, self.value, keys.NIGHT_LEASE_TTL_SECONDS))

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            try:
                if not self._redis.eval(_RENEW, 1, keys.NIGHT_OWNER, self.value, keys.NIGHT_LEASE_TTL_SECONDS):
                    return  # lost: the next check says so
            except redis.RedisError:
                continue  # `check` decides

    def check(self) -> None:
        """LeaseLost unless we still are the night."""
        if cast(bytes | None, self._redis.get(keys.NIGHT_OWNER)) != self.value.encode():
            raise LeaseLost(
                "Another night took the lease while this one was stopped. Nothing more was changed; run it again."
            )

    def give_back(self) -> None:
        self._stop.set()
        try:
            self._redis.eval(_RELEASE, 1, keys.NIGHT_OWNER, self.value)
        except redis.RedisError:
            return  # it expires by itself


class Night:
    """One run: its folder, its settings, and what its steps need."""

    def __init__(
        self, settings: Settings, folder: Path, client: Redis, lease: Lease, reporter: Reporter, *, accept: bool = False
    ) -> None:
        self.settings, self.folder, self.redis, self.lease, self.report = settings, folder, client, lease, reporter
        self.accept = accept  # the owner takes a release that finds far less than the current one

    @cached_property
    def target(self) -> Target:
        """Where the release goes."""
        return open_target(self.settings, self.redis)

    @cached_property
    def state(self) -> dict[str, Any]:
        record: dict[str, Any] = orjson.loads((self.folder / STATE).read_bytes())
        return record

    @property
    def run(self) -> int:
        return int(self.folder.name)

    @property
    def parent(self) -> int | None:
        """Run of the release that was current when this night began."""
        parent = self.state["parent"]
        return None if parent is None else int(parent)

    @property
    def rebuild(self) -> bool:
        """Whether the release is to be built even if the one in use holds the whole archive (a backfill)."""
        return bool(self.state.get("rebuild", False))

    @property
    def archive_dir(self) -> Path:
        return self.settings.hmem_night_dir / "archive"

    def output(self, step: str) -> Path:
        """The committed output folder of a step."""
        return self.folder / step

    def result(self, step: str) -> dict[str, Any]:
        record: dict[str, Any] = orjson.loads((self.output(step) / RESULT).read_bytes())
        return record

    def is_done(self, step: str) -> bool:
        return self.output(step).is_dir()

    def begin(self, step: str) -> Path:
        """An empty folder for a step's output."""
        return fresh_dir(self.folder / f"{step}.tmp")

    def commit(self, step: str, result: dict[str, Any]) -> None:
        """The step is done: its folder gets its name."""
        temporary = self.folder / f"{step}.tmp"
        write_atomic(temporary / RESULT, orjson.dumps(result, option=orjson.OPT_INDENT_2))
        crash_point(f"{step}:before-commit")
        commit_dir(temporary, self.output(step))
        crash_point(f"{step}:after-commit")

    def finish(self, summary: dict[str, Any]) -> None:
        """All steps are done: keep their results, drop their bulk (the archive and the release hold it)."""
        write_atomic(self.folder / DONE, orjson.dumps(summary, option=orjson.OPT_INDENT_2))
        drop_bulk(self.folder)


def drop_bulk(folder: Path) -> None:
    """Of a closed night, keep the steps' results and remove the rest: the archive and the release hold it."""
    for path in list(folder.iterdir()):
        if path.suffix == ".tmp":
            remove_tree(path)
        elif path.is_dir():
            for entry in list(path.iterdir()):
                if entry.is_dir():
                    remove_tree(entry)
                elif entry.name != RESULT:
                    entry.unlink()


def tidy(settings: Settings) -> None:
    """Finish what a kill has left half-way: a file or a folder that never got its name, the bulk of closed nights."""
    for name in (FETCHED, REPAIRING):  # copies of the mirror's files, perhaps from before something was erased
        remove_tree(settings.hmem_night_dir / name)
    for directory in (settings.hmem_night_dir / "archive", *nights_dir(settings).glob("[0-9]*")):
        remove_halves(directory)
    for folder in list(nights_dir(settings).iterdir()) if nights_dir(settings).is_dir() else []:
        if folder.suffix == ".tmp":
            remove_tree(folder)
        elif (folder / DONE).exists():
            drop_bulk(folder)


def nights_dir(settings: Settings) -> Path:
    return settings.hmem_night_dir / "nights"


def night_runs(settings: Settings) -> list[int]:
    """Runs that have a folder, ascending."""
    directory = nights_dir(settings)
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit()) if directory.is_dir() else []


def unfinished_run(settings: Settings) -> int | None:
    """The newest night that was begun and not finished."""
    runs = night_runs(settings)
    if not runs or (nights_dir(settings) / str(runs[-1]) / DONE).exists():
        return None
    return runs[-1]


def overtaken(settings: Settings, run: int, current: Manifest | None) -> str | None:
    """Why an unfinished night cannot be finished any more, or None: another release became current after it had begun."""
    folder = nights_dir(settings) / str(run)
    if (folder / "publish").is_dir():
        return None
    now = current.run if current else None
    parent = orjson.loads((folder / STATE).read_bytes())["parent"]
    return None if now in (parent, run) else f"release {now} became current after it had begun"


def abandon(settings: Settings, run: int, why: str) -> None:
    """Close an overtaken night; the next one exports whatever still stands in Redis."""
    write_atomic(
        nights_dir(settings) / str(run) / DONE, orjson.dumps({"run": run, "abandoned": why, "finished_at": time.time()})
    )
    drop_bulk(nights_dir(settings) / str(run))


def new_run(settings: Settings, token: int, current: Manifest | None, newest: int) -> int:
    """A run above every one that this host, the day host (`newest`: also beside the current release) or the counter knows.

    A counter that is far ahead of all of them counts no nights, and is passed over: a run is for ever, and each later one is above it.
    """
    published = current.run if current else 0
    known = [0, *night_runs(settings), *segment_runs(settings.hmem_night_dir / "archive"), published, newest]
    follows = max(known) + 1
    return max(follows, token) if token <= follows + MOST_AHEAD else follows


def create_folder(settings: Settings, run: int, current: Manifest | None, *, rebuild: bool = False) -> Path:
    """A new night's folder, with its state; appears whole or not at all."""
    parent = current.run if current else None
    temporary = fresh_dir(nights_dir(settings) / f"{run}.tmp")
    state = {"run": run, "parent": parent, "started_at": time.time(), "rebuild": rebuild}
    write_atomic(temporary / STATE, orjson.dumps(state, option=orjson.OPT_INDENT_2))
    folder = nights_dir(settings) / str(run)
    commit_dir(temporary, folder)
    return folder


@contextmanager
def night_lock(settings: Settings) -> Iterator[None]:
    """Hold the lock of the night directory, or NightRunning. The kernel frees it, however its holder ends.

    StorageError if it, or one of ours in it, must not be used: every command that changes something there comes through here.
    """
    with (own_root(settings.hmem_night_dir, OURS["hmem_night_dir"]) / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NightRunning(
                f"A night is running on {settings.hmem_night_dir}. Wait for it; hmem-night status shows its steps."
            ) from error
        yield


@contextmanager
def only_night(settings: Settings) -> Iterator[tuple[Redis, Lease]]:
    """Hold the lock of the night directory and the lease in Redis, or NightRunning."""
    with night_lock(settings):
        client = connect(settings)
        lease = Lease(client, settings.hmem_night_dir)
        lease.take()
        try:
            yield client, lease
        finally:
            lease.give_back()
            client.close()


def discard_from(night: Night, steps: list[str]) -> None:
    """Forget the outputs of these steps, so that they run again; not of those whose segment is written and stays."""
    if "archive" in steps and night.run in segment_runs(night.archive_dir):
        raise InvalidInput(
            f"Night {night.run} has archived its turns; that is not done twice. Use --from chunk, or a later step."
        )
    for step in reversed(
        steps
    ):  # the last first, each out of sight before it is removed: a kill leaves no half output behind
        if night.is_done(step):
            remove_tree(night.folder / f"{step}.tmp")
            night.output(step).rename(night.folder / f"{step}.tmp")
            remove_tree(night.folder / f"{step}.tmp")
    (night.folder / DONE).unlink(missing_ok=True)
