"""Where releases go: the memory directory on this host, or on another host through rsync and ssh. Both support the same six verbs.

On another host one key does both: its forced command lets rsync write into `incoming/`, and accepts begin, lacking, verify, switch, rollback and
prune (shared/delivery/receiver.py). It can do nothing else there.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from redis import Redis
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from shared import errors
from shared.config.settings import Settings
from shared.delivery.receiver import Receiver
from shared.errors import HmemError, PublishFailed, ReleaseRefused, SettingsError
from shared.release.manifest import FORMAT_VERSION, MANIFEST, Manifest, OlderFormat, parse_manifest
from shared.system.files import sha256_file
from shared.system.processes import last_line, run_bounded

#: Seconds for the transfer, and for one verb.
TRANSFER_TIMEOUT_SECONDS = 3600
VERB_TIMEOUT_SECONDS = 600
#: Seconds without a byte after which a transfer over the network is aborted.
SILENCE_SECONDS = 120
#: rsync's exit codes for a broken connection: worth an immediate retry.
_CONNECTION_CODES = frozenset({10, 12, 30, 35, 255})
#: In what rsync's `--stats` prints.
_MOVED = re.compile(r"^Total bytes (?:sent|received): ([\d.,]+)$", re.MULTILINE)


class ConnectionBroken(PublishFailed):
    """The network failed, not the release."""

    exit_code = PublishFailed.exit_code


@dataclass(frozen=True)
class Brought:
    """The recall gate's record (shared/delivery/gate.py), and the bytes sent and received over the network; None on this host."""

    gate: dict[str, Any]
    moved: int | None = None


class LocalTarget:
    """A directory on this host, or mounted here."""

    def __init__(self, settings: Settings, memory_dir: Path, client: Redis) -> None:
        self._receiver, self._dir, self._redis = Receiver(settings, memory_dir), memory_dir, client

    def current(self) -> Manifest | None:
        """Manifest of the current release; None before the first, and if it has an older format."""
        return self._receiver.current()

    def standing(self) -> tuple[Manifest | None, int]:
        """Manifest of the current release, and the highest run that has a directory there, current or not (0 for none)."""
        return self._receiver.current(), self._receiver.newest()

    def check(self, run: int) -> None:
        """ReleaseRefused if the release there is no longer intact."""
        self._receiver.verify(run, 0)

    def bring(self, stage: Path, run: int, *, accept: bool) -> Brought:
        """Bring the release to its place on the day host, verified and tested; it is not in use yet."""
        attempt, sealed = self._receiver.begin(run), sha256_file(stage / MANIFEST)
        place = f"{self._dir}/incoming/{run}.{attempt}/"
        transfer(stage, [MANIFEST], place)
        transfer(stage, self._receiver.lacking(run, attempt, sealed), place)
        return Brought(self._receiver.verify(run, attempt, sealed=sealed, accept=accept))

    def switch(self, run: int, token: int) -> tuple[int | None, str | None]:
        """(None, or the run that the owner has pinned: then nothing is switched; why an alias of a server index was not updated, or None)."""
        return self._receiver.switch(run, token, self._redis)

    def rollback(self, run: int) -> None:
        self._receiver.rollback(run)

    def prune(self) -> list[int]:
        """Remove releases that may contain what the current one has forgotten permanently; returns the runs that are still being read."""
        return self._receiver.prune()

    def served(self) -> list[str]:
        """The names of all server indexes that a release there uses; ReleaseRefused if they cannot be determined."""
        return self._receiver.served()


