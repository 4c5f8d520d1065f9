"""ARCHIVE_MIRROR: a second copy of every file of the archive, on another disk or, through rsync and ssh, on another host.

Files of the archive never change, and a night never damages the mirror: it adds what is missing there, and overwrites and deletes nothing.
Then it verifies the mirror by reading all bytes on both sides (rsync --checksum, writing nothing). A file that differs is damaged on one
side: the night stops and names it. Only `hmem-night verify --repair` replaces anything, by a copy that is whole.

One exception: what was permanently erased here is erased there too. A file of the mirror is replaced, and not kept, if it is intact and
is the version of ours from before something was erased from it.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from nightly.archive.segments import erased_since
from nightly.night.folder import FETCHED
from nightly.night.rsync import RsyncFailed, names_file, rsync
from shared.config.settings import Settings
from shared.config.values import names_a_host
from shared.errors import ArchiveDamaged, MirrorFailed, SettingsError
from shared.system.archive_folder import CAPTURE, archive_files, run_of
from shared.system.files import fresh_dir, remove_tree

#: Seconds for one call of rsync, and without a byte over the network: verifying reads the whole archive before rsync prints anything.
CALL_TIMEOUT_SECONDS = 7200
SILENCE_SECONDS = 900

#: Only files of the archive: no temporary files, nothing that the owner keeps next to them.
_ALL = ("--include=/seg-[0-9]*.jsonl", "--include=/texts-[0-9]*.jsonl", "--exclude=*")
#: Files that rsync leaves when it is killed.
_LEFT_OVER = re.compile(r"\.(?:(?:seg|texts)-[0-9.]+\.jsonl|[A-Za-z0-9_-]{1,100}\.[0-9a-f]{64})\.[A-Za-z0-9]{6}\Z")


#: Files that a message names.
NAMED = 5


class MirrorDiffers(MirrorFailed):
    """The mirror is reachable, but one of its files differs from the archive: damage, not an unavailable disk."""


@dataclass(frozen=True)
class Comparison:
    """Of the archive's files: `same` byte for byte in the mirror, `missing` there, or `different` there."""

    same: list[str]
    missing: list[str]
    different: list[str]


class Mirror:
    """A directory here, or `[user@]host:path` through `rsh`. It must exist: an empty mount point is not a mirror."""

    def __init__(self, place: str, rsh: str | None) -> None:
        self.place, self._rsh = place, rsh
        self._local = None if rsh else Path(place)

    def names(self) -> set[str]:
        """The segments and texts that it has; MirrorFailed if it is not reachable."""
        return {name for name in self.sizes(*_ALL) if run_of(name) is not None}

    def sizes(self, *filters: str) -> dict[str, int]:
        """Path → size of every file there that passes these filters of rsync; no links, no directories. MirrorFailed if it is not reachable."""
        lines = self.rsync("--list-only", "--no-human-readable", *filters, self.root).splitlines()
        found = (line.split(maxsplit=4) for line in lines if line.startswith("-"))
        return {path: int(size.replace(",", "")) for _, size, *_, path in found}

    def compare(self, archive_dir: Path, names: Collection[str]) -> Comparison:
        """Compare the bytes of these files on both sides. What rsync does not report as identical is missing or different."""
        out = self._rsync_these(names, "--checksum", "--dry-run", "-ii", f"{archive_dir}/", self.root)
        changes = {line[12:]: line[2:11] for line in out.splitlines() if line[1:2] == "f"}
        same = [name for name in names if name in changes and not changes[name].strip()]
        missing = [name for name in names if changes.get(name, "+").startswith("+")]
        return Comparison(same, missing, sorted({*names} - {*same, *missing}))

    def add(self, archive_dir: Path, names: Collection[str]) -> None:
        """Copy these files there; files that already exist there are not changed."""
        self._sweep({"", *(name.rpartition("/")[0] for name in names)})
        self._send(archive_dir, names, "--ignore-existing")

    def supersede(self, archive_dir: Path, names: Collection[str]) -> None:
        """Copy these files there and replace ones with other bytes."""
        self._send(archive_dir, names, "--checksum")

    def truncate(self, names: Collection[str]) -> None:
        """Leave these files there empty. (A key that may write there may not delete.)"""
        with tempfile.TemporaryDirectory(prefix="hmem-mirror-") as folder:
            for path in (Path(folder, name) for name in names):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            self._rsync_these(names, "--ignore-times", f"{folder}/", self.root)

    def fetch(self, names: Collection[str], into: Path) -> None:
        """Copy these files from there."""
        self._rsync_these(names, self.root, f"{into}/")

    def _send(self, archive_dir: Path, names: Collection[str], *how: str) -> None:
        options = ("--times", "--omit-dir-times", "--fsync", *how)
        self._rsync_these(names, *options, f"{archive_dir}/", self.root)

    def _sweep(self, folders: Iterable[str]) -> None:
        """Remove partial files of a killed rsync from these folders, if the mirror is on this host."""
        for folder in [self._local / name for name in folders] if self._local else ():
            with contextlib.suppress(OSError):
                for path in list(folder.iterdir()):
                    if _LEFT_OVER.match(path.name):
                        path.unlink(missing_ok=True)

    @property
    def root(self) -> str:
        return self.place if self.place.endswith((":", "/")) else f"{self.place}/"

    def rsync(self, *arguments: str) -> str:
        """One call; its output, or MirrorFailed."""
        try:
            return rsync(
                "--recursive", *arguments, rsh=self._rsh, seconds=CALL_TIMEOUT_SECONDS, silence=SILENCE_SECONDS
            )
        except RsyncFailed as error:
            raise MirrorFailed(
                f"The archive's mirror {self.place} cannot be used: {error}. Mount or start it, make room, or correct ARCHIVE_MIRROR; then run "
                "the night again."
            ) from error

    def _rsync_these(self, names: Collection[str], *arguments: str) -> str:
        """One call for these files, which looks at no other; none without files."""
        if not names:
            return ""
        with names_file(names) as chosen:
            return self.rsync(f"--files-from={chosen}", *arguments)


