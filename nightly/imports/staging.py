"""Staging: what a backfill has read is in `HMEM_NIGHT_DIR/imports/` until a night has archived it.

    imports/<sha256 of its content>.jsonl    line 1   {"kind": "import", "format": 1, "source": …}
                                             lines    candidates (nightly/imports/candidates.py), one each

A file appears complete and durable under the hash of its content, so the same import staged twice is one file, and a killed command has
staged nothing. Each night reads all files in its export step and removes them once their records are verified in the archive. After a crash
they remain, and the next night finds everything known. An unreadable file never stops a night: it is renamed to `.bad` and reported.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import orjson

from nightly.archive.segments import RawRecord, read_archive, stored_records
from nightly.archive.tombstones import judge
from nightly.imports.candidates import Candidate
from nightly.imports.import_filter import ImportCounts, ImportFilter, ImportVerdict
from nightly.night.folder import Night, imports_dir
from shared.errors import StorageError
from shared.system.files import (
    atomic_writer,
    fsync_dir,
    locked_dir,
    own_dir,
    remove_halves,
    try_locked_dir,
    write_atomic,
)
from shared.turns.records import RecordRefused, Tombstone
from shared.wire import keys

FORMAT = 1
RECORDS, TOMBSTONES, TEXTS = "records.jsonl", "tombstones.jsonl", "texts.jsonl"
#: The file that is being written; only the holder of the directory's lock writes it.
_PART = "staging.part"


class StagedUnreadable(StorageError):
    """A staged file that was modified; never leaves this module."""


class Staging:
    """One import that is being written."""

    def __init__(self, handle: IO[bytes], source: str) -> None:
        self._handle, self._digest, self.count = handle, hashlib.sha256(), 0
        self.path: Path | None = None  # once it is written, unless it is empty
        self._write({"kind": "import", "format": FORMAT, "source": source})

    def add(self, candidate: Candidate) -> None:
        self._write(candidate.to_json())
        self.count += 1

    @property
    def name(self) -> str:
        return f"{self._digest.hexdigest()}.jsonl"

    def _write(self, line: dict[str, Any]) -> None:
        written = orjson.dumps(line) + b"\n"
        self._digest.update(written)
        self._handle.write(written)


@contextmanager
def stage(directory: Path, source: str) -> Iterator[Staging]:
    """Write an import into the directory; at the end `path` names the file. Nothing remains of an interrupted one."""
    with locked_dir(own_dir(directory.parent, directory.name)):
        remove_halves(directory)
        part = directory / _PART
        with atomic_writer(part) as handle:
            staging = Staging(handle, source)
            yield staging
        if not staging.count:
            part.unlink()
            return
        staging.path = directory / staging.name
        part.replace(staging.path)
        fsync_dir(directory)


def adopt(staged: Path, directory: Path) -> Path:
    """Copy an import that was staged elsewhere to where the next night reads it, complete and durable."""
    with locked_dir(own_dir(directory.parent, directory.name)):
        remove_halves(directory)
        with staged.open("rb") as source, atomic_writer(directory / staged.name) as handle:
            shutil.copyfileobj(source, handle)
    return directory / staged.name


def staged_files(directory: Path) -> list[Path]:
    """All waiting imports, the oldest first."""
    found = [*directory.glob("*.jsonl")] if directory.is_dir() else []
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def read_staged(path: Path) -> list[Candidate]:
    """Its candidates, if the content matches its name; StagedUnreadable otherwise."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != path.stem:
            raise StagedUnreadable("its content does not match its name")
        head, *lines = content.splitlines()
        if orjson.loads(head)["format"] > FORMAT:
            raise StagedUnreadable("a newer program wrote it")
        return [Candidate.from_json(orjson.loads(line)) for line in lines]
    except (OSError, ValueError, KeyError, TypeError, RecordRefused) as error:
        raise StagedUnreadable(f"it cannot be read ({type(error).__name__})") from error


