"""The archive: every record that ever left Redis, in immutable segments, one file a run.

    archive/seg-<run>.jsonl     line 1      {"kind": "segment", "format": 2, "run": N[, "original": hash of the file before erasing]}
                                lines       {"kind": "turn" | "event" | "quarantine", "key", "redis_type", "value", "sha256"[, "reason"]}
                                            {"kind": "tombstone", "tombstone": {…}}
                                            {"kind": "erased", "key", "chat_id", "timestamp", "sha256"}   what remains of an erased record
                                last line   {"kind": "end", "lines": n, "sha256": hash of all bytes before this line}
    archive/texts-<run>.jsonl   the same format for what a model wrote (WRITER), so that a rebuild need not ask it again:
                                line 1      {"kind": "texts", "format": 2, "run": N}
                                lines       {"kind": "text", "key": hash of the model's input, "model", "digest", "chat_id", "text", "turns"}

`value` is the value in Redis, byte for byte (`value_base64`, `key_base64` if it is not UTF-8; for a key that is not a string, the bytes of
Redis' DUMP). `sha256` covers key, type and value: it is the record's identity, and flush relies on it. A turn is identified by
`task_id:role`; of its versions, the one of the highest run is recalled. A segment is written once, complete and durable, and is verified
with its last line each time it is read: a segment that fails is used neither for a build nor for a flush. A segment is rewritten only
for a tombstone that erases (nightly/archive/erasing.py); then it contains the hash of the original file.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nightly.night.failure import RESTORE
from shared.errors import ArchiveDamaged, FormatNewer
from shared.system.archive_folder import CAPTURE, archive_files, proven_hash, run_of
from shared.system.files import atomic_writer
from shared.turns.events import Event, texts_in
from shared.turns.records import RecordRefused, Tombstone, Turn, chat_id_of, dumps, timestamp_of, turn_key

#: A line of a segment.
Record = dict[str, Any]

FORMAT = 2


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

    @classmethod
    def proven(cls, record: dict[str, Any]) -> RawRecord:
        """The same, if it matches its hash."""
        raw = cls.from_json(record)
        if raw.sha256 != record["sha256"]:
            raise ValueError(f"record {record['sha256']} does not match its hash")
        return raw


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
class WrittenText:
    """What a model wrote about a chat. `key` is the hash of the model's input: if any of that changes, the text is not found.

    `turns`: the ids of the turns it was made from; empty if it was made from the whole chat.
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
            return texts_in(orjson.loads(self.text))
        except ValueError:
            return [self.text]

    def is_made_from(self, tombstone: Tombstone) -> bool:
        """Whether it may contain words of a turn that this tombstone covers."""
        if tombstone.chat_id != self.chat_id:
            return False
        return not self.turns or tombstone.turn_ids is None or not tombstone.turn_ids.isdisjoint(self.turns)


def segment_name(run: int) -> str:
    return f"seg-{run}.jsonl"


def is_texts(name: str) -> bool:
    """Whether a file of the archive has model-written texts; else it has records."""
    return name.startswith("texts-")


def kind_of(name: str) -> str:
    """What the first line of a file of this name says of its kind."""
    return "texts" if is_texts(name) else "capture" if name == CAPTURE else "segment"


def segment_runs(directory: Path) -> list[int]:
    """Runs that have a segment (of records, not of texts), ascending."""
    return [run for run, name in archive_files(directory) if name == segment_name(run)]


@dataclass(frozen=True)
class ArchivedTexts:
    """The model-written texts of the archive by key, in order of the runs, and the files that they are in: name -> sha256."""

    segments: dict[str, str] = field(default_factory=dict)
    texts: dict[str, WrittenText] = field(default_factory=dict)


def read_texts(directory: Path) -> ArchivedTexts:
    """All model-written texts, verified; ArchiveDamaged names the first file that fails."""
    found = ArchivedTexts()
    for _, name in archive_files(directory):
        if is_texts(name):
            segment = Segment(directory / name)
            found.texts.update({text.key: text for text in map(WrittenText.from_json, segment)})
            found.segments[name] = segment.sha256
    return found


def event_of(line: Record) -> Event:
    """The event of a line of the kind `event`."""
    raw = RawRecord.from_json(line)
    return Event.parse(raw.key, raw.value)


def turn_of(raw: RawRecord) -> Turn:
    """The turn of a record, whatever chat it says, or RecordRefused."""
    if raw.redis_type != "string":
        raise RecordRefused(f"the key is a {raw.redis_type}, not a string")
    return Turn.parse(raw.key, raw.value)