def open_mirror(settings: Settings) -> Mirror | None:
    """The configured mirror, if any. Whether it is reachable shows when it is used."""
    place = settings.archive_mirror
    if not place:
        return None
    if names_a_host(place):
        return Mirror(place, settings.publish_ssh)
    path = Path(place).expanduser().absolute()
    if path.resolve() == (settings.hmem_night_dir / "archive").resolve():
        raise SettingsError(f"ARCHIVE_MIRROR={place} is the archive itself. Name a directory on another disk or host.")
    return Mirror(str(path), None)


def missing_there(mirror: Mirror, archive_dir: Path) -> list[str]:
    """The files that the mirror lacks; ArchiveDamaged if the archive lacks some itself: files were lost here, or this is a new host."""
    here, there = {name for _, name in archive_files(archive_dir)}, mirror.names()
    refuse_more(mirror, here, there)
    return sorted(here - there)


def refuse_more(mirror: Mirror, here: Collection[str], there: Iterable[str]) -> None:
    """ArchiveDamaged if the mirror has other files than these of the archive."""
    if more := {*there} - {*here}:
        raise ArchiveDamaged(
            f"The mirror {mirror.place} has files that are missing here or of no turn: {few_names(more)}. Nothing was deleted. "
            "Run hmem-night verify --repair: it restores them, or removes what was forgotten."
        )


def bring_up_to_date(mirror: Mirror, archive_dir: Path) -> int:
    """Add what the mirror lacks, then verify that it has every file of the archive byte for byte; returns their number."""
    mirror.add(archive_dir, missing_there(mirror, archive_dir))
    if (archive_dir / CAPTURE).exists():
        mirror.supersede(archive_dir, [CAPTURE])
    names = [name for _, name in archive_files(archive_dir)]
    found = mirror.compare(archive_dir, names)
    if found.different and (outdated := _from_before_erasing(mirror, archive_dir, found.different)):
        mirror.supersede(archive_dir, outdated)
        found = mirror.compare(archive_dir, names)
    return len(proven(mirror, found))


def proven(mirror: Mirror, found: Comparison) -> list[str]:
    """The files that were compared; MirrorDiffers unless the mirror has all of them byte for byte."""
    if wrong := [*found.different, *found.missing]:
        raise MirrorDiffers(
            f"Copies in the mirror {mirror.place} differ from the archive, or are missing: {few_names(wrong)}. Nothing was deleted. "
            "Run hmem-night verify --repair: it checks the hashes of both copies and repairs the damaged one."
        )
    return found.same


def _from_before_erasing(mirror: Mirror, archive_dir: Path, names: list[str]) -> list[str]:
    """The files among these that are versions of ours from before something was erased from them."""
    folder = fresh_dir(archive_dir.parent / FETCHED)
    try:
        mirror.fetch(names, folder)
        return [name for name in names if erased_since(folder / name, archive_dir / name)]
    finally:
        remove_tree(folder)


def few_names(names: Collection[str]) -> str:
    """The first of these files of the archive, in order of the runs, and how many more there are."""
    ordered = sorted(names, key=lambda name: (run_of(name) or 0, name))
    return ", ".join(ordered[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
