"""The flush step's part for files of messages: each is deleted from Redis by its name, last of all, and only when it is proven to be safe.

That is: its turn is in a segment that the current release was built from, its bytes in the archive are what its name says, read again, and with
ARCHIVE_MIRROR the same bytes are there, too. Files of no turn are deleted while there is still none; what is refused stays, and is reported.

In the mirror, new files are added and read on both sides, the others in turns, each every seventh night. Like segments
(nightly/archive/mirror.py), they are never overwritten by a night; one that was forgotten here is removed there, or truncated where the key may not
delete.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, cast

from nightly.archive.catalog import Catalog, open_catalog
from nightly.archive.media.bring import ALREADY, ARCHIVED, DONE, FORGOTTEN, ORPHANED, VANISHED, MediaOutcome, outcomes
from nightly.archive.media.places import is_forgotten, is_intact, is_path, is_there, listed
from nightly.archive.mirror import Mirror, proven
from nightly.archive.segments import Segment
from nightly.night.folder import Night, last_result
from nightly.night.lease import fenced
from nightly.night.rsync import names_file
from shared.errors import MirrorFailed
from shared.release.integrity import is_due
from shared.system.faults import crash_point
from shared.wire import keys

_ALL = ("--include=/media/", "--include=/media/*/", "--include=/media/*/*", "--exclude=*")


def sizes(mirror: Mirror) -> dict[str, int]:
    """Path → size of every file there; MirrorFailed if it is not reachable."""
    return {path: size for path, size in mirror.sizes(*_ALL).items() if is_path(path)}


def erase(mirror: Mirror, paths: Collection[str]) -> None:
    """Remove these files there; where the key may not delete, leave them empty."""
    there = sizes(mirror)
    left = [path for path in paths if there.get(path)]
    if not left:
        return
    folders = sorted({path.rpartition("/")[0] for path in left})
    wanted = ["/media/", *(f"/{folder}/" for folder in folders), *(f"/{path}" for path in left)]
    with tempfile.TemporaryDirectory(prefix="hmem-mirror-") as empty, names_file(wanted) as rules:
        for folder in folders:
            (Path(empty) / folder).mkdir(parents=True)
        try:  # everything else is excluded, which also protects it there
            mirror.rsync("--delete", f"--include-from={rules}", "--exclude=*", f"{empty}/", mirror.root)
        except MirrorFailed:
            mirror.truncate(left)


def bring_up_to_date(mirror: Mirror, night: Night, catalog: Catalog, wanted: set[str]) -> set[str]:
    """Remove what was forgotten, add what the mirror lacks, verify the new files, those whose turn it is and the `wanted` ones; those of them that
    it has byte for byte. MirrorDiffers names one that differs."""
    archive_dir, there = night.archive_dir, sizes(mirror)
    erase(mirror, [path for path in there if is_forgotten(catalog, path) and not is_there(archive_dir, path)])
    crash_point("flush:media-erased-there")
    here = list(listed(archive_dir))
    mirror.add(archive_dir, [path for path in here if path not in there])
    crash_point("flush:media-mirrored")
    chosen = [path for path in here if path not in there or path in wanted or is_due(path, night.run)]
    return set(proven(mirror, mirror.compare(archive_dir, chosen)))


def mirror_media(night: Night, mirror: Mirror) -> set[str]:
    """Bring the mirror up to date; the files of tonight that it has. MirrorFailed."""
    wanted = {one.path for one in outcomes(night.output("archive") / DONE) if one.outcome in (ARCHIVED, ALREADY)}
    if last_result(night, "flush").get("mirror_failed"):  # what differed then may still do
        wanted |= {*listed(night.archive_dir)}
    with open_catalog(night) as catalog:
        return bring_up_to_date(mirror, night, catalog, wanted)


def flush_media(night: Night, mirrored: Collection[str] | None) -> dict[str, int]:
    """Counts. `mirrored`: the files that were found in the mirror, None without one."""
    found = list(outcomes(night.output("archive") / DONE))
    counts = Counter(dict.fromkeys(("deleted", "stayed"), 0))
    if found:
        script = night.redis.register_script((Path(__file__).parent / "drop.lua").read_text(encoding="utf-8"))
        with open_catalog(night) as catalog:
            proof = _Proof(night, catalog, mirrored)
            for one in found:
                gone = proof.may_go(one) and _drop(night, script, one)
                counts["deleted" if gone else "stayed"] += 1
                crash_point("flush:media-deleted")
    return dict(counts)


class _Proof:
    """What may be deleted."""

    def __init__(self, night: Night, catalog: Catalog, mirrored: Collection[str] | None) -> None:
        self._archive_dir, self._catalog, self._mirrored = night.archive_dir, catalog, mirrored
        current = night.target.current()
        self._served = current.segments if current else {}
        self._known: dict[str, bool] = {}

    def may_go(self, one: MediaOutcome) -> bool:
        if one.outcome in (ORPHANED, FORGOTTEN, VANISHED):
            return True
        if one.outcome not in (ARCHIVED, ALREADY) or (self._mirrored is not None and one.path not in self._mirrored):
            return False
        place = self._catalog.place_of(one.waiting.turn_id)
        return place is not None and self._is_served(place[0]) and is_intact(self._archive_dir, one.path)

    def _is_served(self, name: str) -> bool:
        """Whether a segment is what the current release was built from, read again."""
        if name not in self._known:
            self._known[name] = Segment(self._archive_dir / name).sha256 == self._served.get(name)
        return self._known[name]


def _drop(night: Night, script: Callable[..., Any], one: MediaOutcome) -> bool:
    waiting = one.waiting
    names = [keys.NIGHT_OWNER, keys.KEPT, waiting.key, keys.turn(waiting.task_id, "user")]
    arguments = [night.lease.value, waiting.field, one.sha1, one.outcome]
    with fenced():
        return bool(cast(int, script(keys=names, args=arguments)))
