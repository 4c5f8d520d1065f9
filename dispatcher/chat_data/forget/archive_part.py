"""The archive's part of a forgetting: `hmem-night forget`, if the archive is on this host. Its release names the tombstones that it applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from redis import Redis

from dispatcher.releases.night_command import NightCommandFailed, archive_is_here, run_night
from shared.config.credentials import redis_url_of
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.release.manifest import current_release, read_manifest, release_dir
from shared.release.retention import PIN, outdated, release_runs
from shared.system.privileges import as_owner_of
from shared.turns.records import Tombstone
from shared.vectors import on_server
from shared.wire import keys
from shared.wire.users import users

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
        return not self.tombstones or (self._released() and not (self.archive_here and self._ask("--look")["left"]))

    def _released(self) -> bool:
        memory = self.settings.hmem_memory_dir
        try:
            release = current_release(memory)
            if release is not None:
                applied = {one.tombstone_id for one in self.tombstones} <= set(read_manifest(release).erasing)
                return applied and not outdated(memory) and not self._on_servers(release)
        except HmemError:
            return False
        return not (self.archive_here or release_runs(memory) or self.client.get(keys.NIGHT_RUN) not in (None, b"0"))

    def _on_servers(self, release: Path) -> bool:
        """Whether a vector server still has an index of a removed release."""
        if self.settings.remote_target:  # its releases are on another host, and the night knows which servers they use
            return False
        memory = self.settings.hmem_memory_dir
        there = [release_dir(memory, run) for run in release_runs(memory)]
        named, servers = on_server.named_in(there), on_server.servers(self.settings, there)
        return any(
            on_server.builder_on(self.settings, server).left_over(named, int(release.name)) for server in servers
        )

    def _ask(self, *more: str) -> dict[str, Any]:
        """The answer of `hmem-night forget`."""
        answer: dict[str, Any] = orjson.loads(run_night(self.settings, "forget", *more))
        return answer

    def carry_out(self, say: Say) -> str | None:
        """Run the night if needed and possible here; returns why the archive's part is not done, or None."""
        try:
            return None if self.done() else self._why_not(say) or self._erase()
        except NightCommandFailed as failed:
            return f"the night ended with exit code {failed.code}: {failed.message}"

    def _why_not(self, say: Say) -> str | None:
        """Why no night can run here now, or None; then the pin is removed."""
        if self.pinned and (self.later or not self.archive_here):
            return "a pinned release contains it; run hmem release rollback --unpin, then a night, then hmem forget --resume"
        if not self.archive_here:
            return NOT_HERE
        if self.later:
            return "the archive's part is left to the next night; afterwards run hmem forget --resume"
        if user := _foreign_user(self.settings):
            return NO_CREDENTIALS.format(user=user)
        if self.pinned:
            from dispatcher.releases.manage import unpin

            with as_owner_of(self.settings.hmem_memory_dir):
                unpin(self.settings.hmem_memory_dir)
            say("The pin was removed, because the pinned release contains the text.")
        return None

    def _erase(self) -> str | None:
        answer = self._ask()
        self.erased, self.erased_files = answer["records"], answer["files"]
        left: str | None = answer["left"]
        if left or self._released():
            return left
        if answer["refused"]:
            return "the night did not accept the owner's signature; hmem-night status shows why"
        return "the night has ended, but a release that contains it is still in use; stop the process that reads it"


def _foreign_user(settings: Settings) -> str | None:
    """The Redis user of a night that is started here, if it is one of our other users than the night's; else None."""
    user = urlsplit(redis_url_of("night", settings.redis_url)).username
    return user if user != "night" and any(user == one.name for one in users()) else None
