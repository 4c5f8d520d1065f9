"""Where releases go: the memory directory on this host, or on another host through rsync and ssh. Both are asked the same six verbs.

On another host one key does both: its forced command lets rsync write into `incoming/`, and accepts begin, lacking, verify, switch, rollback and
prune (shared/delivery/receiver.py). It can do nothing else there.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from nightly.night.rsync import TIMED_OUT, RsyncFailed, names_file, rsync
from shared import errors
from shared.config.settings import Settings
from shared.delivery.receiver import Receiver, handle
from shared.errors import HmemError, PublishFailed, ReleaseRefused, SettingsError
from shared.release.manifest import MANIFEST, Manifest, OlderFormat, parse_manifest
from shared.system.files import sha256_file
from shared.system.processes import last_line, run_bounded

#: Seconds for the transfer, and for one verb.
TRANSFER_TIMEOUT_SECONDS = 3600
VERB_TIMEOUT_SECONDS = 600
#: Seconds without a byte after which a transfer over the network is aborted.
SILENCE_SECONDS = 120
#: rsync's exit codes for a broken connection: worth an immediate retry.
_CONNECTION_CODES = frozenset({10, 12, TIMED_OUT, 35, 255})
#: Sends one verb with its words; its answer.
Ask = Callable[[str], dict[str, Any]]
#: In what rsync's `--stats` prints.
_MOVED = re.compile(r"^Total bytes (?:sent|received): ([\d.,]+)$", re.MULTILINE)


class ConnectionBroken(PublishFailed):
    """The network failed, not the release."""


@dataclass(frozen=True)
class Brought:
    """The recall gate's record (shared/delivery/trial.py), and the bytes sent and received over the network; None on this host."""

    gate: dict[str, Any]
    moved: int | None = None


class Target:
    """The verbs of the day host (shared/delivery/receiver.py)."""

    def __init__(self, ask: Ask, incoming: str, rsh: str | None = None) -> None:
        """`ask`: sends a request and returns the answer. `incoming`: where releases are sent to, as rsync names it; over a network through `rsh`."""
        self._ask, self._incoming, self._rsh = ask, incoming, rsh

    def current(self) -> Manifest | None:
        """Manifest of the current release; None before the first, and if it has an older format."""
        return self.standing()[0]

    def standing(self) -> tuple[Manifest | None, int]:
        """Manifest of the current release, and the highest run that has a directory there, current or not (0 for none)."""
        answer = self._ask("begin")
        return _manifest_of(answer["current"]), int(answer["newest"])

    def check(self, run: int) -> None:
        """ReleaseRefused if the release there is no longer intact."""
        self._ask(f"verify {run} 0")

    @retry(
        retry=retry_if_exception_type(ConnectionBroken),
        stop=stop_after_attempt(3),
        wait=wait_exponential(2, max=30),
        reraise=True,
    )
    def bring(self, stage: Path, run: int, *, accept: bool) -> Brought:
        """Bring the release to its place on the day host, verified and tested; it is not in use yet."""
        sealed = sha256_file(stage / MANIFEST)  # what somebody else has written there meanwhile is not accepted
        attempt = self._ask(f"begin {run}")["attempt"]
        place = f"{self._incoming}{run}.{attempt}/"
        moved = transfer(stage, [MANIFEST], place, self._rsh)
        lacking = self._ask(f"lacking {run} {attempt} {sealed}")["lacking"]
        moved += transfer(stage, lacking, place, self._rsh)
        gate = self._ask(f"verify {run} {attempt} {sealed}" + (" accept" if accept else ""))
        return Brought(gate, moved if self._rsh else None)

    def switch(self, run: int, token: int) -> int | None:
        """None, or the run that the owner has pinned: then nothing is switched."""
        pinned: int | None = self._ask(f"switch {run} {token}")["pinned"]
        return pinned

    def rollback(self, run: int) -> None:
        self._ask(f"rollback {run}")

    def prune(self) -> list[int]:
        """Remove releases that may contain what the current one has forgotten permanently; returns the runs that are still being read."""
        held: list[int] = self._ask("prune")["held"]
        return held

    def served(self) -> list[str]:
        """The names of all server indexes that a release there uses; ReleaseRefused if they cannot be determined."""
        served: list[str] | None = self._ask("begin")["served"]
        if served is None:
            raise ReleaseRefused(
                "The day host cannot determine which indexes its releases use: a release there is damaged. Check hmem release list there."
            )
        return served


