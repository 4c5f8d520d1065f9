"""The vector sets of an installation on a Redis 8, and how a release becomes a list of them; the same by day and by night.

    hcli:mem:vectors:part:<index>:<chat>     vector set: vectors of one chat, written by the build of that index and never changed
    hcli:mem:vectors:release:<index>         hash: "chat:<chat id>" -> the parts that the chat has in this release; "release" -> its totals
    hcli:mem:vectors:current:<INDEX_NAME>    string: the index that the alias follows, for other programs

A chat's vectors are a row of parts, each a slice of the chat in the order of time. A build begins with a copy of the newest release's hash, so
chats without news cost nothing; of the others it keeps the leading parts whose slices are unchanged, merges small ones at the end as
log-structured stores do, and sends the remaining rows as one more part. Releases share parts, and a part goes with the last release that has it.

A part's key is made of the chat that is asked for, so a search cannot reach another chat, whatever a hash says; Redis needs no filter.
Vectors are stored as they are (NOQUANT: int8, the default, changes the order) and a search compares all of a part (TRUTH), which is exact.
So the graph that each vector set has is never walked, and is as small as Redis allows (M 4, EF 1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
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
#: Rows below which all parts of a chat are of the lowest level.
LEAST_ROWS = 64
#: The smallest graph that Redis makes.
LINKS, EXPLORED = 4, 1
#: Fields of a release's hash: its totals (empty while it is built or removed), and the prefix of a chat.
TOTALS, CHAT = b"release", b"chat:"


class Patiently(Protocol):
    """Makes a call that may be made twice, again if it failed for a reason that passes."""

    def __call__(self, call: Callable[[], T]) -> T: ...


class NoSuchVectors(redis.RedisError):
    """A release or a part of one is not there as it should be."""


@dataclass(frozen=True)
class Part:
    """So many consecutive vectors of a chat, which the build of `index` wrote; `digest` is that of their ids and numbers."""

    index: str
    count: int
    digest: str

    def key(self, chat_id: str) -> str:
        return keys.vector_part(self.index, hashlib.sha256(chat_id.encode("utf-8")).hexdigest())


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
    return orjson.dumps([[one.index, one.count, one.digest] for one in parts])


def unpacked(value: bytes, name: str) -> list[Part]:
    """NoSuchVectors if this is not what `packed` made."""
    try:
        return [Part(str(index), int(count), str(digest)) for index, count, digest in orjson.loads(value)]
    except (ValueError, TypeError) as error:
        raise NoSuchVectors(f"the list of a chat's vectors in {name} cannot be read") from error


def totals(served: Served) -> bytes:
    return orjson.dumps([served.vectors, served.dimensions])


def kept(parts: Sequence[Part], ids: Sequence[str], vectors: Vectors) -> list[Part]:
    """The leading parts that are slices of this chat as it is now."""
    found, start = list[Part](), 0
    for part in parts:
        rows = slice(start, start + part.count)
        if rows.stop > len(ids) or digest_of(ids[rows], vectors[rows]) != part.digest:
            break
        found.append(part)
        start = rows.stop
    return found


def not_merged(parts: Sequence[Part], new: int) -> list[Part]:
    """The parts that stay if so many rows are added: of FANOUT at the end that are no larger than the new one, all become one with it."""
    left, size = list(parts), new
    while new:
        small = 0
        while small < len(left) and level(left[-1 - small].count, LEAST_ROWS) <= level(size, LEAST_ROWS):
            small += 1
        if small < FANOUT - 1:
            break
        size += sum(one.count for one in left[len(left) - small :])
        del left[len(left) - small :]
    return left


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


def put(
    client: redis.Redis,
    served: Served,
    corpus: Corpus,
    base: str | None,
    patiently: Patiently,
) -> int:
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
        rows = sum(one.count for one in same)
        if before and same == before and rows == len(ids):
            continue
        parts = not_merged(same, len(ids) - rows)
        start = sum(one.count for one in parts)
        if start < len(ids):
            parts.append(Part(served.name, len(ids) - start, digest_of(ids[start:], vectors[start:])))
            sender.add(parts[-1].key(chat_id), ids[start:], vectors[start:])
        sender.fields[chat_field(chat_id)] = packed(parts)
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
    """What a release lists."""
    found: Any = client.hgetall(keys.vector_release(name))
    chats = {one.removeprefix(CHAT): value for one, value in found.items() if one.startswith(CHAT)}
    return {one.decode("utf-8"): unpacked(value, name) for one, value in chats.items()}


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


def nearest(client: redis.Redis, name: str, chat_id: str, vector: Vectors, k: int) -> list[Match]:
    """The chat's k nearest in a release, best first; NoSuchVectors if the release, or a part of the chat, is gone. k is 1 or more."""
    whole, listed = cast("list[bytes | None]", client.hmget(keys.vector_release(name), [TOTALS, chat_field(chat_id)]))
    if not whole:
        raise NoSuchVectors(f"there are no vectors {name}")
    parts = unpacked(listed, name) if listed is not None else []
    found = list[Match]()
    with client.pipeline(transaction=False) as pipe:
        for part in parts:
            _ask(pipe, "VSIM", part.key(chat_id), "FP32", as_bytes(vector), "WITHSCORES", "COUNT", k, "TRUTH")
        answers = pipe.execute()
    for part, answer in zip(parts, answers, strict=True):
        if len(answer) != 2 * min(k, part.count):
            raise NoSuchVectors(f"vectors of {name} are missing")
        # Redis' score is (1 + cosine) / 2.
        found += [
            Match(one.decode("utf-8"), 2.0 * float(score) - 1.0)
            for one, score in zip(answer[::2], answer[1::2], strict=True)
        ]
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
    for rest in _names(client, keys.vector_part("")):
        writer, key = rest.rpartition(":")[0], keys.vector_part("") + rest
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
