"""The flush step's part for files of messages: each is deleted from Redis by its name, last of all, and only when it is proven to be safe.

That is: its turn is in a segment that the current release was built from, its bytes in the archive are what its name says, read again, and with
ARCHIVE_MIRROR the same bytes are there, too. Files of no turn are deleted while there is still none; what is refused stays, and is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, cast

from nightly.archive.catalog import Catalog, open_catalog
from nightly.archive.media.bring import ALREADY, ARCHIVED, DONE, FORGOTTEN, ORPHANED, VANISHED, MediaOutcome, outcomes
from nightly.archive.media.erase import is_forgotten
from nightly.archive.media.index import open_index
from nightly.archive.media.mirroring import bring_up_to_date
from nightly.archive.media.places import is_intact
from nightly.archive.mirror import Mirror
from nightly.archive.segments import Segment
from nightly.night.folder import Night
from nightly.night.lease import fenced
from shared.system.faults import crash_point
from shared.wire import keys


def mirror_media(night: Night, mirror: Mirror) -> set[str]:
    """Bring the mirror up to date; the files of tonight that it has. MirrorFailed."""
    wanted = {one.path for one in outcomes(night.output("archive") / DONE) if one.outcome in (ARCHIVED, ALREADY)}
    with open_catalog(night) as catalog, open_index(night.settings.hmem_night_dir) as index:
        days = night.scrub_days
        return bring_up_to_date(mirror, index, days, wanted, lambda path: is_forgotten(catalog, path))


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
