"""What a reader of old history yields: candidates for the archive, and what it left out and why. Comparing with known turns happens later.

A candidate is a turn, as a Redis record as the wire would have written it. `unit` is the number of the file in the import: two equal turns in one
file are two turns; in different files they may be one.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nightly.archive.segments import RawRecord, turn_of
from shared.errors import InvalidInput
from shared.text.times import moment
from shared.turns.message_origin import Forward, Origin
from shared.turns.records import ANSWERS, FACT, RecordRefused, Turn, dumps, timestamp_of
from shared.wire import keys

BOM = b"\xef\xbb\xbf"

#: Clocks differ, and a file of local times names no zone: what is later than now by more than this is no time at which anything was said.
_AHEAD_SECONDS = 86_400

#: The only source whose bytes are those in Redis. Of the others, only the words are original.
VERBATIM = "jsonl"
#: The sources of what the bot and its chats may have recorded already, under other ids: their turns are also recognised by their words. All others
#: are of conversations elsewhere: the same "thanks" in both is two turns, and a repeated import is recognised by its ids.
OF_THE_BOT = frozenset(("audit", "chunks", "telegram"))


@dataclass(frozen=True)
class Candidate:
    """`record` is that of a turn."""

    source: str
    unit: int
    record: RawRecord
    #: Its import was undone, and it comes again under another id (only while imports are compared).
    again: bool = False

    @cached_property
    def turn(self) -> Turn:
        """RecordRefused for a record that is not a turn."""
        return turn_of(self.record)

    @property
    def verbatim(self) -> bool:
        return self.source == VERBATIM

    @property
    def by_words(self) -> bool:
        """Whether the same words at about the same time are the same turn."""
        return self.source in OF_THE_BOT

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "unit": self.unit, **self.record.to_json()}

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Candidate:
        """As `to_json` wrote it; ValueError, KeyError or TypeError for anything else."""
        return cls(line["source"], line["unit"], RawRecord.proven(line))


def come_again(candidate: Candidate, undone: Collection[str]) -> Candidate:
    """A turn whose import was undone comes again under another id, because the tombstone of the undoing names its earlier ones for ever."""
    turn = candidate.turn
    if turn.turn_id not in undone:
        return candidate
    extra, asked = dict(turn.extra), turn.extra.get(ANSWERS)
    if isinstance(asked, str):
        extra[ANSWERS] = _unused(asked, "user", undone)
    turn = replace(turn, task_id=_unused(turn.task_id, turn.role, undone), extra=extra)
    record = RawRecord(keys.turn(turn.task_id, turn.role).encode(), "string", turn.to_json())
    return replace(candidate, record=record, again=True)


def _unused(task_id: str, role: str, undone: Collection[str]) -> str:
    while f"{task_id}:{role}" in undone:
        task_id = made_up_id("again", task_id)
    return task_id


def turn_candidate(source: str, unit: int, turn: Turn) -> Candidate:
    """A turn of another format, as the wire would have written it; its source, if it names none, is stored in it."""
    marked = replace(turn, extra={**turn.extra, "source": turn.extra.get("source", source)})
    record = RawRecord(keys.turn(turn.task_id, turn.role).encode(), "string", marked.to_json())
    return Candidate(marked.extra["source"], unit, record)


def time_of(written: object, zone: ZoneInfo) -> float:
    """POSIX seconds of a number or an ISO 8601 text (in `zone` if it names none); RecordRefused otherwise."""
    try:
        return timestamp_of(moment(written, zone))
    except RecordRefused:
        raise
    except ValueError as error:
        raise RecordRefused("its time is not valid") from error


def noted_by(program: str) -> dict[str, Any]:
    """The further fields of a turn that holds one thing which another program remembered."""
    return {FACT: True} | Origin(forward=Forward(program)).to_json()


def made_up_id(prefix: str, *parts: object) -> str:
    """A task id that depends on these parts only: the same words of the same time get the same id from every file."""
    return f"{prefix}-{hashlib.sha256(dumps([*map(str, parts)])).hexdigest()[:32]}"


class MadeUpIds:
    """Task ids of what its program gives none: of equal ones the second has another id than the first, the same in a repeated or longer export."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._equal = prefix, Counter[str]()

    def next(self, *parts: object) -> str:
        """`parts`: what tells it."""
        first = made_up_id(self._prefix, *parts)
        self._equal[first] += 1
        number = self._equal[first]
        return first if number == 1 else made_up_id(self._prefix, *parts, number)


