"""The vector sets of an installation on a Redis 8, and how a release becomes a list of them; the same by day and by night.

    hcli:mem:vectors:part:<index>:<chat>:<n>   vector set: some vectors of one chat, written by the build of that index and never changed
    hcli:mem:vectors:release:<index>           hash: "chat:<chat id>" -> the parts that the chat has in this release; "release" -> its totals
    hcli:mem:vectors:current:<INDEX_NAME>      string: the index that the alias follows, for other programs

The parts of a chat are consecutive slices of it, in the order of time. A build begins with a copy of the newest release's hash, so chats without
news cost nothing; of the others it keeps the parts whose slices are unchanged, merges small ones at the end as log-structured stores do, and
sends the remaining rows as new parts. Releases share parts, and a part goes with the last release that has it.

A part's key is made of the chat that is asked for, so a search cannot reach another chat, whatever a hash says; Redis needs no filter.
Vectors are stored as they are (NOQUANT: int8, the default, changes the order) and a search compares all of a part (TRUTH), which is exact.
So the graph that each vector set has is never walked, and is as small as Redis allows (M 4, EF 1). Redis sorts what it returns by insertion, so
all similarities of a chat cost the square of a part's size: hence PART_ROWS.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np
import orjson
import redis

from shared.ranking.question import Match
from shared.release.parts import FANOUT, level
from shared.vectors.base import Corpus
from shared.vectors.on_server import Served
from shared.wire import keys

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

T = TypeVar("T")

#: Raise it when the same vectors would be stored in another way.
LAYOUT = 2
#: Rows, or keys, in one request: of 384 dimensions somewhat under 1 MB.
BATCH = 500
#: The most rows of a part, and the number below which all parts of a chat are of the lowest level.
PART_ROWS, LEAST_ROWS = 1000, 64
#: The smallest graph that Redis makes.
LINKS, EXPLORED = 4, 1
#: Of how many vectors a lookup is told the similarity: each takes some microseconds, and the lookup has 300 ms.
MOST_TOLD = 10_000
#: Fields of a release's hash: its totals (empty while it is built or removed), and the prefix of a chat.
TOTALS, CHAT = b"release", b"chat:"


class Patiently(Protocol):
    """Makes a call that may be made twice, again if it failed for a reason that passes."""

    def __call__(self, call: Callable[[], T]) -> T: ...


class NoSuchVectors(redis.RedisError):
    """A release or a part of one is not there as it should be."""


@dataclass(frozen=True)
class Part:
    """So many consecutive vectors of a chat, from chunk `first` on, which the build of `index` wrote as its part `number` of this chat."""

    index: str
    number: int
    first: str
    count: int
    digest: str  # of their ids and numbers

    def key(self, chat_id: str) -> str:
        return keys.vector_part(self.index, hashlib.sha256(chat_id.encode("utf-8")).hexdigest(), self.number)


def chat_field(chat_id: str) -> bytes:
    return CHAT + chat_id.encode("utf-8")


def digest_of(ids: Sequence[str], vectors: Vectors) -> str:
    made = hashlib.blake2b(f"{LAYOUT} {vectors.shape[1]} ".encode(), digest_size=16)
    made.update("".join(f"{len(one)}:{one}" for one in ids).encode("utf-8"))
    made.update(np.ascontiguousarray(vectors, dtype="<f4").data)
    return made.hexdigest()


def as_bytes(vector: Vectors) -> bytes:
    return vector.astype("<f4").tobytes()


def packed(parts: Iterable[Part]) -> bytes:
    return orjson.dumps([astuple(one) for one in parts])


def unpacked(value: bytes, name: str) -> list[Part]:
    """NoSuchVectors if this is not what `packed` made."""
    try:
        rows = orjson.loads(value)
        return [
            Part(str(index), int(number), str(first), int(count), str(digest))
            for index, number, first, count, digest in rows
        ]
    except (ValueError, TypeError) as error:
        raise NoSuchVectors(f"the list of a chat's vectors in {name} cannot be read") from error


def totals(served: Served) -> bytes:
    return orjson.dumps([served.vectors, served.dimensions])


def kept(parts: Sequence[Part], ids: Sequence[str], vectors: Vectors) -> list[tuple[int, Part]]:
    """The parts that are slices of this chat as it is now, each with the row that it begins with, in their order."""
    rows = {chunk_id: row for row, chunk_id in enumerate(ids)} if parts else {}
    found = list[tuple[int, Part]]()
    for part in parts:
        start = rows.get(part.first, len(ids))
        here = slice(start, start + part.count)
        if here.stop <= len(ids) and digest_of(ids[here], vectors[here]) == part.digest:
            found.append((start, part))
    return sorted(found, key=lambda one: one[0])


def not_merged(parts: Sequence[tuple[int, Part]], rows: int) -> list[tuple[int, Part]]:
    """The parts that stay if a chat grows to so many rows: of FANOUT at the end that are no larger than the new one, all become one with it."""
    left = list(parts)
    while left and (size := rows - left[-1][0] - left[-1][1].count):
        small = 0
        for _, part in reversed(left):
            if part.count >= PART_ROWS or level(part.count, LEAST_ROWS) > level(size, LEAST_ROWS):
                break
            small += 1
        if small < FANOUT - 1:
            break
        del left[len(left) - small :]
    return left


def _arranged(
    name: str, same: Sequence[tuple[int, Part]], ids: Sequence[str], vectors: Vectors
) -> Iterator[tuple[Part, int | None]]:
    """All parts of a chat in their order, those that stay and new ones for the rows between and after them; of a new one also its first row."""
    row, numbers = 0, count()
    for start, part in [*not_merged(same, len(ids)), (len(ids), None)]:
        for first in range(row, start, PART_ROWS):
            rows = slice(first, min(first + PART_ROWS, start))
            size, digest = rows.stop - first, digest_of(ids[rows], vectors[rows])
            yield Part(name, next(numbers), ids[first], size, digest), first
        if part is not None:
            yield part, None
            row = start + part.count


@dataclass
class _Sender:
    """Sends rows in batches, and the fields of chats after their rows."""

    client: redis.Redis
    release: str
    patiently: Patiently
    rows: list[tuple[str, str, bytes]] = field(default_factory=list)
    fields: dict[bytes, bytes] = field(default_factory=dict)
    sent: int = 0

    def add(self, key: str, ids: Sequence[str], vectors: Vectors) -> None:
        for chunk_id, vector in zip(ids, vectors, strict=True):
            self.rows.append((key, chunk_id, as_bytes(vector)))
            if len(self.rows) >= BATCH:
                self.flush()

    def flush(self) -> None:
        if self.rows or self.fields:
            self.patiently(self._send)
        self.sent += len(self.rows)
        self.rows, self.fields = [], {}

    def _send(self) -> None:
        with self.client.pipeline(transaction=False) as pipe:
            for key, chunk_id, vector in self.rows:
                _ask(pipe, "VADD", key, "FP32", vector, chunk_id, "NOQUANT", "EF", EXPLORED, "M", LINKS)
            if self.fields:
                pipe.hset(self.release, mapping=self.fields)  # type: ignore[arg-type]
            pipe.execute()


def put(client: redis.Redis, served: Served, corpus: Corpus, base: str | None, patiently: Patiently) -> int:
    """Make a release of the corpus, from the release `base` on; returns how many rows were sent.

    Its totals come last, so a release that is not whole is never opened; until then its hash protects the parts that it shares.
    """
    release = keys.vector_release(served.name)
    patiently(lambda: _begin(client, release, base))
    held = patiently(lambda: chats_of(client, served.name))
    whole = patiently(lambda: _whole(client, held))
    sender = _Sender(client, release, patiently)
    for chat_id, (ids, vectors) in corpus.chats.items():
        before = held.pop(chat_id, [])
        same = kept(before, ids, vectors) if chat_id in whole else []
        if before and len(same) == len(before) and sum(one.count for one in before) == len(ids):
            continue
        arranged = list(_arranged(served.name, same, ids, vectors))
        for part, first in arranged:
            if first is not None:
                rows = slice(first, first + part.count)
                sender.add(part.key(chat_id), ids[rows], vectors[rows])
        sender.fields[chat_field(chat_id)] = packed(part for part, _ in arranged)
    sender.flush()
    for gone in _batches(held):
        patiently(lambda gone=gone: client.hdel(release, *map(chat_field, gone)))  # type: ignore[misc]
    patiently(lambda: client.hset(release, mapping={TOTALS: totals(served)}))
    return sender.sent


def _begin(client: redis.Redis, release: str, base: str | None) -> None:
    with client.pipeline(transaction=True) as pipe:
        if base is not None:
            pipe.copy(keys.vector_release(base), release, replace=True)
        pipe.hset(release, mapping={TOTALS: b""})
        pipe.execute()


def _whole(client: redis.Redis, held: Mapping[str, Sequence[Part]]) -> set[str]:
    """The chats of which no part has got lost."""
    wanted = [(chat_id, part) for chat_id, parts in held.items() for part in parts]
    counts = cards(client, [part.key(chat_id) for chat_id, part in wanted])
    return held.keys() - {chat_id for (chat_id, part), count in zip(wanted, counts, strict=True) if count != part.count}


def cards(client: redis.Redis, names: Sequence[str]) -> list[int]:
    """How many vectors each of these sets has; 0 if it is not there."""
    found = list[int]()
    for batch in _batches(names):
        with client.pipeline(transaction=False) as pipe:
            for name in batch:
                _ask(pipe, "VCARD", name)
            found += [int(one) for one in pipe.execute()]
    return found


def chats_of(client: redis.Redis, name: str) -> dict[str, list[Part]]:
    """What a release lists; a list that somebody has damaged is empty, so the next build writes it anew."""
    found: Any = client.hgetall(keys.vector_release(name))
    chats = dict[str, list[Part]]()
    for one, value in found.items():
        if one.startswith(CHAT):
            parts = chats[one.removeprefix(CHAT).decode("utf-8", "replace")] = []
            with suppress(NoSuchVectors):
                parts += unpacked(value, name)
    return chats


def state(client: redis.Redis, name: str) -> bytes | None:
    """The totals of a release; empty if it is not whole, None if it is not there."""
    found: Any = client.hget(keys.vector_release(name), TOTALS)
    return found  # type: ignore[no-any-return]


def newest(client: redis.Redis, is_ours: Callable[[str], bool]) -> str | None:
    """The whole release of the highest run."""
    names = sorted(filter(is_ours, releases(client)), key=lambda name: int(name.rsplit("-", 2)[1]), reverse=True)
    return next((name for name in names if state(client, name)), None)


def releases(client: redis.Redis) -> list[str]:
    """All there, of whomever."""
    return sorted(set(_names(client, keys.vector_release(""))))


def _names(client: redis.Redis, prefix: str) -> Iterator[str]:
    """What follows this prefix in the keys that have it."""
    for key in client.scan_iter(match=f"{prefix}*", count=1000):
        yield key.decode("utf-8", "replace").removeprefix(prefix)


def scored(client: redis.Redis, name: str, chat_id: str, vector: Vectors, k: int | None = None) -> list[Match]:
    """The chat's k nearest in a release, best first. If k is None, all of it, of more than MOST_TOLD the nearest of each part.

    NoSuchVectors if the release, or one of the parts, is gone.
    """
    fields = client.hmget(keys.vector_release(name), [TOTALS, chat_field(chat_id)])
    whole, listed = cast("list[bytes | None]", fields)
    if not whole:
        raise NoSuchVectors(f"there are no vectors {name}")
    parts = unpacked(listed, name) if listed else []
    share = min(1.0, MOST_TOLD / max(sum(part.count for part in parts), 1))
    wanted = [(part, min(k, part.count) if k else math.ceil(share * part.count)) for part in parts]
    found = list[Match]()
    with client.pipeline(transaction=False) as pipe:
        for part, most in wanted:
            _ask(pipe, "VSIM", part.key(chat_id), "FP32", as_bytes(vector), "WITHSCORES", "COUNT", most, "TRUTH")
        answers = pipe.execute()
    for (_, most), answer in zip(wanted, answers, strict=True):
        if len(answer) != 2 * most:
            raise NoSuchVectors(f"vectors of {name} are missing")
        # Redis' score is (1 + cosine) / 2.
        scores = zip(answer[::2], answer[1::2], strict=True)
        found += [Match(one.decode("utf-8"), 2.0 * float(score) - 1.0) for one, score in scores]
    return sorted(found, key=lambda match: -match.score)[:k]


def stored(client: redis.Redis, key: str, ids: Sequence[str]) -> list[Vectors | None]:
    """The vectors of these chunks in a set, as they are; None for one that is not in it, or is rounded."""
    with client.pipeline(transaction=False) as pipe:
        for chunk_id in ids:
            _ask(pipe, "VEMB", key, chunk_id, "RAW")
        answers = pipe.execute()
    return [np.frombuffer(one[1], "<f4") if one and one[0] == b"f32" else None for one in answers]


def follow(client: redis.Redis, index_name: str, name: str) -> bool:
    """Have the alias name this release; whether it is there."""
    there = bool(state(client, name))
    if there:
        client.set(keys.vector_alias(index_name), name)
    return there


@dataclass(frozen=True)
class Left:
    """What is to be removed: releases, the keys of parts that no other release has, and who wrote those of them that no release has at all."""

    releases: list[str]
    parts: list[str]
    writers: set[str]

    @property
    def names(self) -> list[str]:
        return sorted({*self.releases, *self.writers})


def left_over(client: redis.Redis, is_left: Callable[[str], bool], may_go: Callable[[str], bool]) -> Left:
    """`is_left`: whether a release is to go; `may_go`: whether parts that the build of this index wrote may, if no other release has them."""
    there = releases(client)
    gone = [name for name in there if is_left(name)]
    used, theirs = _parts_of(client, set(there).difference(gone)), _parts_of(client, gone)
    parts, writers = list[str](), set[str]()
    for rest in _names(client, keys.VECTOR_PARTS_PREFIX):
        writer, key = rest.partition(":")[0], keys.VECTOR_PARTS_PREFIX + rest
        if key not in used and may_go(writer):
            parts.append(key)
            if key not in theirs:
                writers.add(writer)
    return Left(gone, parts, writers)


def _parts_of(client: redis.Redis, names: Iterable[str]) -> set[str]:
    """The keys of all parts of these releases."""
    lists = (chats_of(client, name) for name in names)
    return {part.key(chat_id) for chats in lists for chat_id, parts in chats.items() for part in parts}


def remove(client: redis.Redis, left: Left, index_name: str) -> None:
    """Releases are closed first and forgotten last, so an attempt that dies is repeated."""
    for name in left.releases:
        client.hset(keys.vector_release(name), mapping={TOTALS: b""})
    for batch in _batches(left.parts):
        client.unlink(*batch)
    for name in left.releases:
        client.unlink(keys.vector_release(name))
    alias, leads = keys.vector_alias(index_name), set[Any](name.encode() for name in left.releases)
    if client.get(alias) in leads:
        client.unlink(alias)


def _ask(pipe: Any, *command: object) -> None:
    """Queue a command on vector sets. (redis-py's own `vset` cannot parse VEMB … RAW for a client that does not decode.)"""
    pipe.execute_command(*command)


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while batch := list(islice(rest, BATCH)):
        yield batch
