"""Staging: what a backfill has read is in `HMEM_NIGHT_DIR/imports/` until a night has archived it.

    imports/<sha256 of its content>.jsonl    line 1   {"kind": "import", "format": 1, "source": …, "files": [name, …]}
                                             lines    candidates (nightly/imports/candidates.py), one each

A file appears complete and durable under the hash of its content, so the same import staged twice is one file, and a killed command has
staged nothing. Each night reads all files in its export step and removes them once their records are verified in the archive. After a crash they
remain, and the next night finds everything known. An unreadable file never stops a night: it is renamed to `.bad` and reported.

What another program remembered becomes a typed memory: each such turn of a night's imports is handed to the day's host as a tag that asks to
remember its words, which a dispatcher carries out once (dispatcher/queue/consolidation/), as it does with the tags of an answer. So a near
duplicate of what the chat knows is kept as a confirmation, and forgetting the turn, as undoing its import does, takes the memory along.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

import orjson
from redis.exceptions import OutOfMemoryError

from nightly.archive.catalog import Catalog, open_catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.incoming import EVENTS, RECORDS, TOMBSTONES, judge
from nightly.archive.segments import RawRecord, stored_records, turn_of
from nightly.imports.batches import BatchCollector
from nightly.imports.candidates import Candidate
from nightly.imports.import_filter import SEEN, ImportCounts, ImportFilter, ImportVerdict
from nightly.night.folder import Night, imports_dir
from shared.config.settings import Settings
from shared.errors import StorageError
from shared.system.files import (
    atomic_writer,
    fsync_dir,
    locked_dir,
    make_dir,
    own_dir,
    remove_halves,
    remove_tree,
    sha256_file,
    try_locked_dir,
)
from shared.turns.records import FACT, RecordRefused, Tombstone, Turn, dumps
from shared.wire import keys
from shared.wire.handed_over import HandedImport, ImportHandOver

FORMAT = 1
#: The file that is being written; only the holder of the directory's lock writes it.
_PART = "staging.part"
#: Of the export step's folder: what another host has handed over.
_HANDED = "handed"


class StagedUnreadable(StorageError):
    """A staged file that was modified; never leaves this module."""


class Staging:
    """One import that is being written."""

    def __init__(self, handle: IO[bytes], source: str, files: Sequence[str]) -> None:
        self._handle, self._digest, self.count = handle, hashlib.sha256(), 0
        self.path: Path | None = None  # once it is written, unless it is empty
        self._write({"kind": "import", "format": FORMAT, "source": source, "files": [*files]})

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
def stage(directory: Path, source: str, files: Sequence[str] = ()) -> Iterator[Staging]:
    """Write an import into the directory; at the end `path` names the file. Nothing remains of an interrupted one."""
    with locked_dir(own_dir(directory.parent, directory.name)):
        remove_halves(directory)
        part = directory / _PART
        with atomic_writer(part) as handle:
            staging = Staging(handle, source, files)
            yield staging
        if not staging.count:
            part.unlink()
            return
        staging.path = directory / staging.name
        part.replace(staging.path)
        fsync_dir(directory)


def staged_files(directory: Path) -> list[Path]:
    """All waiting imports, the oldest first."""
    found = [*directory.glob("*.jsonl")] if directory.is_dir() else []
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


class StagedImport:
    """A staged import whose content matches its name; StagedUnreadable otherwise. Its candidates are read one by one, as often as they are asked for.

    `by_words`: they are recognised by their words.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.by_words = path, False
        with self._reading() as handle:
            if sha256_file(path) != f"sha256:{path.stem}":
                raise StagedUnreadable("its content does not match its name")
            header = orjson.loads(handle.readline())
            if header["format"] > FORMAT:
                raise StagedUnreadable("a newer program wrote it")
            self.source, self.files = header["source"], tuple(map(str, header["files"]))
            for candidate in map(_candidate, handle):
                self.by_words |= candidate.by_words

    def __iter__(self) -> Iterator[Candidate]:
        with self._reading() as handle:
            handle.readline()
            yield from map(_candidate, handle)

    @contextmanager
    def _reading(self) -> Iterator[IO[bytes]]:
        try:
            with self.path.open("rb") as handle:
                yield handle
        except (OSError, ValueError, KeyError, TypeError, RecordRefused) as error:
            raise StagedUnreadable(f"it cannot be read ({type(error).__name__})") from error


