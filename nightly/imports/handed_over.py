"""Imports that another host has handed over (shared/wire/handed_over.py): fetched for the export of a night, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from redis.exceptions import OutOfMemoryError

from nightly.imports.import_filter import ImportVerdict
from nightly.night.folder import Night
from shared.system.files import atomic_writer, make_dir
from shared.wire.handed_over import HandedImport, ImportHandOver


def fetch(night: Night, folder: Path) -> list[HandedImport]:
    """Write each that waits into the folder, as a staged file; whether one is whole, its reader finds by its name."""
    taken, handing = list[HandedImport](), ImportHandOver(night.redis)
    for one in handing.waiting():
        try:
            handing.take(one)
        except OutOfMemoryError:
            continue  # the next night, since this one empties Redis
        taken.append(one)
        with atomic_writer(make_dir(folder) / f"{one.sha256}.jsonl") as handle:
            try:
                handle.writelines(handing.content(one))
            except ValueError:
                continue  # what is there of it does not match its name
    return taken


def report_outcomes(night: Night, result: Mapping[str, Any]) -> None:
    """Tell the other host what became of the imports that this night has exported, and delete their content. `result`: of `staging.take`."""
    handed, handing = set(result.get("handed", ())), ImportHandOver(night.redis)
    for one in handing.waiting() if handed else ():
        name = f"{one.sha256}.jsonl"
        counts = result["files"].get(name)
        if name in handed:
            outcome = Counter({str(verdict): (counts or {}).get(verdict, 0) for verdict in ImportVerdict})
            # If Redis is full, the next night, which finds all of it known, reports it.
            with suppress(OutOfMemoryError):
                handing.done(one, outcome=dict(+outcome), damaged=counts is None)