class SshTarget:
    """`[user@]host:path`: HMEM_MEMORY_DIR on that host, or nothing after the colon, because rrsync is rooted in incoming/. As `LocalTarget`."""

    def __init__(self, settings: Settings, place: str) -> None:
        if not settings.release_command:
            raise SettingsError(
                "PUBLISH_TARGET is on another host, so RELEASE_COMMAND must be set (ssh with the night's key)."
            )
        self._incoming = _incoming(place)
        self._command, self._rsh = shlex.split(settings.release_command), settings.publish_ssh

    def current(self) -> Manifest | None:
        return self.standing()[0]

    def standing(self) -> tuple[Manifest | None, int]:
        answer = self._ask("begin", fields=("current", "newest", "release_format", "program"))
        _refuse_older(answer)
        return _manifest_of(answer["current"]), int(answer["newest"])

    def check(self, run: int) -> None:
        self._ask("verify", run, 0)

    @retry(
        retry=retry_if_exception_type(ConnectionBroken),
        stop=stop_after_attempt(3),
        wait=wait_exponential(2, max=30),
        reraise=True,
    )
    def bring(self, stage: Path, run: int, *, accept: bool) -> Brought:
        sealed = sha256_file(stage / MANIFEST)  # what somebody else has written there meanwhile is not accepted
        attempt = self._ask("begin", run, fields=("attempt",))["attempt"]
        place = f"{self._incoming}{run}.{attempt}/"
        moved = transfer(stage, [MANIFEST], place, self._rsh)
        lacking = self._ask("lacking", run, attempt, sealed, fields=("lacking",))["lacking"]
        moved += transfer(stage, lacking, place, self._rsh)
        return Brought(self._ask("verify", run, attempt, sealed, *(["accept"] if accept else [])), moved)

    def switch(self, run: int, token: int) -> tuple[int | None, str | None]:
        answer = self._ask("switch", run, token, fields=("pinned", "alias"))
        return answer["pinned"], answer["alias"]

    def rollback(self, run: int) -> None:
        self._ask("rollback", run)

    def prune(self) -> list[int]:
        in_use: list[int] = self._ask("prune", fields=("held",))["held"]
        return in_use

    def served(self) -> list[str]:
        answer = self._ask("begin", fields=("served",))
        if answer["served"] is None:
            raise ReleaseRefused(
                "The day host cannot determine which indexes its releases use: a release there is damaged. Check hmem release list there."
            )
        served: list[str] = answer["served"]
        return served

    def _ask(self, verb: str, *words: int | str, fields: tuple[str, ...] = ()) -> dict[str, Any]:
        """Send one verb over ssh; an error there becomes the same error here, with the same exit code.

        PublishFailed if the answer lacks one of `fields`: that host has an older version of this program.
        """
        try:
            done = run_bounded([*self._command, " ".join([verb, *map(str, words)])], VERB_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ConnectionBroken(
                f"The day host did not answer {verb!r} within {VERB_TIMEOUT_SECONDS} s. Check that it is running."
            ) from error
        except FileNotFoundError as error:
            raise SettingsError(
                f"RELEASE_COMMAND: {self._command[0]} is not installed. Install it, or correct RELEASE_COMMAND."
            ) from error
        if done.returncode == 255:
            raise ConnectionBroken(
                f"ssh to the day host failed: {last_line(done)}. Check that it is running and that RELEASE_COMMAND names the right key."
            )
        if done.returncode != 0:
            raise _error_of(done.returncode)(f"The day host refused {verb!r}: {last_line(done)}")
        return _parsed(done.stdout, verb, fields)


Target = LocalTarget | SshTarget


def _parsed(answer: str, verb: str, fields: tuple[str, ...]) -> dict[str, Any]:
    try:
        record = orjson.loads(answer)
    except orjson.JSONDecodeError:
        record = None
    if not isinstance(record, dict):
        raise PublishFailed(
            f"The day host gave an unexpected answer to {verb!r}. Check that the key's forced command runs deploy/hmem-receive."
        )
    if missing := [name for name in fields if name not in record]:
        raise PublishFailed(
            f"The day host's answer to {verb!r} has no {missing[0]!r}: it runs an older version. Update hcli-memory on the day host."
        )
    return record


def _refuse_older(answer: dict[str, Any]) -> None:
    """PublishFailed if the day host could not read what this night would send."""
    reads = answer["release_format"]
    if reads < FORMAT_VERSION:
        raise PublishFailed(
            f"The day host runs hcli-memory {answer['program']}, which reads releases up to format {reads}, but this night would send format "
            f"{FORMAT_VERSION}. Upgrade the day host first, then run the night again."
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
    shell = ["--rsh", rsh, f"--timeout={SILENCE_SECONDS}"] if rsh else []
    try:
        with tempfile.NamedTemporaryFile(prefix="hmem-send-") as wanted:
            wanted.write(b"\0".join(os.fsencode(name) for name in names))
            wanted.flush()
            what = [
                "--perms",
                "--stats",
                "--from0",
                f"--files-from={wanted.name}",
                *shell,
            ]  # rsync refuses names outside
            done = run_bounded(["rsync", *what, f"{source}/", destination], TRANSFER_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ConnectionBroken(
            f"rsync did not end within {TRANSFER_TIMEOUT_SECONDS} s. Check disk and network."
        ) from error
    except FileNotFoundError as error:
        raise PublishFailed("rsync is not installed. Install it (scripts/setup does).") from error
    if done.returncode != 0:
        kind = ConnectionBroken if done.returncode in _CONNECTION_CODES else PublishFailed
        hint = " With rrsync, PUBLISH_TARGET ends with the colon." if rsh and done.returncode == 11 else ""
        raise kind(
            f"rsync ended with code {done.returncode}: {_complaint(done)}. Fix that and run the night again.{hint}"
        )
    return sum(int(re.sub(r"\D", "", count)) for count in _MOVED.findall(done.stdout))


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The first error that rsync reports; its last line is only a summary."""
    reported = [line for line in done.stderr.splitlines() if line.startswith(("rsync: ", "ERROR: "))]
    return reported[0] if reported else last_line(done)


def open_target(settings: Settings, client: Redis) -> Target:
    if settings.remote_target:
        return SshTarget(settings, settings.remote_target)
    return LocalTarget(settings, settings.target_dir, client)