def _candidate(line: bytes) -> Candidate:
    return Candidate.from_json(orjson.loads(line))


def take(night: Night, out: Path) -> dict[str, Any]:
    """Append what is new in the staged imports to the export in `out`; returns the outcome of each. Asks the archive only if there are any."""
    directory = imports_dir(night.settings)
    _drop_halves(directory)
    handed = [f"{one.sha256}.jsonl" for one in _fetch(night, out / _HANDED)]
    try:
        return _take(night, out, directory) | {"handed": handed}
    finally:
        remove_tree(out / _HANDED)


def _take(night: Night, out: Path, directory: Path) -> dict[str, Any]:
    imports, bad = _read_all(directory)
    staged = {one.path.name for one in imports}
    others, damaged = _read_all(out / _HANDED)
    imports += [one for one in others if one.path.name not in staged]  # the same may be staged here, too
    for name in damaged:
        night.report.say(f"  Warning: the import {name} of another host was damaged on its way and is left out.")
    for name, why in bad.items():
        night.report.say(
            f"  Warning: the staged import {name} was renamed to .bad: {why}. Run the backfill with its file again."
        )
    if not imports:
        return {"files": {}, "bad": bad, "records": 0}
    with open_catalog(night) as catalog:
        judged = judge((one.value for one in stored_records(out / TOMBSTONES)), night.settings, catalog.tombstones)
        with open_filter(night.settings, catalog, out, imports, stored_records(out / RECORDS), judged.obeyed) as known:
            tallies = _append(out, known, imports, BatchCollector(night.archive_dir, known.undone))
    counts = sum((tally.sums for tally in tallies.values()), Counter[str]())
    return {
        "files": {name: tally.to_json() for name, tally in tallies.items()},
        "bad": bad,
        "records": counts[ImportVerdict.NEW],
        **{str(verdict): counts[verdict] for verdict in ImportVerdict},
    }


def _append(
    out: Path, known: ImportFilter, imports: list[StagedImport], batches: BatchCollector
) -> dict[str, ImportCounts]:
    """Append lines; the step's folder is made durable as a whole when it is committed."""
    tallies: dict[str, ImportCounts] = {}
    with ExitStack() as stack:
        records, events = (stack.enter_context((out / name).open("ab")) for name in (RECORDS, EVENTS))
        for one in imports:
            tally = tallies[one.path.name] = ImportCounts()
            for candidate, verdict in classify_by_file(known, one):
                tally.count(candidate, verdict)
                batches.add(candidate, verdict)
                if verdict is ImportVerdict.NEW:
                    records.write(orjson.dumps(candidate.record.to_json()) + b"\n")
            for event in batches.events(one.path.stem, one.source, one.files):
                events.write(orjson.dumps(event.to_json()) + b"\n")
    return tallies


@contextmanager
def open_filter(
    settings: Settings,
    catalog: Catalog,
    folder: Path,
    imports: list[StagedImport],
    exported: Iterable[RawRecord],
    tombstones: Iterable[Tombstone],
) -> Iterator[ImportFilter]:
    """A filter for these imports, with what a night knows beside the archive; what it remembers in `folder` is removed."""
    by_words = any(one.by_words for one in imports)
    try:
        with (
            ChatReader(catalog, settings.hmem_night_dir / "archive") as reader,
            closing(ImportFilter(catalog, reader, folder, by_words=by_words)) as known,
        ):
            known.add_known(exported, tombstones)
            yield known
    finally:
        (folder / SEEN).unlink(missing_ok=True)