#: What stands in one place of a file: a turn, of JSON lines its record; or why it is left out; or nothing.
Found = Turn | RawRecord | str | None


@dataclass
class ReadCandidate:
    """The result for one place in a file: what was said there, or why it is unreadable or left out, or a note on the whole file. `done`: bytes of the
    file read so far. `candidate`: of what was said, if that is wanted; the reader leaves it out (formats.py)."""

    done: int
    said: Turn | RawRecord | None = None
    candidate: Candidate | None = None
    unreadable: str | None = None
    left_out: str | None = None
    place: str = ""
    note: str | None = None

    @classmethod
    def of(cls, done: int, place: str, look: Callable[[], Found]) -> ReadCandidate:
        """What `look` finds in this place; unreadable with its RecordRefused."""
        try:
            found = look()
        except RecordRefused as error:
            return cls(done, unreadable=str(error), place=place)
        return cls(done, left_out=found) if isinstance(found, str) else cls(done, found, place=place)

    def judge(self, source: str, unit: int, wanted: Wanted) -> None:
        """Make what was said a candidate, if that is wanted; unreadable if its time is still to come."""
        if self.said is None:
            return
        if isinstance(self.said, RawRecord):
            candidate = Candidate(source, unit, self.said)
        elif self.said.timestamp > time.time() + _AHEAD_SECONDS:
            self.unreadable = "its time is still to come"
            return
        else:
            candidate = turn_candidate(source, unit, self.said)
        self.left_out = wanted.refuses(candidate)
        self.candidate = None if self.left_out else candidate


@dataclass(frozen=True)
class Wanted:
    """The requested turns: from `since` up to, not including, `until` (POSIX seconds), of one chat."""

    since: float | None = None
    until: float | None = None
    chat: str | None = None

    def refuses(self, candidate: Candidate) -> str | None:
        """Why it is left out, or None."""
        turn = candidate.turn
        if self.chat is not None and turn.chat_id != self.chat:
            return "of another chat than --chat"
        if (self.since is not None and turn.timestamp < self.since) or (
            self.until is not None and turn.timestamp >= self.until
        ):
            return "outside --since and --until"
        return None


def lines_of(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """(number from 1, line without its end, bytes read so far) of a file without its blank lines; `-` is standard input."""
    done = 0
    with open_input(path) as handle:
        for number, line in enumerate(handle, start=1):
            done += len(line)
            bare = (line.removeprefix(BOM) if number == 1 else line).removesuffix(b"\n").removesuffix(b"\r")
            if bare.strip():
                yield number, bare, done


def open_input(path: Path) -> Any:
    """A binary stream; InvalidInput if there is none. Standard input is read as inherited: another user's file could not be reopened by name."""
    try:
        return os.fdopen(0, "rb", closefd=False) if str(path) == "-" else path.open("rb")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}. Check its name and permissions.") from error


def files_of(given: list[Path], pattern: str | None) -> list[Path]:
    """The files to read: each file as given, and for each directory all files below it that match the pattern, sorted; without one, all as given."""
    found: list[Path] = []
    for path in given:
        if str(path) != "-" and not path.exists():
            raise InvalidInput(f"{path} does not exist. Check the path.")
        inside = [path]
        if pattern is not None and path.is_dir():
            inside = sorted(inner for inner in path.rglob(pattern) if inner.is_file())
        if not inside:
            raise InvalidInput(
                f"There is no {pattern} in {path} or below it. Name the directory that contains the files."
            )
        found += inside
    return list(dict.fromkeys(found))
