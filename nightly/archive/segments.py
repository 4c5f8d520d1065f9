"""The archive: every record that ever left Redis, in immutable segments, one file a run.

    archive/seg-<run>.jsonl     line 1      {"kind": "segment", "format": 1, "run": N[, "original": hash of the file before erasing]}
                                lines       {"kind": "turn" | "quarantine", "key", "redis_type", "value", "sha256"[, "reason"]}
                                            {"kind": "tombstone", "tombstone": {…}}
                                            {"kind": "erased", "key", "chat_id", "timestamp", "sha256"}   what remains of an erased record
                                last line   {"kind": "end", "lines": n, "sha256": hash of all bytes before this line}
    archive/texts-<run>.jsonl   the same format for what a model wrote (SUMMARY_MODEL), so that a rebuild need not ask it again:
                                line 1      {"kind": "texts", "format": 1, "run": N}
                                lines       {"kind": "text", "key": hash of the model's input, "model", "digest", "chat_id", "text", "turns"}

`value` is the value in Redis, byte for byte (`value_base64`, `key_base64` if it is not UTF-8; for a key that is not a string, the bytes of
Redis' DUMP). `sha256` covers key, type and value: it is the record's identity, and flush relies on it. A turn is identified by
`task_id:role`; of its versions, the one of the highest run is recalled. A segment is written once, complete and durable, and is verified
with its last line each time it is read: a segment that fails is used neither for a build nor for a flush. A segment is rewritten only
for a tombstone that erases (nightly/archive/erasing.py); then it has format 2 and contains the hash of the original file.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson

from shared.errors import ArchiveDamaged
from shared.system.archive_folder import archive_files, is_proven, run_of
from shared.system.files import atomic_writer, sha256_file
from shared.turns.records import RecordRefused, Tombstone, Turn, chat_id_of, dumps, time_order, timestamp_of, turn_key

FORMAT, ERASED_FORMAT = 1, 2
#: Directory of the archive for damaged copies that were kept.
DAMAGED = "damaged"

_RESTORE = "Restore it from a copy; with ARCHIVE_MIRROR set, hmem-night verify --repair does that."


@dataclass(frozen=True)
class RawRecord:
    """A Redis key with its value. `redis_type` is `string`, or another type with `value` as returned by DUMP."""

    key: bytes
    redis_type: str
    value: bytes

    @property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for part in (self.key, self.redis_type.encode("ascii"), self.value):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return f"sha256:{digest.hexdigest()}"

    def to_json(self) -> dict[str, Any]:
        return {
            **_bytes_field("key", self.key),
            "redis_type": self.redis_type,
            **_bytes_field("value", self.value),
            "sha256": self.sha256,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> RawRecord:
        """As `to_json` wrote it; ValueError, KeyError or TypeError for anything else."""
        if not isinstance(record["redis_type"], str):
            raise TypeError("redis_type is not a string")
        return cls(_bytes_of("key", record), record["redis_type"], _bytes_of("value", record))


def stored_records(path: Path) -> Iterator[RawRecord]:
    """The records of a file of lines, as the export step writes it."""
    with path.open("rb") as handle:
        for line in handle:
            yield RawRecord.from_json(orjson.loads(line))


def _bytes_field(name: str, value: bytes) -> dict[str, str]:
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode("ascii")}


def _bytes_of(name: str, record: dict[str, Any]) -> bytes:
    text = record.get(name)
    if text is None:
        return base64.b64decode(record[f"{name}_base64"], validate=True)
    if not isinstance(text, str):
        raise TypeError(f"{name} is not a string")
    return text.encode("utf-8")


@dataclass(frozen=True)
class ArchivedTurn:
    turn: Turn
    run: int
    record_sha256: str


@dataclass(frozen=True)
class WrittenText:
    """What a model wrote about a chat. `key` is the hash of the model's input: if any of that changes, the text is not found.

    `turns`: the ids of those that it was made from; empty if it was made from the whole chat.
    """

    key: str
    model: str
    digest: str
    chat_id: str
    text: str
    turns: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"kind": "text", **asdict(self)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> WrittenText:
        """KeyError, TypeError if a field is missing or of another type. Without `turns` it is of the whole chat."""
        key, model, digest, chat_id, text = (record[name] for name in ("key", "model", "digest", "chat_id", "text"))
        turns = record.get("turns", [])
        if not isinstance(turns, list) or not all(
            isinstance(one, str) for one in (key, model, digest, chat_id, text, *turns)
        ):
            raise TypeError("a text has a field of another type")
        return cls(key, model, digest, chat_id, text, tuple(turns))

    @property
    def sayings(self) -> list[str]:
        """The sentences in it: of JSON each string, else the whole text."""
        try:
            read = orjson.loads(self.text)
        except ValueError:
            return [self.text]
        return list(_strings(read))

    def is_made_from(self, tombstone: Tombstone) -> bool:
        """Whether it may contain words of a turn that this tombstone covers."""
        if tombstone.chat_id != self.chat_id:
            return False
        return not self.turns or tombstone.turn_ids is None or not tombstone.turn_ids.isdisjoint(self.turns)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


@dataclass(frozen=True)
class Erased:
    """What remains of an erased turn: its chat and its time (POSIX seconds)."""

    chat_id: str
    timestamp: float
    run: int


@dataclass
class Archive:
    """All segments, read and verified."""

    segments: dict[str, str] = field(default_factory=dict)  # name -> sha256 of the file
    hashes: dict[str, str] = field(default_factory=dict)  # record sha256 -> segment that contains it
    versions: dict[str, ArchivedTurn] = field(default_factory=dict)  # turn id -> version of the highest run
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)  # record sha256 -> reason
    texts: dict[str, WrittenText] = field(default_factory=dict)  # by key, in order of the runs
    erased: dict[str, Erased] = field(default_factory=dict)  # turn id -> remains; `versions` may have a later one
    originals: dict[str, str] = field(default_factory=dict)  # name of a rewritten segment -> sha256 of the first file
    tombstone_runs: dict[str, int] = field(default_factory=dict)  # tombstone id -> run that archived it

    def turns(self) -> list[Turn]:
        """What may be recalled: the last version of every turn that no tombstone covers, in order of chat and time."""
        turns = [v.turn for v in self.versions.values() if not self._is_forgotten(v.turn)]
        return sorted(turns, key=lambda turn: (turn.chat_id, time_order(turn)))

    def owner_of(self, turn_id: str) -> str | None:
        """The chat of a turn that is archived or was erased."""
        known = self.versions.get(turn_id)
        owner = known.turn if known else self.erased.get(turn_id)
        return owner.chat_id if owner else None

    def turns_per_chat(self) -> dict[str, int]:
        """Number of turns by chat, erased ones included; each turn counts once, however many versions it has."""
        return dict(Counter([*(version.turn.chat_id for version in self.versions.values()), *self._gone()]))

    def forgotten_per_chat(self) -> dict[str, int]:
        """Number of turns by chat that a tombstone covers or has erased; counted independently, so that the ledger can compare it with `turns`."""
        covered = (v.turn.chat_id for v in self.versions.values() if self._is_forgotten(v.turn))
        return dict(Counter([*covered, *self._gone()]))

    def note_erased(self, line: dict[str, Any], run: int) -> None:
        """Add an erased record: the last version of the turn is gone, unless the record was of another chat under the same id."""
        if line["key"] is None:
            return
        turn_id = ":".join(turn_key(line["key"].encode()))
        owner = self.owner_of(turn_id) or line["chat_id"]
        if owner == line["chat_id"]:
            self.erased[turn_id] = Erased(owner, line["timestamp"], run)
            self.versions.pop(turn_id, None)

    def _gone(self) -> Iterator[str]:
        """The chat of each turn that has no version left."""
        return (erased.chat_id for turn_id, erased in self.erased.items() if turn_id not in self.versions)

    def _is_forgotten(self, turn: Turn) -> bool:
        return any(tombstone.covers(turn) for tombstone in self.tombstones.values())


def segment_name(run: int) -> str:
    return f"seg-{run}.jsonl"


def is_texts(name: str) -> bool:
    """Whether a file of the archive has model-written texts; else it has records."""
    return name.startswith("texts-")


def segment_runs(directory: Path) -> list[int]:
    """Runs that have a segment (of records, not of texts), ascending."""
    return [run for run, name in archive_files(directory) if name == segment_name(run)]


def read_archive(directory: Path, *, before: int | None = None) -> Archive:
    """Read and verify all segments (of runs below `before`); ArchiveDamaged names the first one that fails."""
    archive = Archive()
    for run, name in archive_files(directory):
        if before is None or run < before:
            add_segment(archive, directory, run, name)
    return archive


def read_texts(directory: Path) -> Archive:
    """The model-written texts alone, with the hashes of their files."""
    archive = Archive()
    for run, name in archive_files(directory):
        if is_texts(name):
            add_segment(archive, directory, run, name)
    return archive


def add_segment(archive: Archive, directory: Path, run: int, name: str) -> None:
    """Read one file into `archive` and verify it; ArchiveDamaged leaves `archive` unchanged."""
    for record in read_segment(directory / name):
        if record["kind"] == "erased":
            archive.hashes[record["sha256"]] = name
            archive.note_erased(record, run)
            continue
        if record["kind"] == "text":
            archive.texts[record["key"]] = WrittenText.from_json(record)
            continue
        if record["kind"] == "tombstone":
            tombstone = Tombstone.parse(orjson.dumps(record["tombstone"]))
            archive.tombstones[tombstone.tombstone_id] = tombstone
            archive.tombstone_runs.setdefault(tombstone.tombstone_id, run)
            continue
        raw = RawRecord.from_json(record)
        archive.hashes[record["sha256"]] = name
        try:  # whatever kind the line claims to be: a later program may read what an earlier one could not
            turn = parse_turn(raw, archive)
        except RecordRefused as error:
            archive.quarantined[record["sha256"]] = str(error)
            continue
        archive.versions[turn.turn_id] = ArchivedTurn(turn, run, record["sha256"])
    archive.segments[name] = sha256_file(directory / name)
    if original := header_of(directory / name).get("original"):
        archive.originals[name] = original


class Owners(Protocol):
    """What is known of the archive: all of it in memory, or its catalog."""

    def owner_of(self, turn_id: str) -> str | None: ...


def parse_turn(raw: RawRecord, known: Owners) -> Turn:
    """The turn of a record, or RecordRefused. A new version cannot move a turn into another chat."""
    if raw.redis_type != "string":
        raise RecordRefused(f"the key is a {raw.redis_type}, not a string")
    turn = Turn.parse(raw.key, raw.value)
    if known.owner_of(turn.turn_id) not in (None, turn.chat_id):
        raise RecordRefused("an earlier version of this turn belongs to another chat")
    return turn


def read_segment(path: Path) -> Iterator[dict[str, Any]]:
    """The records of one segment, verified by their hashes and by the last line; ArchiveDamaged otherwise."""
    return (record for _, _, record in segment_lines(path, segment_content(path)))


def segment_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArchiveDamaged(f"Archive segment {path} cannot be read: {error.strerror}. {_RESTORE}") from error


def segment_lines(path: Path, content: bytes) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(start, length in bytes, record) of each line of a segment with this content, verified as `read_segment` says."""
    try:
        head, _, last = content.removesuffix(b"\n").rpartition(b"\n")
        end, body = orjson.loads(last), head + b"\n"
        if not is_proven(content):
            raise ValueError("its last line does not match its content")
        if content != body + orjson.dumps(end) + b"\n":
            raise ValueError("its last line was modified")
        header, *lines = [orjson.loads(line) for line in head.split(b"\n")]
        if (header["run"], header["kind"]) != (run_of(path.name), "texts" if is_texts(path.name) else "segment"):
            raise ValueError(f"it contains another file: {header['kind']} of run {header['run']}")
        if header["format"] > ERASED_FORMAT:
            raise ArchiveDamaged(
                f"Archive segment {path} has format {header['format']}; this program reads up to {ERASED_FORMAT}. Update hcli-memory on this host."
            )
        for line in lines:
            _refuse_unless_sound(line)
        start = body.index(b"\n") + 1
        for line in lines:
            end_of_line = body.index(b"\n", start)
            yield start, end_of_line - start, line
            start = end_of_line + 1
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # AttributeError: a line that is not an object
        raise ArchiveDamaged(
            f"Archive segment {path} is damaged: {error}. Nothing was built from it. {_RESTORE}"
        ) from error