def over_ssh(command: Sequence[str]) -> Ask:
    """Sends requests by this command; an error there becomes the same error here, with the same exit code."""

    def ask(request: str) -> dict[str, Any]:
        try:
            done = run_bounded([*command, request], VERB_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ConnectionBroken(
                f"The day host did not answer {request!r} within {VERB_TIMEOUT_SECONDS} s. Check that it is running."
            ) from error
        except FileNotFoundError as error:
            raise SettingsError(
                f"RELEASE_COMMAND: {command[0]} is not installed. Install it, or correct RELEASE_COMMAND."
            ) from error
        if done.returncode == 255:
            raise ConnectionBroken(
                f"ssh to the day host failed: {last_line(done)}. Check that it is running and that RELEASE_COMMAND names the right key."
            )
        if done.returncode != 0:
            raise _error_of(done.returncode)(f"The day host refused {request!r}: {last_line(done)}")
        return _parsed(done.stdout, request)

    return ask


def _parsed(answer: str, request: str) -> dict[str, Any]:
    with suppress(orjson.JSONDecodeError):
        if isinstance(record := orjson.loads(answer), dict):
            return record
    raise PublishFailed(
        f"The day host gave an unexpected answer to {request!r}. Check that the key's forced command runs deploy/hmem-receive."
    )


def _manifest_of(record: dict[str, Any] | None) -> Manifest | None:
    """None also for an older format, as on the day host itself (shared/release/manifest.py)."""
    try:
        return parse_manifest(orjson.dumps(record), "of the current release on the day host") if record else None
    except OlderFormat:
        return None


def _incoming(place: str) -> str:
    """The receiving directory as rsync names it; rrsync is already rooted there."""
    host, _, path = place.partition(":")
    return f"{host}:{path.rstrip('/')}/incoming/" if path.strip("/") else f"{host}:"


def _error_of(code: int) -> type[HmemError]:
    name = errors.exit_codes().get(code)
    return getattr(errors, name) if name else PublishFailed


def transfer(source: Path, names: Sequence[str], destination: str, rsh: str | None = None) -> int:
    """Copy these files of a release with rsync. Returns the bytes sent and received, together."""
    if not names:
        return 0
    try:
        with names_file(names) as chosen:  # rsync refuses names outside
            what = ("--perms", "--stats", f"--files-from={chosen}", f"{source}/", destination)
            said = rsync(*what, rsh=rsh, seconds=TRANSFER_TIMEOUT_SECONDS, silence=SILENCE_SECONDS)
    except RsyncFailed as error:
        kind = ConnectionBroken if error.code in _CONNECTION_CODES else PublishFailed
        hint = " With rrsync, PUBLISH_TARGET ends with the colon." if rsh and error.code == 11 else ""
        raise kind(f"{error}. Fix that and run the night again.{hint}") from error
    return sum(int(re.sub(r"\D", "", count)) for count in _MOVED.findall(said))


def open_target(settings: Settings) -> Target:
    """Where PUBLISH_TARGET says."""
    if settings.remote_target:
        return ssh_target(settings, settings.remote_target)
    receiver = Receiver(settings, settings.target_dir)
    return Target(lambda request: handle(receiver, request), f"{settings.target_dir}/incoming/")


def ssh_target(settings: Settings, place: str) -> Target:
    """`[user@]host:path`: HMEM_MEMORY_DIR on that host, or nothing after the colon, because rrsync is rooted in incoming/."""
    if not settings.release_command:
        raise SettingsError(
            "PUBLISH_TARGET is on another host, so RELEASE_COMMAND must be set (ssh with the night's key)."
        )
    return Target(over_ssh(shlex.split(settings.release_command)), _incoming(place), settings.publish_ssh)
