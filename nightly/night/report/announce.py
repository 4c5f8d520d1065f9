"""At the end of each night: its numbers and a picture go to Redis for the morning report. Both are extras, so nothing here fails a night.

After a kill between `done.json` and this, the next night writes what this one did not: the report is made from the nights on the disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import redis
import structlog

from nightly.night.report.record import MOST, read_report, report_of, with_refused
from shared.config.packages import missing_package
from shared.config.settings import Settings
from shared.system.processes import last_line, module_command, run_bounded
from shared.wire import keys

log = structlog.get_logger()

PICTURE_MODULE = "nightly.night.report.picture"
#: In the folder of a drawing: what is drawn, and the picture.
NIGHTS, PICTURE = "nights.json", "nights.png"
#: Time limit of the drawing. The first one on a host also lists its fonts, which takes some seconds.
DRAWING_SECONDS = 120.0
#: A larger picture is not sent.
PICTURE_BYTES = 100_000


def announce(
    settings: Settings, client: redis.Redis, steps: Sequence[str], refused: Mapping[str, Any] | None = None
) -> None:
    """Write report and picture of the last nights; `refused`: the failure of a night that has no folder. A failure is one line in the log."""
    what = "report"
    try:
        nights = read_report(settings, steps)
        if refused:
            nights = with_refused(nights, refused)[-MOST:]
        client.set(keys.NIGHT_REPORT, report_of(nights), ex=keys.NIGHT_REPORT_TTL_SECONDS)
        what = "picture"
        _send(client, drawn(nights, settings.chat_timezone) if can_draw() else None)
    except Exception as error:  # noqa: BLE001 - whatever it is, the night itself is over
        log.warning(f"the {what} of the nights was not written", why=f"{type(error).__name__}: {error}")
        if what == "picture":
            _remove_outdated(client)


def can_draw() -> bool:
    """Whether the part `plot` is installed; nothing is imported to find out."""
    return missing_package("plot") is None


def _send(client: redis.Redis, picture: bytes | None) -> None:
    if picture is None:
        client.delete(keys.NIGHT_PICTURE)
    else:
        client.set(keys.NIGHT_PICTURE, picture, ex=keys.NIGHT_REPORT_TTL_SECONDS)


def _remove_outdated(client: redis.Redis) -> None:
    """The picture of another night would be shown beside this one's numbers."""
    try:
        client.delete(keys.NIGHT_PICTURE)
    except redis.RedisError:
        return


def drawn(nights: Sequence[Mapping[str, Any]], zone: str) -> bytes:
    """The picture as PNG, drawn in a process of its own: memory and time that a drawing library takes are not the night's.

    ChildProcessError, subprocess.TimeoutExpired or OSError if there is none.
    """
    with tempfile.TemporaryDirectory(prefix="hmem-picture-") as name:
        folder = Path(name)
        (folder / NIGHTS).write_bytes(orjson.dumps(list(nights)))
        command = module_command(PICTURE_MODULE, str(folder / NIGHTS), str(folder / PICTURE), zone)
        done = run_bounded(command, DRAWING_SECONDS)
        if done.returncode != 0:
            raise ChildProcessError(f"drawing failed: {last_line(done)}")
        picture = (folder / PICTURE).read_bytes()
    if len(picture) > PICTURE_BYTES:
        raise ChildProcessError(f"the picture has {len(picture)} bytes, more than {PICTURE_BYTES}")
    return picture