def _refuse_unless_sound(line: dict[str, Any]) -> None:
    """ValueError, KeyError, TypeError or AttributeError if the line is not valid."""
    kind = line["kind"]
    if kind == "tombstone":
        Tombstone.parse(dumps(line["tombstone"]))
    elif kind == "text":
        WrittenText.from_json(line)
    elif kind == "erased":
        if line["key"] is not None:
            turn_key(line["key"].encode())
            chat_id_of(line["chat_id"])
            timestamp_of(line["timestamp"])
        if not isinstance(line["sha256"], str):
            raise ValueError("an erased record has no hash")
    elif RawRecord.from_json(line).sha256 != line["sha256"]:
        raise ValueError(f"record {line['sha256']} does not match its hash")


def write_texts(directory: Path, run: int, texts: Iterable[WrittenText]) -> None:
    """Write a file of model-written texts; an earlier attempt of this run may have left another one."""
    names = itertools.chain([f"texts-{run}.jsonl"], (f"texts-{run}.{attempt}.jsonl" for attempt in itertools.count(2)))
    path = next(directory / name for name in names if not (directory / name).exists())
    write_segment(path, run, (text.to_json() for text in texts), kind="texts")


def header_of(path: Path) -> dict[str, Any]:
    """The first line of a verified segment."""
    with path.open("rb") as handle:
        header: dict[str, Any] = orjson.loads(handle.readline())
    return header