def readable_turn(raw: RawRecord) -> Turn | None:
    """The same; None for what is no turn, or cannot be read."""
    try:
        return turn_of(raw)
    except RecordRefused:
        return None


def parse_turn(raw: RawRecord, owner_of: Callable[[str], str | None]) -> Turn:
    """The turn of a record, or RecordRefused. A new version cannot move a turn into another chat; `owner_of`: that of a turn's id."""
    turn = turn_of(raw)
    if owner_of(turn.turn_id) not in (None, turn.chat_id):
        raise RecordRefused("an earlier version of this turn belongs to another chat")
    return turn


class Segment:
    """A file of the archive that matches its last line; ArchiveDamaged otherwise. Its lines are read one by one, as often as they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _named(path):
            sha256 = proven_hash(path)
            if sha256 is None:
                raise ValueError("its last line does not match its content")
            self.sha256 = sha256
            with path.open("rb") as handle:
                self.header: Record = orjson.loads(handle.readline())
            run, kind = self.header["run"], self.header["kind"]
            if (run, kind) != (run_of(path.name), kind_of(path.name)):
                raise ValueError(f"it contains another file: {kind} of run {run}")
            if self.header["format"] > FORMAT:
                raise FormatNewer(
                    f"Archive segment {path} has format {self.header['format']}, which a newer hcli-memory wrote; this program reads formats up "
                    f"to {FORMAT}, so it changed nothing. Install the newer one here, too."
                )

    @property
    def original(self) -> str | None:
        """The hash of the first file, if something was erased from it."""
        return self.header.get("original")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (record for _, _, record in self.lines())

    def lines(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """(start, length in bytes, record) of each line but the first and the last, each valid by itself; ArchiveDamaged at the end if the file is
        not what it was when it was opened."""
        with _named(self.path), self.path.open("rb") as handle:
            line = handle.readline()
            digest, start = hashlib.sha256(line), len(line)
            line = handle.readline()
            while following := handle.readline():  # the last line is no record
                record = orjson.loads(line)
                _refuse_unless_sound(record)
                yield start, len(line) - 1, record
                digest.update(line)
                start, line = start + len(line), following
            digest.update(line)
            if f"sha256:{digest.hexdigest()}" != self.sha256:
                raise ValueError("it was changed while it was read")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """ArchiveDamaged, with the segment's name, for what is wrong in it."""
    try:
        yield
    except OSError as error:
        raise ArchiveDamaged(f"Archive segment {path} cannot be read: {error.strerror}. {RESTORE}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # AttributeError: a line that is not an object
        raise ArchiveDamaged(
            f"Archive segment {path} is damaged: {error}. Nothing was built from it. {RESTORE}"
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
    else:
        RawRecord.proven(line)
        if kind == "event":
            event_of(line)


def write_texts(directory: Path, run: int, texts: Iterable[WrittenText]) -> None:
    """Write a file of model-written texts; an earlier attempt of this run may have left another one."""
    names = itertools.chain([f"texts-{run}.jsonl"], (f"texts-{run}.{attempt}.jsonl" for attempt in itertools.count(2)))
    path = next(directory / name for name in names if not (directory / name).exists())
    write_segment(path, run, (text.to_json() for text in texts), kind="texts")


def erased_since(old: Path, new: Path) -> bool:
    """Whether `new` is `old` after something was erased from it. False if either is damaged."""
    try:
        before, after = Segment(old), Segment(new)
        if after.original is None or after.original not in (before.sha256, before.original):
            return False
        left = iter(after)
        now = next(left, None)
        for line in before:
            if line == now or _is_what_remains(now, line):
                now = next(left, None)
            elif line["kind"] != "text":
                return False
    except ArchiveDamaged:
        return False
    return now is None


def _is_what_remains(now: Record | None, line: Record) -> bool:
    return now is not None and now["kind"] == "erased" and now["sha256"] == line.get("sha256")


def write_segment(
    path: Path, run: int | None, records: Iterable[Record], kind: str = "segment", original: str | None = None
) -> None:
    """Write a complete, durable segment of records; `original`: the hash of the file that it replaces, before anything was erased."""
    header: Record = {"kind": kind, "format": FORMAT, "run": run}
    if original:
        header["original"] = original
    digest, lines = hashlib.sha256(), 0
    with atomic_writer(path) as handle:
        for written in itertools.chain([orjson.dumps(header)], map(orjson.dumps, records)):
            line = written + b"\n"
            digest.update(line)
            lines += 1
            handle.write(line)
        handle.write(orjson.dumps({"kind": "end", "lines": lines, "sha256": f"sha256:{digest.hexdigest()}"}) + b"\n")
