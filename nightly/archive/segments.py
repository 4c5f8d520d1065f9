"""The archive: every record that ever left Redis, in immutable segments, one file a run.

    archive/seg-<run>.jsonl     line 1      {"kind": "segment", "format": 1, "run": N[, "original": hash of the file before anything was erased]}
                                lines       {"kind": "turn" | "quarantine", "key", "redis_type", "value", "sha256"[, "reason"]}
                                            {"kind": "tombstone", "tombstone": {…}}
                                            {"kind": "erased", "key", "chat_id", "timestamp", "sha256"}   what is left of a forgotten record
                                last line   {"kind": "end", "lines": n, "sha256": hash of all bytes before this line}
    archive/texts-<run>.jsonl   the same frame around what a model wrote (SUMMARY_MODEL), so that a rebuild need not ask it again:
                                line 1      {"kind": "texts", "format": 1, "run": N}
                                lines       {"kind": "text", "key": hash of all that it was written from, "model", "digest", "chat_id", "text"}

`value` is what stood in Redis, byte for byte (`value_base64`, `key_base64` where it is no UTF-8; for a key that is no string, the bytes of
Redis' DUMP). `sha256` covers key, type and value: it is the record's identity, and what flush relies on. Identity of a turn is
`task_id:role`; of its versions, the one of the highest run is recalled. A segment is written once, whole and durable, and is proven
by its last line each time it is read: nothing is built from, and nothing flushed against, a segment that fails. One thing alone rewrites
it: a tombstone that erases (nightly/archive/erasing.py); then it has format 2, and names the file that it once was.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from shared.errors import ArchiveDamaged
from shared.system.archive_folder import archive_files, is_proven, run_of
from shared.system.files import atomic_writer, sha256_file
from shared.turns.records import RecordRefused, Tombstone, Turn, chat_id_of, dumps, timestamp_of, turn_key

FORMAT, ERASED_FORMAT = 1, 2
#: Damaged copies that were put aside lie in this directory of the archive.
DAMAGED = "damaged"

_RESTORE = "Restore it from a copy; with ARCHIVE_MIRROR set, hmem-night verify --repair does that."


@dataclass(frozen=True)
class RawRecord:
    """A Redis key with its value. `redis_type` is `string`, or another type with `value` as DUMP gives it."""

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
            raise TypeError("redis_type is no text")
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
        raise TypeError(f"{name} is no text")
    return text.encode("utf-8")


@dataclass(frozen=True)
class ArchivedTurn:
    turn: Turn
    run: int
    record_sha256: str


@dataclass(frozen=True)
class WrittenText:
    """What a model wrote about a chat. `key` covers all that it was written from: change any of it, and the text is not found."""

    key: str
    model: str
    digest: str
    chat_id: str
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"kind": "text", **asdict(self)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> WrittenText:
        return cls(record["key"], record["model"], record["digest"], record["chat_id"], record["text"])


@dataclass(frozen=True)
class Erased:
    """What is left of a turn whose bytes are gone: that it was, whose, and when (POSIX seconds)."""

    chat_id: str
    timestamp: float
    run: int


@dataclass
class Archive:
    """All segments, read and proven."""

    segments: dict[str, str] = field(default_factory=dict)  # name -> sha256 of the file
    hashes: dict[str, str] = field(default_factory=dict)  # record sha256 -> segment that holds it
    versions: dict[str, ArchivedTurn] = field(default_factory=dict)  # turn id -> version of the highest run
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)  # record sha256 -> reason
    texts: dict[str, WrittenText] = field(default_factory=dict)  # by key, in order of the runs
    erased: dict[str, Erased] = field(
        default_factory=dict
    )  # turn id -> what is left of it; a later version may be in `versions`
    originals: dict[str, str] = field(
        default_factory=dict
    )  # name of a rewritten segment -> sha256 of the file that it was
    tombstone_runs: dict[str, int] = field(default_factory=dict)  # tombstone id -> run that archived it

    def turns(self) -> list[Turn]:
        """What may be recalled: the last version of every turn that no tombstone covers, in order of chat and time."""
        kept = [v.turn for v in self.versions.values() if not self._is_forgotten(v.turn)]
        return sorted(kept, key=lambda turn: (turn.chat_id, turn.timestamp, turn.task_id, turn.role != "user"))

    def turns_per_chat(self) -> dict[str, int]:
        """All turns, each counted once however many versions it has, by chat; those that were erased, too."""
        return dict(Counter([*(version.turn.chat_id for version in self.versions.values()), *self._gone()]))

    def forgotten_per_chat(self) -> dict[str, int]:
        """Turns that a tombstone covers or has erased, by chat; counted by itself, so that the ledger can hold it against `turns`."""
        covered = (v.turn.chat_id for v in self.versions.values() if self._is_forgotten(v.turn))
        return dict(Counter([*covered, *self._gone()]))

    def note_erased(self, line: dict[str, Any], run: int) -> None:
        """Take a line of an erased record: the turn as it was said last is gone, unless these were another chat's bytes under its id."""
        if line["key"] is None:
            return
        turn_id = ":".join(turn_key(line["key"].encode()))
        version, erased = self.versions.get(turn_id), self.erased.get(turn_id)
        owner = version.turn.chat_id if version else erased.chat_id if erased else line["chat_id"]
        if owner == line["chat_id"]:
            self.erased[turn_id] = Erased(owner, line["timestamp"], run)
            self.versions.pop(turn_id, None)

    def _gone(self) -> Iterator[str]:
        """The chat of each turn of which no version is left."""
        return (erased.chat_id for turn_id, erased in self.erased.items() if turn_id not in self.versions)

    def _is_forgotten(self, turn: Turn) -> bool:
        return any(tombstone.covers(turn) for tombstone in self.tombstones.values())