def erased_since(old: Path, new: Path) -> bool:
    """Whether `new` is `old` after something was erased from it. False if either is damaged."""
    try:
        before, after = list(read_segment(old)), list(read_segment(new))
    except ArchiveDamaged:
        return False
    original = header_of(new).get("original")
    if original is None or original not in (sha256_file(old), header_of(old).get("original")):
        return False
    left = {line["sha256"] for line in after if line["kind"] == "erased"}
    unchanged = {orjson.dumps(line) for line in after if line["kind"] != "erased"}
    gone = [line for line in before if orjson.dumps(line) not in unchanged]
    return all(line["kind"] == "text" or line["sha256"] in left for line in gone)


def write_segment(
    path: Path, run: int, records: Iterable[dict[str, Any]], kind: str = "segment", original: str | None = None
) -> None:
    """Write a complete, durable segment; `original` is the hash of the file that it replaces, before anything was erased."""
    digest, lines = hashlib.sha256(), 0
    records = list(records)
    erased = original is not None or any(record["kind"] == "erased" for record in records)
    header: dict[str, Any] = {"kind": kind, "format": ERASED_FORMAT if erased else FORMAT, "run": run}
    if original:
        header["original"] = original
    with atomic_writer(path) as handle:
        for record in (header, *records):
            line = orjson.dumps(record) + b"\n"
            digest.update(line)
            lines += 1
            handle.write(line)
        handle.write(orjson.dumps({"kind": "end", "lines": lines, "sha256": f"sha256:{digest.hexdigest()}"}) + b"\n")