def clear(night: Night) -> None:
    """Remove the imports that this night's export has read; the archive step calls it once it has verified the export."""
    directory, result = imports_dir(night.settings), night.result("export").get("imports", {})
    _report_outcomes(night, result)
    for name in result.get("files", {}):
        (directory / name).unlink(missing_ok=True)


def classify_by_file(known: ImportFilter, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, ImportVerdict]]:
    """Verdicts file by file, on candidates that are read several times."""
    known.expect(_by_file(candidates, known))
    for _, group in itertools.groupby(_by_file(candidates, known), key=lambda pair: pair[0]):
        yield from known.classify(candidate for _, candidate in group)


def _by_file(candidates: Iterable[Candidate], known: ImportFilter) -> Iterator[tuple[int, Candidate]]:
    """The candidates in the order in which they are judged, each with the number of its file, from 1."""
    number, unit = 0, None
    for candidate in candidates:
        number += candidate.unit != unit
        unit = candidate.unit
        yield number, known.as_wanted(candidate)


def _read_all(directory: Path) -> tuple[list[StagedImport], dict[str, str]]:
    """The readable files, and name → reason of files renamed to .bad."""
    imports, bad = list[StagedImport](), dict[str, str]()
    for path in staged_files(directory):
        try:
            imports.append(StagedImport(path))
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


def _fetch(night: Night, folder: Path) -> list[HandedImport]:
    """Write each that waits into the folder, as a staged file; whether one is whole, its reader finds by its name."""
    taken, handing = list[HandedImport](), ImportHandOver(night.redis)
    for one in handing.waiting():
        try:
            handing.take(one, night.run)
        except OutOfMemoryError:
            continue  # the next night, since this one empties Redis
        taken.append(one)
        with atomic_writer(make_dir(folder) / f"{one.sha256}.jsonl") as handle:
            try:
                handle.writelines(handing.content(one))
            except ValueError:
                continue  # what is there of it does not match its name
    return taken


def _report_outcomes(night: Night, result: Mapping[str, Any]) -> None:
    """Tell the other host what became of the imports that this night has exported, and delete their content. `result`: of `take`."""
    handed, handing = set(result.get("handed", ())), ImportHandOver(night.redis)
    for one in handing.waiting() if handed else ():
        name = f"{one.sha256}.jsonl"
        counts = result["files"].get(name)
        if name in handed:
            outcome = Counter({str(verdict): (counts or {}).get(verdict, 0) for verdict in ImportVerdict})
            # If Redis is full, the next night, which finds all of it known, reports it.
            with suppress(OutOfMemoryError):
                handing.done(one, outcome=dict(+outcome), damaged=counts is None)


#: The longest one, as in an answer. A longer one is found by search alone. Characters.
MOST_FACT_CHARACTERS = 1_000
#: Facts in one call: Redis may be far away.
FACTS_AT_ONCE = 500


def is_fact(turn: Turn) -> bool:
    return turn.extra.get(FACT) is True and len(turn.content) <= MOST_FACT_CHARACTERS


def hand_over_facts(night: Night) -> int:
    """How many. A step that is repeated hands them over again, and a dispatcher that has carried one out does nothing for it."""
    facts = _exported_facts(night) if night.settings.has_day_store else iter(())
    count = 0
    while some := list(islice(facts, FACTS_AT_ONCE)):
        night.redis.rpush(keys.TAGS, *map(_asked, some))
        count += len(some)
    return count


def _exported_facts(night: Night) -> Iterator[Turn]:
    for record in stored_records(night.output("export") / RECORDS):
        with suppress(RecordRefused):
            if is_fact(turn := turn_of(record)):
                yield turn


def _asked(turn: Turn) -> bytes:
    """As dispatcher/memory/typed/tags.py reads it."""
    tag = {"number": 1, "kind": "REMEMBER", "text": turn.content, "options": {}}
    about = {"task_id": turn.task_id, "chat_id": turn.chat_id, "said_at": turn.timestamp, "session": ""}
    return dumps({**about, "tags": [tag]})
