"""Records why a night stopped: in its folder for `hmem-night status`, in Redis for `hmem status` and the dispatcher's log."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import redis

from nightly.night.folder import Night, read_record
from shared.errors import ArchiveDamaged, HmemError, LeaseLost, MirrorFailed, RestartFailed
from shared.system.command import translate
from shared.system.files import write_atomic
from shared.text.logs import Logger
from shared.wire import keys

log = Logger()

FAILED = "failed.json"


#: Stands for a step: the night was refused before its folder was created.
BEGIN = "begin"
#: The alarms of a night that finished, and the step that each is noted of.
ALARMS: dict[type[HmemError], str] = {MirrorFailed: "flush", ArchiveDamaged: "archive", RestartFailed: "restart"}

RESTORE = "Restore it from a copy; with ARCHIVE_MIRROR set, hmem-night verify --repair does that."


def note(night: Night, step: str, error: Exception) -> None:
    """Best effort: a full disk or an unavailable Redis must not hide the error itself. The record stays when the night is finished later."""
    record = _record(night.run, step, error) | {"free_bytes": free_bytes(night.folder)}
    with contextlib.suppress(OSError):
        write_atomic(night.folder / FAILED, orjson.dumps(record, option=orjson.OPT_INDENT_2))
    if not isinstance(error, LeaseLost):  # the night that took over speaks for itself
        _publish(night.redis, record)


def note_refused(client: redis.Redis, run: int, error: HmemError) -> None:
    """The same for a night that has not begun: it has no folder."""
    _publish(client, _record(run, BEGIN, error))


def _record(run: int, step: str, error: Exception) -> dict[str, Any]:
    ours = translate(error)
    record = {
        "run": run,
        "step": step,
        "error": type(ours or error).__name__,
        "sentence": str(ours) if ours else f"A bug in this program: {error!r}. Please report it with the traceback.",
        "exit_code": ours.exit_code if ours else 1,
        "at": time.time(),
    }
    log.error("night failed", run=run, step=step, error=record["error"], exit_code=record["exit_code"])
    return record


def _publish(client: redis.Redis, record: dict[str, Any]) -> None:
    with contextlib.suppress(redis.RedisError):
        client.set(keys.NIGHT_FAILED, orjson.dumps(record))


def code_of(night: Night) -> int | None:
    """The last exit code of this night, or None."""
    return (read_record(night.folder / FAILED) or {}).get("exit_code")


def note_end(night: Night, summary: Mapping[str, Any]) -> None:
    """Note the alarm of a night that finished; else remove the failure from Redis, since a later night has succeeded."""
    if alarm := alarm_of(summary):
        note(night, ALARMS[type(alarm)], alarm)
        return
    with contextlib.suppress(redis.RedisError):
        night.redis.delete(keys.NIGHT_FAILED)


def alarm_of(summary: Mapping[str, Any]) -> HmemError | None:
    """What went wrong in a night that still finished: memory is published, and the next night does not wait for a repair."""
    if why := summary.get("mirror_failed"):
        return MirrorFailed(
            f"{why} Memory is published; nothing was deleted from Redis, and the next night tries again."
        )
    if damaged := summary["media"].get("damaged"):
        return ArchiveDamaged(
            f"Of the files of messages in the archive, {damaged[0]} is damaged or missing ({len(damaged)} in all). Memory is published; "
            f"hmem-night verify names all of them. {RESTORE}"
        )
    if why := summary.get("restart_failed"):
        return RestartFailed(
            f"RESTART_COMMAND failed: {why}. Memory is published and safe; restart the dispatcher by hand."
        )
    return None


def raise_alarm(summaries: Sequence[Mapping[str, Any]]) -> None:
    """What went wrong in the last of these nights, if there are any."""
    if summaries and (alarm := alarm_of(summaries[-1])):
        raise alarm


def free_bytes(directory: Path) -> int | None:
    """Free on the disk of the night's directory; None where that cannot be told."""
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None


def reason_of(error: Exception) -> str:
    """Why a single record fails, for the night's report: the others are processed. An error that is not the record's fault (disk, memory, server,
    lease, time limit) is re-raised."""
    if translate(error) is not None:
        raise error
    return type(error).__name__