def segment_name(run: int) -> str:
    return f"seg-{run}.jsonl"


def segment_runs(directory: Path) -> list[int]:
    """Runs that have a segment (of records, not of texts), ascending."""
    return [run for run, name in archive_files(directory) if name == segment_name(run)]


def read_archive(directory: Path, *, before: int | None = None) -> Archive:
    """Read and prove all segments (those of runs below `before`); ArchiveDamaged names the one that fails."""
    archive = Archive()
    for run, name in archive_files(directory):
        if before is None or run < before:
            add_segment(archive, directory, run, name)
    return archive


def read_texts(directory: Path) -> Archive:
    """The model-written texts alone, with the hashes of their files."""
    archive = Archive()
    for run, name in archive_files(directory):
        if name.startswith("texts-"):
            add_segment(archive, directory, run, name)
    return archive


def add_segment(archive: Archive, directory: Path, run: int, name: str) -> None:
    """Read and prove one file into `archive`; ArchiveDamaged leaves that as it was."""
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
        try:  # whatever the line says of itself: a later program may read what an earlier one could not
            turn = parse_turn(raw, archive)
        except RecordRefused as error:
            archive.quarantined[record["sha256"]] = str(error)
            continue
        archive.versions[turn.turn_id] = ArchivedTurn(turn, run, record["sha256"])
    archive.segments[name] = sha256_file(directory / name)
    if original := header_of(directory / name).get("original"):
        archive.originals[name] = original


def parse_turn(raw: RawRecord, archive: Archive) -> Turn:
    """The turn of a record, or RecordRefused. A new version cannot move a turn into another chat."""
    if raw.redis_type != "string":
        raise RecordRefused(f"the key is a {raw.redis_type}, not a string")
    turn = Turn.parse(raw.key, raw.value)
    version, erased = archive.versions.get(turn.turn_id), archive.erased.get(turn.turn_id)
    known = version.turn.chat_id if version else erased.chat_id if erased else turn.chat_id
    if known != turn.chat_id:
        raise RecordRefused("an earlier version of this turn belongs to another chat")
    return turn