def take(night: Night, out: Path) -> dict[str, Any]:
    """Append what is new in the staged imports to the export in `out`; returns the outcome of each. Reads the archive only if there are any."""
    directory = imports_dir(night.settings)
    _drop_halves(directory)
    imports, bad = _read_all(directory)
    for name, why in bad.items():
        night.report.say(
            f"  Warning: the staged import {name} was renamed to .bad: {why}. Run the backfill with its file again."
        )
    if not imports:
        return {"files": {}, "bad": bad, "records": 0}
    new, tallies, known = [], {}, _filter_of(night, out, imports)
    for name, candidates in imports.items():
        tallies[name] = ImportCounts()
        for candidate, verdict in classify_by_unit(known, candidates):
            tallies[name].count(candidate, verdict)
            if verdict is ImportVerdict.NEW:
                new.append(candidate)
    _append(out / RECORDS, (candidate.record for candidate in new if candidate.record))
    _append(out / TOMBSTONES, (_as_record(candidate.tombstone) for candidate in new if candidate.tombstone))
    texts = [orjson.dumps(candidate.text.to_json()) + b"\n" for candidate in new if candidate.text]
    write_atomic(out / TEXTS, b"".join(texts))
    counts = sum((tally.sums for tally in tallies.values()), Counter[str]())
    return {
        "files": {name: tally.to_json() for name, tally in tallies.items()},
        "bad": bad,
        "records": counts[ImportVerdict.NEW],
        **{str(verdict): counts[verdict] for verdict in ImportVerdict},
    }


def clear(night: Night) -> None:
    """Remove the imports that this night's export has read; the archive step calls it once it has verified the export."""
    for name in night.result("export").get("imports", {}).get("files", {}):
        (imports_dir(night.settings) / name).unlink(missing_ok=True)


def classify_by_unit(known: ImportFilter, candidates: list[Candidate]) -> Iterator[tuple[Candidate, ImportVerdict]]:
    """Verdicts file by file; quarantined records come last, so that none takes the place of a turn."""
    ordered = sorted(candidates, key=lambda candidate: candidate.quarantined)
    for _, group in itertools.groupby(ordered, key=lambda candidate: (candidate.quarantined, candidate.unit)):
        yield from known.classify(group)


def tombstones_of(imports: Iterable[list[Candidate]]) -> list[Tombstone]:
    return [candidate.tombstone for candidates in imports for candidate in candidates if candidate.tombstone]


def _filter_of(night: Night, out: Path, imports: dict[str, list[Candidate]]) -> ImportFilter:
    archive = read_archive(night.archive_dir)
    judged = judge((record.value for record in stored_records(out / TOMBSTONES)), night.settings, archive.tombstones)
    return ImportFilter(archive, stored_records(out / RECORDS), [*judged.obeyed, *tombstones_of(imports.values())])


def _read_all(directory: Path) -> tuple[dict[str, list[Candidate]], dict[str, str]]:
    """Name → candidates of readable files, name → reason of files renamed to .bad."""
    imports, bad = dict[str, list[Candidate]](), dict[str, str]()
    for path in staged_files(directory):
        try:
            imports[path.name] = read_staged(path)
        except StagedUnreadable as error:
            path.replace(path.with_suffix(".bad"))
            bad[path.name] = str(error)
    return imports, bad


def _drop_halves(directory: Path) -> None:
    """Remove what a killed command has left, unless one is running now: private words must not be left on the disk."""
    if not directory.is_dir():
        return
    with try_locked_dir(directory) as abandoned:
        if abandoned:
            remove_halves(directory)
            (directory / _PART).unlink(missing_ok=True)


def _append(path: Path, records: Iterable[RawRecord]) -> None:
    """Append lines; the step's folder is made durable as a whole when it is committed."""
    with path.open("ab") as handle:
        for record in records:
            handle.write(orjson.dumps(record.to_json()) + b"\n")


def _as_record(tombstone: Tombstone) -> RawRecord:
    return RawRecord(keys.TOMBSTONES.encode(), "string", tombstone.to_json())
