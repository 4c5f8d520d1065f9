"""An archive from a copy of it: checked file by file, then brought to this host, which has none or a part of the same one.

The copy may be any tool's: files of an archive never change but by forgetting. What it has of the day before it was made is in its capture.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from nightly.archive.media.places import is_intact, listed
from nightly.archive.segments import RawRecord, Record, Segment, event_of, turn_of
from nightly.night.lease import night_lock
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.errors import ArchiveDamaged, InvalidInput
from shared.system.archive_folder import CAPTURE, archive_files
from shared.system.files import copy_atomic, make_dir, sha256_file
from shared.text.format import counted
from shared.turns.events import is_event
from shared.turns.records import RecordRefused
from shared.wire import keys


def archive_of(copy: Path) -> Path:
    """The archive in what the owner names: itself, or a directory of nights that has one. InvalidInput if it is neither."""
    for folder in (copy, copy / "archive"):
        if archive_files(folder) or (folder / CAPTURE).exists():
            return folder
    raise InvalidInput(
        f"{copy} is not an archive: it has no file such as seg-1.jsonl, and neither has {copy / 'archive'}. Nothing was changed. "
        "Name the directory that your copies are in."
    )


def bring(settings: Settings, copy: Path, report: Reporter) -> str:
    """Copy what this host's archive lacks; a sentence about it. ArchiveDamaged names a file of the copy that fails, InvalidInput what this host
    has and the copy lacks."""
    source, target = archive_of(copy), make_dir(settings.hmem_night_dir / "archive")
    with night_lock(settings):
        names = [name for _, name in archive_files(source)]
        if more := sorted({name for _, name in archive_files(target)} - {*names}):
            raise InvalidInput(
                f"The archive of this host has {more[0]}, which the copy lacks ({len(more)} files in all), so it is not older than the copy. "
                "Nothing was changed. To go back to the copy all the same, first move the directories "
                f"{target} and {settings.hmem_memory_dir} away."
            )
        if (source / CAPTURE).exists() and not (target / CAPTURE).exists():
            names.append(CAPTURE)
        last = max(
            filter(None, [_checked(source / name) for name in report.track(names, len(names), "check the copy")]),
            default=None,
        )
        added = [name for name in names if not _is_same(source / name, target / name)]
        for name in added:
            copy_atomic(source / name, target / name)
        files = [path for path in listed(source) if not (target / path).exists()]
        for path in files:
            if not is_intact(source, path):
                raise ArchiveDamaged(
                    f"{source / path} in the copy is damaged. Take it from another copy, or remove it."
                )
            make_dir((target / path).parent)
            copy_atomic(source / path, target / path)
    until = f"{datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M} UTC" if last else "no time: it is empty"
    brought = f"Brought {counted(len(added) + len(files), 'file')} from the copy ({len(names) - len(added)} were here)"
    return f"{brought}. It goes up to {until}; what was said later is not in it."


def _is_same(source: Path, target: Path) -> bool:
    """ArchiveDamaged if this host has another file under this name."""
    if not target.exists():
        return False
    if sha256_file(source) != sha256_file(target):
        raise ArchiveDamaged(
            f"{target} is not the {target.name} of the copy: they are of two archives, or something was forgotten in one of them. "
            "Nothing was changed. Move the archive of this host away, or name its own copy."
        )
    return True


def _checked(path: Path) -> float | None:
    """The time of the newest record in a file that is whole."""
    return max(filter(None, map(_time_of, Segment(path))), default=None)


def _time_of(line: Record) -> float | None:
    """When a record was made; None for what has no time."""
    if line["kind"] not in ("turn", "event", "captured") or line.get("key") == keys.TOMBSTONES:
        return None
    raw = RawRecord.from_json(line)
    try:
        return event_of(line).at if is_event(raw.key) else turn_of(raw).timestamp
    except RecordRefused:
        return None