def read_segment(path: Path) -> Iterator[dict[str, Any]]:
    """The records of one segment, each proven by its hash and all by the last line; ArchiveDamaged otherwise."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArchiveDamaged(f"Archive segment {path} cannot be read: {error.strerror}. {_RESTORE}") from error
    try:
        head, _, last = content.removesuffix(b"\n").rpartition(b"\n")
        end, body = orjson.loads(last), head + b"\n"
        if not is_proven(content):
            raise ValueError("its last line does not fit its content")
        if content != body + orjson.dumps(end) + b"\n":
            raise ValueError("its last line is not as it was written")
        header, *lines = [orjson.loads(line) for line in body.splitlines()]
        if (header["run"], header["kind"]) != (run_of(path.name), "texts" if path.name[0] == "t" else "segment"):
            raise ValueError(f"another file lies under this name: {header['kind']} of run {header['run']}")
        if header["format"] > ERASED_FORMAT:
            raise ArchiveDamaged(
                f"Archive segment {path} has format {header['format']}; this program knows {ERASED_FORMAT}. Update it."
            )
        for line in lines:
            _refuse_unless_sound(line)
        yield from lines
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # the last of a line that is no object
        raise ArchiveDamaged(
            f"Archive segment {path} is damaged: {error}. Nothing was built from it. {_RESTORE}"
        ) from error


def _refuse_unless_sound(line: dict[str, Any]) -> None:
    """ValueError, KeyError, TypeError or AttributeError unless a reader can take the line as it is."""
    kind = line["kind"]
    if kind == "tombstone":
        Tombstone.parse(dumps(line["tombstone"]))
    elif kind == "text":
        if not all(isinstance(value, str) for value in vars(WrittenText.from_json(line)).values()):
            raise ValueError("a text has a field of another type")
    elif kind == "erased":
        if line["key"] is not None:
            turn_key(line["key"].encode())
            chat_id_of(line["chat_id"])
            timestamp_of(line["timestamp"])
        if not isinstance(line["sha256"], str):
            raise ValueError("an erased record has no hash")
    elif RawRecord.from_json(line).sha256 != line["sha256"]:
        raise ValueError(f"record {line['sha256']} does not fit its hash")


def write_texts(directory: Path, run: int, texts: Iterable[WrittenText]) -> None:
    """Write a file of model-written texts, beside one that an earlier attempt of this run may have left."""
    names = itertools.chain([f"texts-{run}.jsonl"], (f"texts-{run}.{attempt}.jsonl" for attempt in itertools.count(2)))
    path = next(directory / name for name in names if not (directory / name).exists())
    write_segment(path, run, (text.to_json() for text in texts), kind="texts")


def header_of(path: Path) -> dict[str, Any]:
    """The first line of a segment that was proven."""
    with path.open("rb") as handle:
        header: dict[str, Any] = orjson.loads(handle.readline())
    return header


def erased_since(old: Path, new: Path) -> bool:
    """Whether `new` is what `old` became when something was erased from it. Each must prove itself; False if one does not."""
    try:
        before, after = list(read_segment(old)), list(read_segment(new))
    except ArchiveDamaged:
        return False
    original = header_of(new).get("original")
    if original is None or original not in (sha256_file(old), header_of(old).get("original")):
        return False
    left = {line["sha256"] for line in after if line["kind"] == "erased"}
    kept = {orjson.dumps(line) for line in after if line["kind"] != "erased"}
    gone = [line for line in before if orjson.dumps(line) not in kept]
    return all(line["kind"] == "text" or line["sha256"] in left for line in gone)


def write_segment(
    path: Path, run: int, records: Iterable[dict[str, Any]], kind: str = "segment", original: str | None = None
) -> None:
    """Write a segment, whole and durable; `original` is the hash of the file that it takes the place of, before anything was erased."""
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
