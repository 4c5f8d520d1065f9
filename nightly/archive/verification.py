"""`hmem-night verify`: read the archive again, and compare it with what earlier nights recorded, and with the mirror. `--repair` repairs.

A segment is intact if it matches the hash in its last line, a file of a message if it is what its name says. A segment is missing or changed if an
earlier night recorded it, or recorded it with another hash. A turn that says it has a file which is nowhere lacks it, unless a night has reported
that it never had it; a file of no turn is one too many, and that of a forgotten turn (an old copy brought it back) is removed by --repair.

Repair uses only intact copies: the intact one, here or in the mirror, takes the place of the other. Two intact segments that differ are two
histories: then nothing is touched, and the owner must decide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nightly.archive.catalog import Catalog, recomputed
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.media.flushing import erase, sizes
from nightly.archive.media.places import has_turn, is_forgotten, is_intact, is_there, kept_paths, listed
from nightly.archive.mirror import NAMED, Mirror, few_names, open_mirror, proven, refuse_more
from nightly.archive.segments import Segment, erased_since
from nightly.night.failure import RESTORE
from nightly.night.folder import REPAIRING, night_runs, step_result
from nightly.night.lease import night_lock
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.errors import ArchiveDamaged, SettingsError
from shared.system.archive_folder import archive_files
from shared.system.files import copy_atomic, fresh_dir, make_dir, remove_tree


@dataclass
class SoundFiles:
    """Files of a directory: the intact ones, and why each of the others is not as it should be."""

    intact: dict[str, Segment] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)


@dataclass
class MediaFindings:
    """Paths of files of messages. `wrong`: why it is not there as it should be; `lost`: the same, and a night has reported it; `extra`: intact, of no
    turn."""

    intact: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)


def verify(settings: Settings, report: Reporter) -> dict[str, Any]:
    """Counts of an intact archive (and mirror); ArchiveDamaged or MirrorFailed names the files that are not intact."""
    return _Archive(settings, report).verify()


def repair(settings: Settings, report: Reporter) -> dict[str, Any]:
    """Repair archive and mirror from each other, reporting each change, then verify both; the counts, and what was done."""
    archive = _Archive(settings, report)
    if archive.mirror is None:
        raise SettingsError(
            "There is nothing to repair from: ARCHIVE_MIRROR is not set. Set it, or restore the segments that hmem-night verify names."
        )
    with night_lock(settings):  # needs no Redis: the archive may be all that is left
        fetched = settings.hmem_night_dir / REPAIRING
        try:
            done = archive.repair_segments(archive.mirror, fresh_dir(fetched))
            with recomputed(settings, report) as made:
                done |= archive.repair_media(archive.mirror, made, fresh_dir(fetched))
        finally:
            remove_tree(fetched)
    return archive.verify() | {"repaired": [f"{path}: {what}" for path, what in done.items()]}


class _Archive:
    """The archive of this host."""

    def __init__(self, settings: Settings, report: Reporter) -> None:
        self._settings, self._report, self.mirror = settings, report, open_mirror(settings)
        self._directory = settings.hmem_night_dir / "archive"

    def verify(self) -> dict[str, Any]:
        segments = self._segments(self._seen_before())
        _refuse(segments.wrong)
        with recomputed(self._settings, self._report) as made:
            counts = {"segments": len(segments.intact), **made.counts}
            if self.mirror:
                counts["mirrored"] = _verify_mirror(self.mirror, self._directory, segments.intact, self.mirror.names())
            media = self._media(made)
        extra = dict.fromkeys(
            media.extra,
            "of no turn in the archive, so it was forgotten, or never belonged there. hmem-night verify --repair removes what was forgotten; "
            "remove others by hand.",
        )
        _refuse({path: f"File of a message {path} is {why}" for path, why in (media.wrong | extra).items()})
        counts |= {"media": len(media.intact)} | ({"media_lost": len(media.lost)} if media.lost else {})
        if self.mirror:
            counts["media_mirrored"] = _verify_mirror(
                self.mirror, self._directory, media.intact, _media_there(self.mirror)
            )
        return counts

    def repair_segments(self, mirror: Mirror, fetched: Path) -> dict[str, str]:
        """Path → what was done; ArchiveDamaged, once everything else is repaired, if a file has no intact copy left. `fetched`: an empty folder."""
        known, there = self._seen_before(), mirror.names()
        ours = self._segments(known)
        compared = mirror.compare(self._directory, list(ours.intact))
        wanted = {*ours.wrong, *there} - ours.intact.keys()
        mirror.fetch(sorted((wanted | {*compared.different}) & there), fetched)
        theirs = self._read_all(fetched)
        for name in theirs.wrong:
            self._report.say(f"  {name} in the mirror is damaged")
        both = [name for name in compared.different if name in theirs.intact]
        erased_here = [name for name in both if erased_since(fetched / name, self._directory / name)]
        erased_there = [name for name in both if erased_since(self._directory / name, fetched / name)]
        if differ := {*both} - {*erased_here, *erased_there}:
            raise ArchiveDamaged(
                f"{few_names(differ)}: the copy here and the copy in the mirror are both intact, and differ: two histories. Nothing was changed; "
                "decide which one is yours, and move the other away by hand."
            )
        taken = [name for name, one in theirs.intact.items() if name in wanted and _is_known(one, known)]
        damaged = [name for name in compared.different if name not in both]
        sent = [name for name in (*compared.missing, *damaged) if name not in ours.wrong]
        done = self._exchange(mirror, [*taken, *erased_there], [*sent, *erased_here], fetched)
        if lost := wanted - done.keys():
            raise ArchiveDamaged(
                f"{few_names(lost)}: no intact copy, neither here nor in the mirror. Restore it from another copy; everything else is repaired."
            )
        return done

    def repair_media(self, mirror: Mirror, catalog: Catalog, fetched: Path) -> dict[str, str]:
        """The same of files of messages; what was forgotten is removed on both sides."""
        found, there = self._media(catalog), _media_there(mirror)
        forgotten = [path for path in found.extra if is_forgotten(catalog, path)]
        for path in forgotten:
            (self._directory / path).unlink()
        wanted = [path for path in (*found.wrong, *found.lost) if path in there]
        mirror.fetch(wanted, fetched)
        taken = [path for path in wanted if is_intact(fetched, path)]
        compared = mirror.compare(self._directory, found.intact)
        done = self._exchange(mirror, taken, [*compared.missing, *compared.different], fetched)
        gone = [path for path in there if is_forgotten(catalog, path) and not is_there(self._directory, path)]
        erase(mirror, gone)
        return done | dict.fromkeys([*forgotten, *gone], "removed: its turn was forgotten")

    def _exchange(self, mirror: Mirror, taken: list[str], sent: list[str], fetched: Path) -> dict[str, str]:
        """Put the intact copies in the places of the others; path → what was done."""
        for path in taken:
            make_dir((self._directory / path).parent)
            copy_atomic(fetched / path, self._directory / path)
        mirror.supersede(self._directory, sent)
        done = dict.fromkeys(taken, "copied from the mirror") | dict.fromkeys(sent, "sent to the mirror")
        for path, what in done.items():
            self._report.say(f"  {path}: {what}")
        return done

    def _segments(self, known: dict[str, set[str]]) -> SoundFiles:
        """The ones here, and the ones that a night has recorded."""
        found = self._read_all(make_dir(self._directory))
        for name in known.keys() - found.wrong.keys():
            one = found.intact.get(name)
            if one is None or not _is_known(one, known):
                what = "has changed since" if one else "is missing:"
                found.wrong[name] = (
                    f"Archive segment {name} {what} an earlier night recorded it. Restore it from a copy."
                )
        return found

    def _read_all(self, directory: Path) -> SoundFiles:
        """Read each file of a directory whole, line by line."""
        found, files = SoundFiles(), archive_files(directory)
        for _, name in self._report.track(files, len(files), "verify"):
            try:
                segment = Segment(directory / name)
                deque(segment, 0)
                found.intact[name] = segment
            except ArchiveDamaged as error:
                found.wrong[name] = str(error)
        return found

    def _seen_before(self) -> dict[str, set[str]]:
        """The hash that the last night recorded of each file, and that before something was erased: a missing file leaves no other trace."""
        seen, originals = dict[str, str](), dict[str, str]()
        for run in night_runs(self._settings):
            archived, summarised = (step_result(self._settings, run, step) or {} for step in ("archive", "summarise"))
            seen |= archived.get("segments", {}) | summarised.get("texts", {})
            originals |= archived.get("originals", {})
        return {name: {sha256, originals.get(name, sha256)} for name, sha256 in seen.items()}

    def _media(self, catalog: Catalog) -> MediaFindings:
        """`catalog` was made from the segments, which are intact."""
        found, wanted, reported = MediaFindings(), set[str](), set[str]()
        with ChatReader(catalog, self._directory) as reader:
            for chat_id in catalog.digests():
                wanted.update(path for turn in reader.archived(chat_id) for path in kept_paths(turn))
        files = list(listed(self._directory))
        for path in self._report.track(files, len(files), "verify the files of messages"):
            if not is_intact(self._directory, path):
                found.wrong[path] = f"not what its name says: it is damaged. {RESTORE}"
            else:
                (found.intact if path in wanted or has_turn(catalog, path) else found.extra).append(path)
        for run in night_runs(self._settings):
            reported.update((step_result(self._settings, run, "archive") or {}).get("media", {}).get("lost", ()))
        found.lost = sorted(wanted.difference(files) & reported)
        for path in sorted(wanted.difference(files) - reported):
            found.wrong[path] = f"missing, although its turn is in the archive. {RESTORE}"
        return found


def _is_known(segment: Segment, known: dict[str, set[str]]) -> bool:
    """Whether an intact file is what a night recorded, or differs from that only by what was erased; or none has recorded it."""
    name = segment.path.name
    return name not in known or bool({segment.sha256, segment.original} & known[name])


def _media_there(mirror: Mirror) -> list[str]:
    """The mirror's files of messages, without those of which forgetting has left the name."""
    return [path for path, size in sizes(mirror).items() if size]


def _verify_mirror(mirror: Mirror, directory: Path, here: Collection[str], there: Iterable[str]) -> int:
    """How many of these intact files the mirror has; ArchiveDamaged or MirrorDiffers if one of both sides has more, or another one."""
    refuse_more(mirror, here, there)
    return len(proven(mirror, mirror.compare(directory, here)))


def _refuse(wrong: dict[str, str]) -> None:
    """ArchiveDamaged with the first of these sentences."""
    more = [f"{len(wrong) - NAMED} more are damaged, missing or changed."] if len(wrong) > NAMED else []
    if wrong:
        raise ArchiveDamaged("\n".join([*wrong.values()][:NAMED] + more))
