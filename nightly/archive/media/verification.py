"""`hmem-night verify` of the files of messages: each one read, here and in the mirror, and compared with the turns that name them.

A file is what its name says, or it is damaged: no record of it is needed. A turn that says it has a file which is nowhere lacks it, unless a night
has reported that it never had it. A file of no turn is one too many: that of a forgotten turn (an old copy brought it back) is removed by --repair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nightly.archive.catalog import Catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.media.flushing import erase, sizes
from nightly.archive.media.places import has_turn, is_forgotten, is_intact, is_there, kept_paths, listed
from nightly.archive.mirror import Mirror
from nightly.archive.segments import RESTORE
from nightly.night.folder import night_runs, step_result
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.errors import ArchiveDamaged, MirrorFailed
from shared.system.archive_folder import run_of
from shared.system.files import copy_atomic, make_dir

#: Files named in one message.
NAMED = 5


@dataclass
class MediaFindings:
    """Paths. `missing`: turns name them; `lost`: the same, and a night has reported it; `extra`: intact, of no turn."""

    intact: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        named = (
            (self.damaged, f"not what its name says: it is damaged. {RESTORE}"),
            (self.missing, f"missing, although its turn is in the archive. {RESTORE}"),
            (self.extra, "of no turn in the archive, so it was forgotten, or never belonged there. hmem-night verify --repair removes what was "
                         "forgotten; remove others by hand."),
        )  # fmt: skip
        return [f"File of a message {path} is {why}" for paths, why in named for path in paths]


class MediaVerifier:
    """`catalog` was made from the segments, which are intact."""

    def __init__(self, settings: Settings, catalog: Catalog, mirror: Mirror | None, report: Reporter) -> None:
        self._settings, self._catalog, self._report = settings, catalog, report
        self._archive_dir = settings.hmem_night_dir / "archive"
        self._mirror = mirror

    def verify(self) -> dict[str, int]:
        """Counts; ArchiveDamaged or MirrorFailed name what is wrong."""
        found = self._inspect()
        if sentences := found.sentences:
            more = [f"{len(sentences) - NAMED} more files of messages."] if len(sentences) > NAMED else []
            raise ArchiveDamaged("\n".join([*sentences[:NAMED], *more]))
        counts = {"media": len(found.intact)} | ({"media_lost": len(found.lost)} if found.lost else {})
        return counts | ({"media_mirrored": self._verify_mirror(found)} if self._mirror else {})

    def repair(self, fetched: Path) -> dict[str, str]:
        """Repair both sides from each other, remove what was forgotten; path → what was done. `fetched`: an empty folder."""
        found = self._inspect()
        done = {
            path: "removed here: its turn was forgotten" for path in found.extra if is_forgotten(self._catalog, path)
        }
        for path in done:
            (self._archive_dir / path).unlink()
        if self._mirror:
            done |= self._fetch(self._mirror, found, fetched)
            done |= self._send(
                self._mirror, [path for path in listed(self._archive_dir) if is_intact(self._archive_dir, path)]
            )
        for path, what in done.items():
            self._report.say(f"  {path}: {what}")
        return done

    def _inspect(self) -> MediaFindings:
        found, wanted = MediaFindings(), set(self._wanted())
        files = list(listed(self._archive_dir))
        for path in self._report.track(files, len(files), "verify the files of messages"):
            if not is_intact(self._archive_dir, path):
                found.damaged.append(path)
            elif path in wanted or has_turn(self._catalog, path):
                found.intact.append(path)
            else:
                found.extra.append(path)
        never = set(self._reported())
        for path in sorted(wanted.difference(files)):
            (found.lost if path in never else found.missing).append(path)
        return found

    def _wanted(self) -> Iterator[str]:
        """What the last versions of the turns say is kept."""
        with ChatReader(self._catalog, self._archive_dir) as reader:
            for chat_id in self._catalog.digests():
                for turn in reader.archived(chat_id):
                    yield from kept_paths(turn)

    def _reported(self) -> Iterator[str]:
        for run in night_runs(self._settings):
            yield from (step_result(self._settings, run, "archive") or {}).get("media", {}).get("lost", ())

    def _verify_mirror(self, found: MediaFindings) -> int:
        assert self._mirror  # noqa: S101 - only then
        there, compared = self._there(), self._mirror.compare(self._archive_dir, found.intact)
        extra = sorted(set(there) - set(found.intact))
        for paths, what in (
            (compared.different, "differ: hmem-night verify --repair sends them again"),
            (
                compared.missing,
                "are missing: the next night that reads them sends them, and so does hmem-night verify --repair",
            ),
            (extra, "are of no turn in the archive: hmem-night verify --repair removes forgotten ones"),
        ):
            if paths:
                raise MirrorFailed(f"In the mirror {self._mirror.place}, files of messages {what}: {few_names(paths)}.")
        return len(compared.same)

    def _there(self) -> list[str]:
        """The mirror's files, without those of which forgetting has left the name."""
        return [path for path, size in (sizes(self._mirror) if self._mirror else {}).items() if size]

    def _fetch(self, mirror: Mirror, found: MediaFindings, fetched: Path) -> dict[str, str]:
        """Bring here what is damaged or missing here and intact there."""
        there = set(self._there())
        wanted = [path for path in (*found.damaged, *found.missing, *found.lost) if path in there]
        mirror.fetch(wanted, fetched)
        done: dict[str, str] = {}
        for path in wanted:
            if is_intact(fetched, path):
                make_dir((self._archive_dir / path).parent)
                copy_atomic(fetched / path, self._archive_dir / path)
                done[path] = "copied from the mirror"
        return done

    def _send(self, mirror: Mirror, intact: list[str]) -> dict[str, str]:
        """Send what is intact here and not there, and remove there what was forgotten."""
        compared = mirror.compare(self._archive_dir, intact)
        wrong = [*compared.missing, *compared.different]
        mirror.supersede(self._archive_dir, wrong)
        done = dict.fromkeys(wrong, "sent to the mirror")
        gone = [
            path
            for path in self._there()
            if is_forgotten(self._catalog, path) and not is_there(self._archive_dir, path)
        ]
        erase(mirror, gone)
        return done | dict.fromkeys(gone, "removed from the mirror: its turn was forgotten")


def few_names(names: Collection[str]) -> str:
    """The first of these files of the archive, in order of the runs, and how many more there are."""
    ordered = sorted(names, key=lambda name: (run_of(name) or 0, name))
    return ", ".join(ordered[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
