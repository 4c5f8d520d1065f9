"""The ranked items of each chat in a part of `lexical/`: two tables, written once, read by chat, and kept in memory while they are asked for.

    items      a row a chat: the arrays that ranking needs, one value an item, in the order of time
    postings   a row for each chat and term: in which of the chat's items the term stands, and how often

The chat's number leads both keys: what another chat said is in other rows, and its terms count in no statistic of this one. Terms are FTS5's
own tokens (porter over unicode61, case and accents folded) of items and questions alike; an FTS5 table in memory makes them, of texts as
shared/text/writing.py prepares them (pairs of characters where words have no blanks, stems of other scripts): porter stems English only.

A chat may have rows in several parts. They are ranked as one: put in the order of time again, each posting counted among all of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from shared.ranking.question import asks, tells_time
from shared.ranking.scoring import Array, Features, Integers, Neighbours, Posting, Sides
from shared.ranking.tokeniser import Tokeniser
from shared.text.dates.named_times import Span
from shared.turns.chunk import turn_order
from shared.turns.speakers import Speaker, is_named, namesakes

SCHEMA = """
CREATE TABLE items (
  chat_no INTEGER PRIMARY KEY, chunk_ids BLOB NOT NULL, speakers BLOB NOT NULL, starts BLOB NOT NULL, lengths BLOB NOT NULL,
  tokens BLOB NOT NULL, said_by BLOB NOT NULL, flags BLOB NOT NULL, users BLOB NOT NULL
);
CREATE TABLE postings (
  chat_no INTEGER NOT NULL, term TEXT NOT NULL, ordinals BLOB NOT NULL, counts BLOB NOT NULL, PRIMARY KEY (chat_no, term)
) WITHOUT ROWID;
"""
_COLUMNS = "chunk_ids, speakers, starts, lengths, tokens, said_by, flags, users"

#: Bits of a chunk's flags. One more changes what a part holds: raise LAYOUT (lexical.py), else parts of earlier nights keep it 0.
ASKS, TIMED = 1, 2


def write_chat(connection: sqlite3.Connection, chat_no: int, entries: Sequence[Any], tokeniser: Tokeniser) -> None:
    """Write one chat's items; entries are (chunk_id, role, speaker, user id, text, started_at, indexed text) in the order of time."""
    n = len(entries)
    tokens = np.zeros(n, np.int32)

    def rows() -> Iterator[tuple[Any, ...]]:
        for term, (ordinals, counts) in tokeniser.postings([entry[6] for entry in entries]):
            tokens[ordinals] += counts  # a place stands once among those of a term
            places, often = ordinals.astype("<i4", copy=False), counts.astype("<u2", copy=False)
            yield chat_no, term, places.tobytes(), often.tobytes()

    connection.executemany("INSERT INTO postings (chat_no, term, ordinals, counts) VALUES (?,?,?,?)", rows())
    speakers: dict[Speaker, int] = {}
    said_by = [speakers.setdefault((role, name, user), len(speakers)) for _, role, name, user, *_ in entries]
    texts = [entry[4] for entry in entries]
    arrays = (
        np.array([entry[5] for entry in entries], "<f8"),
        np.array([len(text) for text in texts], "<i4"),
        tokens.astype("<i4"),
        np.array(said_by, "<i4"),
        np.array([ASKS * asks(text) + TIMED * tells_time(text) for text in texts], "u1"),
    )
    connection.execute(
        f"INSERT INTO items (chat_no, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)",  # noqa: S608 - constants
        (
            chat_no,
            orjson.dumps([entry[0] for entry in entries]),
            orjson.dumps([speaker[:2] for speaker in speakers]),
            *(array.tobytes() for array in arrays),
            orjson.dumps([user for _, _, user in speakers]),
        ),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Items:
    """Items of one chat in memory, in the order of time; arrays of shape (n,)."""

    chat_id: str
    speakers: list[Speaker]
    starts: NDArray[np.float64]  # POSIX seconds
    said_by: NDArray[np.int32]  # index into speakers
    features: Features

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def namesakes(self) -> dict[Speaker, str]:
        """The marks of speakers that share a name (shared/turns/speakers.py)."""
        return namesakes(self.speakers)

    def of_speakers(self, numbers: Sequence[int]) -> Array:
        """1 for items of these speakers."""
        return np.isin(self.said_by, numbers).astype(np.float32)

    def said_in(self, spans: Sequence[Span]) -> Array:
        """1 for items that were said in one of these times."""
        inside = np.zeros(len(self), np.float32)
        for first, end in spans:
            inside[np.searchsorted(self.starts, first) : np.searchsorted(self.starts, end)] = 1
        return inside


@dataclass(frozen=True, eq=False)
class Stretch:
    """A chat's rows in one part of the index: its number there, and their places among all items of the chat."""

    part: int
    chat_no: int
    places: NDArray[np.int32]


@dataclass(frozen=True, eq=False, kw_only=True)
class ChatItems(Items):
    """The items of one chat in a release."""

    stretches: tuple[Stretch, ...]
    chunk_ids: tuple[str, ...]
    _last_rows: dict[frozenset[str], Integers] = field(default_factory=dict, init=False, repr=False)

    def rows_of(self, turn_ids: frozenset[str]) -> Integers:
        """The rows of these turns. Kept until others are asked for: every id of the chat is looked at."""
        if (rows := self._last_rows.get(turn_ids)) is None:
            found = [row for row, name in enumerate(self.chunk_ids) if name.rpartition("#")[0] in turn_ids]
            rows = np.array(found, np.int32)
            self._last_rows.clear()
            self._last_rows[turn_ids] = rows
        return rows


@dataclass(frozen=True, eq=False)
class ChatRows:
    """A chat's row in one part, as it is stored; arrays of shape (n,)."""

    part: int
    chat_no: int
    chunk_ids: list[str]
    speakers: list[Speaker]
    starts: NDArray[np.float64]
    lengths: NDArray[np.int32]
    tokens: NDArray[np.int32]
    said_by: NDArray[np.int32]
    flags: NDArray[np.uint8]


def read_rows(connection: sqlite3.Connection, chat_id: str, part: int = 0) -> ChatRows | None:
    """None if the chat has none in this part; sqlite3.DatabaseError if the row is not whole."""
    row = connection.execute(
        f"SELECT c.chat_no, {_COLUMNS} FROM chats AS c JOIN items USING (chat_no) WHERE c.chat_id = ?",  # noqa: S608 - constants
        (chat_id,),
    ).fetchone()
    if row is None:
        return None
    chat_no, ids, speakers, *blobs, users = row
    chunk_ids = orjson.loads(ids)
    dtypes = ("<f8", "<i4", "<i4", "<i4", "u1")
    starts, lengths, tokens, said_by, flags = map(np.frombuffer, blobs, dtypes)
    if any(len(array) != len(chunk_ids) for array in (starts, lengths, tokens, said_by, flags)):
        raise sqlite3.DatabaseError(f"the items of chat number {chat_no} are not whole")
    pairs = orjson.loads(speakers)
    named = zip(pairs, orjson.loads(users), strict=True)
    said = [(role, name, user) for (role, name), user in named]
    return ChatRows(part, chat_no, chunk_ids, said, starts, lengths, tokens, said_by, flags)


def chat_items(chat_id: str, parts: Sequence[ChatRows]) -> ChatItems:
    """A chat's items of all parts as one: in the order of time, as if they had been written together."""
    ids = [chunk_id for part in parts for chunk_id in part.chunk_ids]
    starts = np.concatenate([part.starts for part in parts])
    order = np.arange(len(ids)) if len(parts) == 1 else _order(ids, starts)
    places = np.empty(len(ids), np.int32)
    places[order] = np.arange(len(ids), dtype=np.int32)
    lengths = np.concatenate([part.lengths for part in parts])[order].astype(np.float32)
    flags = np.concatenate([part.flags for part in parts])[order]
    speakers: dict[Speaker, int] = {}
    said_by = np.concatenate([_numbers(part, speakers)[part.said_by] for part in parts])[order]
    ends = np.cumsum([len(part.chunk_ids) for part in parts]).tolist()
    return ChatItems(
        chat_id=chat_id,
        stretches=tuple(
            Stretch(part.part, part.chat_no, places[end - len(part.chunk_ids) : end])
            for part, end in zip(parts, ends, strict=True)
        ),
        chunk_ids=tuple(ids[row] for row in order.tolist()),
        speakers=list(speakers),
        starts=starts[order],
        said_by=said_by,
        features=Features(
            tokens=np.concatenate([part.tokens for part in parts])[order].astype(np.float32),
            lengths=lengths,
            asks=(flags & ASKS > 0).astype(np.float32),
            timed=(flags & TIMED > 0).astype(np.float32),
            neighbours=Neighbours(lengths, starts[order]),
            sides=sides_of(speakers, said_by, lengths),
        ),
    )


def sides_of(speakers: Iterable[Speaker], said_by: NDArray[np.int32], lengths: Array) -> Sides:
    """The sides of items, given who said each."""
    unnamed = np.array([role != "user" and not is_named(role, name) for role, name, _ in speakers], bool)
    return Sides(unnamed[said_by], lengths)


def _order(ids: Sequence[str], starts: NDArray[np.float64]) -> NDArray[np.intp]:
    """By time; what was said in the same instant as one part would have it."""
    order = np.argsort(starts, kind="stable")
    same = starts[order[1:]] == starts[order[:-1]]
    tied = np.zeros(len(ids), bool)
    tied[1:] |= same
    tied[:-1] |= same
    places = np.flatnonzero(tied)
    order[places] = sorted(order[places].tolist(), key=lambda row: (starts[row], turn_order(ids[row])))
    return order


def _numbers(part: ChatRows, speakers: dict[Speaker, int]) -> NDArray[np.int32]:
    """The number, among all speakers of the chat, of each of this part's."""
    return np.array([speakers.setdefault(pair, len(speakers)) for pair in part.speakers], np.int32)


def read_postings(connection: sqlite3.Connection, stretch: Stretch, terms: Sequence[str]) -> dict[str, Posting]:
    """Where these terms stand in a chat's stretch, without missing ones, as places among all its items; sqlite3.DatabaseError if a row is damaged."""
    asked = dict.fromkeys(terms)
    marks = ",".join("?" * len(asked))
    rows = connection.execute(
        f"SELECT term, ordinals, counts FROM postings WHERE chat_no = ? AND term IN ({marks})",  # noqa: S608 - marks only
        (stretch.chat_no, *asked),
    )
    found = {term: (np.frombuffer(ordinals, "<i4"), np.frombuffer(counts, "<u2")) for term, ordinals, counts in rows}
    if any(len(one) != len(two) or not len(one) or one[-1] >= len(stretch.places) for one, two in found.values()):
        raise sqlite3.DatabaseError(f"the postings of chat number {stretch.chat_no} are not whole")
    return {term: (stretch.places[ordinals], counts) for term, (ordinals, counts) in found.items()}


def joined_postings(found: Sequence[dict[str, Posting]]) -> dict[str, Posting]:
    """The postings of a chat's stretches together, the terms in their order."""
    terms = sorted({term for postings in found for term in postings})
    return {term: _joined([postings[term] for postings in found if term in postings]) for term in terms}


def _joined(parts: Sequence[Posting]) -> Posting:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([ordinals for ordinals, _ in parts]), np.concatenate([counts for _, counts in parts])


def found_in(connection: sqlite3.Connection) -> tuple[dict[str, int], int]:
    """Of one part: the items of each chat, and how many rows belong to no chat."""
    chats = [chat_id for (chat_id,) in connection.execute("SELECT chat_id FROM chats")]
    (items,) = connection.execute("SELECT count(*) FROM items").fetchone()
    (others,) = connection.execute(
        "SELECT count(*) FROM postings WHERE chat_no NOT IN (SELECT chat_no FROM chats)"
    ).fetchone()
    return {chat_id: _own_items(connection, chat_id) for chat_id in chats}, others + abs(items - len(chats))


def _own_items(connection: sqlite3.Connection, chat_id: str) -> int:
    """How many items the chat has; -1 if they are not its own chunks, or its postings do not add up to the tokens of each of them."""
    items = read_rows(connection, chat_id)
    own = [row[0] for row in connection.execute("SELECT chunk_id FROM chunks WHERE chat_id = ?", (chat_id,))]
    if items is None or sorted(own) != sorted(items.chunk_ids):
        return -1
    rows = connection.execute("SELECT ordinals, counts FROM postings WHERE chat_no = ?", (items.chat_no,)).fetchall()
    ordinals = np.frombuffer(b"".join(row[0] for row in rows), "<i4")
    counts = np.frombuffer(b"".join(row[1] for row in rows), "<u2")
    if len(ordinals) != len(counts) or (len(ordinals) and not 0 <= ordinals.min() <= ordinals.max() < len(own)):
        return -1
    sums = np.bincount(ordinals, counts, minlength=len(own))
    return len(own) if np.array_equal(sums, items.tokens) else -1
