"""The archive's part of a forgetting: a night, run here if the archive is on this host. Its release names the tombstones that it applied."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from redis import Redis

from dispatcher.releases.manage import unpin
from dispatcher.releases.night_command import NightCommandFailed, archive_is_here, finished_nights, run_night
from shared.config.credentials import redis_url_of
from shared.config.settings import Settings
from shared.errors import HmemError, NightRunning, ReleaseRefused, RestartFailed
from shared.release.manifest import current_release, read_manifest, release_dir
from shared.release.retention import PIN, outdated, prune_outdated, release_runs
from shared.system.files import locked_dir
from shared.system.privileges import as_owner_of
from shared.turns.records import Tombstone
from shared.vectors import aliases
from shared.wire import keys
from shared.wire.users import NIGHT, users
from shared.wire.values import run_of

#: How long to wait for another night, the time between two tries, and between two messages about it. Seconds.
OTHER_NIGHT_SECONDS, TRY_SECONDS, SAY_SECONDS = 3_600.0, 2.0, 60.0
#: How long running dispatchers may take to leave the old release. Seconds.
LEAVE_SECONDS = 30.0

NOT_HERE = (
    "the archive is on another host, or belongs to another user, as whom only root can start a night; the next night erases it there if it "
    "knows the owner's key (hmem owner-key); then run hmem forget --resume"
)

NO_CREDENTIALS = (
    "a night started here would be the Redis user {user}, which lacks the rights of a night: night.toml cannot be read (next to the file that "
    "HMEM_CREDENTIALS names, or in /etc/hmem/secrets), or REDIS_URL is set in the environment; the next night erases it from the archive; "
    "then run hmem forget --resume"
)

Say = Callable[[str], None]


@dataclass
class NightPart:
    """`later`: the owner leaves it to the next night."""

    settings: Settings
    client: Redis
    tombstones: Sequence[Tombstone]
    later: bool = False
    erased: int = 0  # records that the nights run here have erased
    erased_files: int = 0  # files of messages that they have removed

    @property
    def archive_here(self) -> bool:
        return archive_is_here(self.settings)

    @property
    def pinned(self) -> bool:
        return (self.settings.hmem_memory_dir / PIN).exists()

    def done(self) -> bool:
        """Whether the release in use was built without it and is the only one left, or no night has ever archived anything."""
        if not self.tombstones:
            return True
        try:
            release = current_release(self.settings.hmem_memory_dir)
            if release is not None:
                applied = {one.tombstone_id for one in self.tombstones} <= set(read_manifest(release).erasing)
                return applied and not outdated(self.settings.hmem_memory_dir) and not self._lags(release)
        except ReleaseRefused:
            return False
        return not (
            self.archive_here or release_runs(self.settings.hmem_memory_dir) or self.client.exists(keys.NIGHT_RUN)
        )

    def _lags(self, release: Path) -> bool:
        """Whether the archive's mirror, or a vector server, may still have what the last night removed everywhere else."""
        if self.archive_here and (self.settings.archive_mirror or self._uses_servers()):
            nights = finished_nights(self.settings)
            if not nights or nights[-1].get("mirror_failed") or nights[-1].get("not_swept"):
                return True
        if self.settings.remote_target:  # its releases are on another host, and the night knows which servers they use
            return False
        try:
            there = self._releases()
            named, servers = aliases.named_in(there), aliases.servers(self.settings, there)
            return any(aliases.left_over(self.settings, server, named, int(release.name)) for server in servers)
        except HmemError:
            return True

    def _uses_servers(self) -> bool:
        with as_owner_of(self.settings.hmem_night_dir):
            return (self.settings.hmem_night_dir / aliases.SERVERS_FILE).exists()

    def _sweep(self) -> str | None:
        """Remove from servers what the night could not remove because older releases were in use; why that failed, or None."""
        try:
            release = current_release(self.settings.hmem_memory_dir)
            if release is None or self.settings.remote_target:
                return None
            there = self._releases()
            for server in aliases.servers(self.settings, there):
                aliases.sweep(self.settings, server, aliases.named_in(there), int(release.name))
        except HmemError as error:
            return str(error)
        return None

    def _releases(self) -> list[Path]:
        directory = self.settings.hmem_memory_dir
        return [release_dir(directory, run) for run in release_runs(directory)]

    def carry_out(self, say: Say) -> str | None:
        """Run the night if needed and possible here; returns why the archive's part is not done, or None."""
        if self.done():
            return None
        if self.pinned and (self.later or not self.archive_here):
            return "a pinned release contains it; run hmem release rollback --unpin, then a night, then hmem forget --resume"
        if not self.archive_here:
            return NOT_HERE
        if self.later:
            return "the archive's part is left to the next night; afterwards run hmem forget --resume"
        if user := _foreign_user(self.settings):
            return NO_CREDENTIALS.format(user=user)
        if self.pinned:
            with as_owner_of(self.settings.hmem_memory_dir):
                unpin(self.settings.hmem_memory_dir)
            say("The pin was removed, because the pinned release contains the text.")
        begun = time.time()
        failure = self._run(say)
        nights = [night for night in finished_nights(self.settings) if night["finished_at"] >= begun]
        self.erased = sum(night.get("erased", 0) for night in nights)
        self.erased_files = sum(night.get("media", {}).get("erased", 0) for night in nights)
        if failure is None:
            self._wait_for_readers()
            failure = self._sweep()
        if failure is None and self._refused():
            failure = "the night did not accept the owner's signature; hmem-night status shows why"
        if failure is None and not self.done():
            failure = (
                "the night has ended, but a release that contains it is still in use; stop the process that reads it"
            )
        return failure

    def _refused(self) -> bool:
        """Whether the last night refused to erase what this forgetting has signed."""
        nights = finished_nights(self.settings)
        known = ("refused_tombstones", "only_hiding_tombstones")
        return not self.done() and bool(nights) and any(nights[-1].get(name) for name in known)

    def _run(self, say: Say) -> str | None:
        """Run one night, after any that is already running; why it failed, or None."""
        deadline, reported = time.monotonic() + OTHER_NIGHT_SECONDS, 0.0
        while True:
            try:
                run_night(self.settings)
            except NightCommandFailed as failed:
                if failed.code == RestartFailed.exit_code:
                    return None
                if failed.code != NightRunning.exit_code or time.monotonic() > deadline:
                    return f"the night ended with exit code {failed.code}: {failed.message}"
            else:
                return None
            if time.monotonic() - reported > SAY_SECONDS:
                say("Another night is running; waiting for it to end.")
                reported = time.monotonic()
            time.sleep(TRY_SECONDS)

    def _wait_for_readers(self) -> None:
        """Running dispatchers use the old release until they have opened the new one."""
        release, client = current_release(self.settings.hmem_memory_dir), _bytes(self.client)
        newest = read_manifest(release).run if release else 0
        deadline = time.monotonic() + LEAVE_SECONDS
        while time.monotonic() < deadline:
            served = client.hgetall(keys.RELEASE)
            alive = [name for name in served if client.exists(keys.lease(name.decode("utf-8", "replace")))]
            if all(run_of(served[name]) in (0, newest) for name in alive) and not self._still_in_use():
                return
            time.sleep(0.2)

    def _still_in_use(self) -> list[int]:
        """Older releases that cannot be removed because a process reads them. On a read-only mount only the night can remove them."""
        try:
            with as_owner_of(self.settings.hmem_memory_dir), locked_dir(self.settings.hmem_memory_dir):
                return prune_outdated(self.settings.hmem_memory_dir)[1]
        except OSError:
            return []


def _foreign_user(settings: Settings) -> str | None:
    """The Redis user of a night that is started here, if it is one of our other users than the night's; else None."""
    user = urlsplit(redis_url_of("night", settings.redis_url)).username
    return user if user != NIGHT.name and any(user == one.name for one in users()) else None


def _bytes(client: Redis) -> Any:
    return client
