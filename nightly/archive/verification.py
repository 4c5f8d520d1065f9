"""`hmem-night verify`: hash the archive again and compare it with what earlier nights recorded, and with the mirror. `--repair` repairs.

A file is intact if it matches the hash in its last line. It is missing or changed if an earlier night recorded it, or recorded it with
another hash. Repair uses only intact copies: the intact one, here or in the mirror, replaces the other, and the replaced file is kept.
Two intact copies that differ are two histories: then nothing is touched, and the owner must decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nightly.archive.catalog import recomputed
from nightly.archive.media.verification import NAMED, MediaVerifier, few_names
from nightly.archive.mirror import Mirror, open_mirror
from nightly.archive.segments import DAMAGED, Segment, erased_since
from nightly.night.folder import REPAIRING, night_runs, step_result
from nightly.night.lease import night_lock
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.errors import ArchiveDamaged, MirrorFailed, SettingsError
from shared.system.archive_folder import archive_files
from shared.system.files import copy_atomic, fresh_dir, fsync_dir, make_dir, remove_tree


@dataclass
class SoundFiles:
    """Intact files of an archive: name -> sha256, and of those from which something was erased, name -> sha256 of the first file."""

    segments: dict[str, str] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """ArchiveDamaged if the file is not intact."""
        segment = Segment(path)
        for _ in segment:
            pass
        self.segments[path.name] = segment.sha256
        if segment.original:
            self.originals[path.name] = segment.original


@dataclass
class ArchiveFindings:
    """The archive of this host: what is intact, and for each damaged, missing or changed file the message that says why."""

    archive: SoundFiles = field(default_factory=SoundFiles)
    known: dict[str, str] = field(default_factory=dict)  # name -> hash that an earlier night recorded
    damaged: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)  # intact, but not what an earlier night recorded
    originals: dict[str, str] = field(
        default_factory=dict
    )  # name -> hash before something was erased, as a night recorded it

    def is_known(self, archive: SoundFiles, name: str) -> bool:
        """Whether an intact file is what a night recorded, or differs from that only by what was erased."""
        now = archive.segments.get(name)
        if now is None or name not in self.known or now == self.known[name]:
            return now is not None
        return bool({now, archive.originals.get(name)} & {self.known[name], self.originals.get(name)} - {None})

    @property
    def sentences(self) -> list[str]:
        return [*self.damaged.values(), *self.missing.values(), *self.changed.values()]


def verify(settings: Settings, report: Reporter) -> dict[str, Any]:
    """Counts of an intact archive (and mirror); ArchiveDamaged or MirrorFailed names the files that are not intact."""
    findings, mirror = _inspect(settings, report), open_mirror(settings)
    if sentences := findings.sentences:
        raise ArchiveDamaged("\n".join(_few(sentences)))
    with recomputed(settings, report) as made:
        counts = {"segments": len(findings.archive.segments), **made.counts}
        mirrored = {"mirrored": _verify_mirror(mirror, settings)} if mirror else {}
        return counts | mirrored | MediaVerifier(settings, made, mirror, report).verify()


def _inspect(settings: Settings, report: Reporter) -> ArchiveFindings:
    directory, found = _archive_dir(settings), ArchiveFindings()
    found.archive = _sound_files(directory, report, lambda name, error: found.damaged.update({name: str(error)}))
    found.known, found.originals = _seen_before(settings)
    for name in found.known:
        if name in found.damaged or found.is_known(found.archive, name):
            continue
        changed = name in found.archive.segments
        kind, what = (found.changed, "has changed since") if changed else (found.missing, "is missing:")
        kind[name] = f"Archive segment {name} {what} an earlier night recorded it. Restore it from a copy."
    return found


def _seen_before(settings: Settings) -> tuple[dict[str, str], dict[str, str]]:
    """What each night recorded of the archive, and the earlier hashes of rewritten files: a missing file leaves no other trace."""
    seen: dict[str, str] = {}
    originals: dict[str, str] = {}
    for run in night_runs(settings):
        archived, summarised = (step_result(settings, run, step) or {} for step in ("archive", "summarise"))
        seen |= archived.get("segments", {}) | summarised.get("texts", {})
        originals |= archived.get("originals", {})
    return seen, originals


def _verify_mirror(mirror: Mirror, settings: Settings) -> int:
    directory = _archive_dir(settings)
    lost = sorted(mirror.names() - {name for _, name in archive_files(directory)})
    if lost:
        raise ArchiveDamaged(
            f"The mirror has files that are missing here: {few_names(lost)}. hmem-night verify --repair restores them."
        )
    found = mirror.compare(directory, [name for _, name in archive_files(directory)])
    if found.different:
        raise MirrorFailed(
            f"The copies in the mirror {mirror.place} differ: {few_names(found.different)}. hmem-night verify --repair repairs the damaged ones."
        )
    if found.missing:
        raise MirrorFailed(
            f"The mirror {mirror.place} lacks {few_names(found.missing)}. The next night copies them; so does hmem-night verify --repair."
        )
    return len(found.same)


def repair(settings: Settings, report: Reporter) -> dict[str, Any]:
    """Repair archive and mirror from each other, reporting each change, then verify both; the counts, and what was done."""
    mirror = open_mirror(settings)
    if mirror is None:
        raise SettingsError(
            "There is nothing to repair from: ARCHIVE_MIRROR is not set. Set it, or restore the segments that hmem-night verify names."
        )
    with night_lock(settings):  # needs no Redis: the archive may be all that is left
        fetched = fresh_dir(settings.hmem_night_dir / REPAIRING)
        try:
            done = _Repair(settings, mirror, fetched, report).both()
            with recomputed(settings, report) as made:
                media = MediaVerifier(settings, made, mirror, report).repair(fresh_dir(fetched))
                done += [f"{path}: {what}" for path, what in media.items()]
        finally:
            remove_tree(fetched)
    return verify(settings, report) | {"repaired": done}


class _Repair:
    """Of an archive and its mirror, from each other. `fetched`: an empty folder for files of the mirror."""

    def __init__(self, settings: Settings, mirror: Mirror, fetched: Path, report: Reporter) -> None:
        self._directory, self._mirror = make_dir(_archive_dir(settings)), mirror
        self._fetched, self._report = fetched, report
        self._findings, self._there = _inspect(settings, report), SoundFiles()

    def both(self) -> list[str]:
        """What was done; ArchiveDamaged, once everything else is repaired, if a file has no intact copy left."""
        findings, there = self._findings, self._mirror.names()
        compared = self._mirror.compare(self._directory, list(findings.archive.segments))
        wanted = {*findings.damaged, *findings.missing, *(there - set(findings.archive.segments))}
        self._mirror.fetch(sorted((wanted | {*compared.different}) & there), self._fetched)
        self._there = _sound_files(
            self._fetched,
            self._report,
            lambda name, error: self._report.say(f"  {name} in the mirror is damaged: {error.__cause__ or error}"),
        )
        erased = self._follow_erasing(compared.different)
        different = [name for name in compared.different if name not in erased]
        self._refuse_two_histories(different)
        done = {**erased, **self._repair_here(), **self._repair_mirror(compared.missing, different)}
        if lost := wanted - set(done):
            raise ArchiveDamaged(
                f"{few_names([*lost])}: no intact copy, neither here nor in the mirror. Restore it from another copy; everything else is repaired."
            )
        return [f"{name}: {what}" for name, what in done.items()]

    def _say(self, done: dict[str, str]) -> dict[str, str]:
        """Report what was done, by name."""
        for name, what in done.items():
            self._report.say(f"  {name}: {what}")
        return done

    def _follow_erasing(self, names: list[str]) -> dict[str, str]:
        """Of two intact copies, one of which had forgotten words erased, both sides get that one; name → what was done."""
        ours, theirs = self._directory, self._fetched
        there = [name for name in names if erased_since(theirs / name, ours / name)]
        if there:
            self._mirror.supersede(ours, there)
        here = [name for name in names if name not in there and erased_since(ours / name, theirs / name)]
        for name in here:
            copy_atomic(theirs / name, ours / name)
        done = dict.fromkeys(there, "erased in the mirror too")
        return self._say(done | dict.fromkeys(here, "erased here too, as in the mirror"))

    def _refuse_two_histories(self, different: list[str]) -> None:
        here, there = self._findings.archive.segments, self._there.segments
        if both := [name for name in different if name in here and name in there]:
            raise ArchiveDamaged(
                f"{few_names(both)}: the copy here and the copy in the mirror are both intact, and differ: two histories. Nothing was changed; "
                "decide which one is yours, and move the other away by hand."
            )

    def _repair_here(self) -> dict[str, str]:
        """Replace what is damaged or missing here with the mirror's intact copies; name → what was done."""
        done: dict[str, str] = {}
        for name in self._there.segments:
            if name in self._findings.archive.segments:
                continue
            if not self._findings.is_known(self._there, name):
                self._report.say(
                    f"  {name} in the mirror is intact, but not what an earlier night recorded; it is left alone"
                )
                continue
            kept = _keep_damaged(self._directory, name) if name in self._findings.damaged else None
            copy_atomic(self._fetched / name, self._directory / name)
            what = "copied from the mirror" + (f"; the damaged file was moved to {kept}" if kept else "")
            done |= self._say({name: what})
        return done

    def _repair_mirror(self, missing: list[str], different: list[str]) -> dict[str, str]:
        """Send what is intact here and damaged or missing in the mirror; name → what was done."""
        ours = [name for name in self._findings.archive.segments if name not in self._findings.changed]
        lacking = [name for name in ours if name in missing]
        damaged = [name for name in ours if name in different and name not in self._there.segments]
        suffix = f".damaged-{time.time_ns()}"
        self._mirror.replace(self._directory, [*lacking, *damaged], suffix)
        sent = {name: f"sent to the mirror; the damaged file there is now {name}{suffix}" for name in damaged}
        return self._say(dict.fromkeys(lacking, "sent to the mirror") | sent)


def _sound_files(directory: Path, report: Reporter, damaged: Callable[[str, ArchiveDamaged], None]) -> SoundFiles:
    """Read each file of a directory whole, line by line; the intact ones. `damaged` is told of each other."""
    sound, files = SoundFiles(), archive_files(directory)
    for _, name in report.track(files, len(files), "verify"):
        try:
            sound.add(directory / name)
        except ArchiveDamaged as error:
            damaged(name, error)
    return sound


def _keep_damaged(directory: Path, name: str) -> str:
    """Move a damaged file to a folder that no night reads; it may hold the last copy of something."""
    aside = make_dir(directory / DAMAGED)
    number = 1
    while (aside / f"{name}.{number}").exists():
        number += 1
    (directory / name).rename(aside / f"{name}.{number}")
    fsync_dir(aside)
    fsync_dir(directory)
    return f"{DAMAGED}/{name}.{number}"


def _archive_dir(settings: Settings) -> Path:
    return settings.hmem_night_dir / "archive"


def _few(sentences: list[str]) -> list[str]:
    more = len(sentences) - NAMED
    return [*sentences[:NAMED], *([f"{more} more are damaged, missing or changed."] if more > 0 else [])]
