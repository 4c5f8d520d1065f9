"""The vector sets of an installation on a Redis 8, and how a release becomes a list of them; the same by day and by night.

    hcli:mem:vectors:part:<chat>:<digest>      vector set: some vectors of one chat, never changed; the digest is that of their ids and numbers
    hcli:mem:vectors:release:<index>           hash: "chat:<chat id>" -> the parts that the chat has in this release; "release" -> its totals

The parts of a chat are consecutive slices of it, in the order of time, cut by their number alone (`slices`), so a chat that grew has new ones
at its end only; from where something was forgotten or came in between, all are new. A build first lists its parts, which protects them from being
swept, and then sends what is not there as a whole. Releases share parts, and a part goes with the last release that lists it.

A part's key is made of the chat that is asked for, so a search cannot reach another chat, whatever a hash says; Redis needs no filter.
Vectors are stored as they are (NOQUANT: int8, the default, changes the order) and a search compares all of a part (TRUTH), which is exact.
So the graph that each vector set has is never walked, and is as small as Redis allows (M 4, EF 1). Redis sorts what it returns by insertion, so
all similarities of a chat cost the square of a part's size: hence PART_ROWS.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import orjson
import redis

from shared.text.format import in_batches
from shared.vectors.base import Corpus
from shared.vectors.on_server import Served
from shared.wire import keys

if TYPE_CHECKING:
    from shared.embedding.models import Vectors


#: Raise it when the same vectors would be stored in another way.
LAYOUT = 3
#: Rows, or keys, in one request: of 384 dimensions somewhat under 1 MB.
BATCH = 500
#: The most rows of a part, and the size up to which a chat's last part grows.
PART_ROWS, LEAST_ROWS = 1024, 64
#: The smallest graph that Redis makes.
LINKS, EXPLORED = 4, 1
#: Of how many vectors a lookup is told the similarity: each takes some microseconds, and the lookup has 300 ms.
MOST_TOLD = 10_000
#: Fields of a release's hash: its totals (empty while it is built or removed), and the prefix of a chat.
TOTALS, CHAT = b"release", b"chat:"


class NoSuchVectors(redis.RedisError):
    """A release or a part of one is not there as it should be."""


@dataclass(frozen=True)
class Part:
    """So many vectors of a chat, by what they are."""

    digest: str
    count: int

    @classmethod
    def of(cls, ids: Sequence[str], vectors: Vectors) -> Part:
        made = hashlib.blake2b(f"{LAYOUT} {vectors.shape[1]} ".encode(), digest_size=16)
        made.update("".join(f"{len(one)}:{one}" for one in ids).encode("utf-8"))
        made.update(np.ascontiguousarray(vectors, dtype="<f4").data)
        return cls(made.hexdigest(), len(ids))

    def key(self, chat_id: str) -> str:
        return keys.vector_part(hashlib.sha256(chat_id.encode("utf-8")).hexdigest(), self.digest)


def slices(rows: int) -> Iterator[slice]:
    """The parts of a chat with so many rows: all that fit of PART_ROWS, then one of each half that fits, then what is left."""
    start, size = 0, PART_ROWS
    while start < rows:
        while size > LEAST_ROWS and size > rows - start:
            size //= 2
        yield slice(start, min(start + size, rows))
        start += size


def parts_of(ids: Sequence[str], vectors: Vectors) -> list[Part]:
    """What a release lists of a chat that has these."""
    return [Part.of(ids[rows], vectors[rows]) for rows in slices(len(ids))]


def placed(chat_id: str, parts: Iterable[Part]) -> Iterator[tuple[str, slice]]:
    """(key, its rows of the chat) of each part."""
    start = 0
    for part in parts:
        yield part.key(chat_id), slice(start, start + part.count)
        start += part.count


def chat_field(chat_id: str) -> bytes:
    return CHAT + chat_id.encode("utf-8")


def as_bytes(vector: Vectors) -> bytes:
    return vector.astype("<f4").tobytes()


def unpacked(value: bytes, name: str) -> list[Part]:
    """The parts that a release lists of a chat; NoSuchVectors if that cannot be read."""
    try:
        return [Part(str(digest), int(count)) for digest, count in orjson.loads(value)]
    except (ValueError, TypeError) as error:
        raise NoSuchVectors(f"the list of a chat's vectors in {name} cannot be read") from error


def totals(served: Served) -> bytes:
    return orjson.dumps([served.vectors, served.dimensions])


def put(client: redis.Redis, served: Served, corpus: Corpus) -> None:
    """Make a release of the corpus. Its totals come last, so one that is not whole is never opened; its list comes first, so what it shares is
    not swept meanwhile, and a dead attempt leaves no part that nobody lists."""
    release = keys.vector_release(served.name)
    listed = {chat_id: parts_of(ids, vectors) for chat_id, (ids, vectors) in corpus.chats.items()}
    fields = {chat_field(chat_id): orjson.dumps([astuple(one) for one in parts]) for chat_id, parts in listed.items()}
    client.hset(release, mapping={TOTALS: b""})
    for names in in_batches(fields, BATCH):
        client.hset(release, mapping={name: fields[name] for name in names})
    for rows in in_batches(_lacking(client, corpus, listed), BATCH):
        _send(client, rows)
    client.hset(release, mapping={TOTALS: totals(served)})


def _lacking(client: redis.Redis, corpus: Corpus, listed: Mapping[str, list[Part]]) -> Iterator[tuple[str, str, bytes]]:
    """(key of its part, chunk id, vector) of each row of the parts that are not there as a whole."""
    wanted = ((chat_id, *one) for chat_id, parts in listed.items() for one in placed(chat_id, parts))
    for batch in in_batches(wanted, BATCH):
        counts = _cards(client, [key for _, key, _ in batch])
        for (chat_id, key, rows), count in zip(batch, counts, strict=True):
            if (more := count - (rows.stop - rows.start)) == 0:
                continue
            if more > 0:  # somebody added to it
                client.unlink(key)
            ids, vectors = corpus.chats[chat_id]
            for chunk_id, vector in zip(ids[rows], vectors[rows], strict=True):
                yield key, chunk_id, as_bytes(vector)


def _send(client: redis.Redis, rows: Iterable[tuple[str, str, bytes]]) -> None:
    with client.pipeline(transaction=False) as pipe:
        for key, chunk_id, vector in rows:
            _ask(pipe, "VADD", key, "FP32", vector, chunk_id, "NOQUANT", "EF", EXPLORED, "M", LINKS)
        pipe.execute()


def _cards(client: redis.Redis, names: Iterable[str]) -> list[int]:
    """How many vectors each of these sets has; 0 if it is not there."""
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            _ask(pipe, "VCARD", name)
        return [int(one) for one in pipe.execute()]


def chats_of(client: redis.Redis, name: str) -> dict[str, list[Part]]:
    """What a release lists; a list that somebody has damaged is empty."""
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


def releases(client: redis.Redis) -> list[str]:
    """All there, of whomever."""
    prefix = keys.vector_release("")
    found = client.scan_iter(match=f"{prefix}*", count=1000)
    return sorted({key.decode("utf-8", "replace").removeprefix(prefix) for key in found})


def scored(client: redis.Redis, name: str, chat_id: str, vector: Vectors) -> list[tuple[str, float]]:
    """(chunk id, similarity) of each of the chat's chunks in a release; in a chat of more than MOST_TOLD, of the nearest of each part.

    NoSuchVectors if the release, or one of the parts, is gone.
    """
    fields = client.hmget(keys.vector_release(name), [TOTALS, chat_field(chat_id)])
    whole, listed = cast("list[bytes | None]", fields)
    if not whole:
        raise NoSuchVectors(f"there are no vectors {name}")
    parts = unpacked(listed, name) if listed else []
    share = min(1.0, MOST_TOLD / max(sum(part.count for part in parts), 1))
    wanted = [(part, math.ceil(share * part.count)) for part in parts]
    found = list[tuple[str, float]]()
    with client.pipeline(transaction=False) as pipe:
        for part, most in wanted:
            _ask(pipe, "VSIM", part.key(chat_id), "FP32", as_bytes(vector), "WITHSCORES", "COUNT", most, "TRUTH")
        answers = pipe.execute()
    for (_, most), answer in zip(wanted, answers, strict=True):
        if len(answer) != 2 * most:
            raise NoSuchVectors(f"vectors of {name} are missing")
        # Redis' score is (1 + cosine) / 2.
        scores = zip(answer[::2], answer[1::2], strict=True)
        found += [(one.decode("utf-8"), 2.0 * float(score) - 1.0) for one, score in scores]
    return found


def stored(client: redis.Redis, key: str, ids: Sequence[str]) -> tuple[int, list[bytes]]:
    """How many vectors a set has, and the bytes (float32) of these chunks'; none of one that is not in it, or is rounded."""
    with client.pipeline(transaction=False) as pipe:
        _ask(pipe, "VCARD", key)
        for chunk_id in ids:
            _ask(pipe, "VEMB", key, chunk_id, "RAW")
        count, *answers = pipe.execute()
    return count, [one[1] if one and one[0] == b"f32" else b"" for one in answers]


def remove(client: redis.Redis, gone: Collection[str]) -> None:
    """Remove releases, and all parts that no other lists. They are closed first and forgotten last, so an attempt that dies is repeated."""
    for name in gone:
        client.hset(keys.vector_release(name), mapping={TOTALS: b""})
    parts = {key.decode() for key in client.scan_iter(match=keys.vector_part("*", "*"), count=1000)}
    # After the parts: a build lists them before it sends them.
    others = [name for name in releases(client) if name not in gone]
    for batch in in_batches(parts - _keys_of(client, others), BATCH):
        client.unlink(*batch)
    for name in gone:
        client.unlink(keys.vector_release(name))


def _keys_of(client: redis.Redis, names: Iterable[str]) -> set[str]:
    """Of all parts of these releases."""
    lists = (chats_of(client, name) for name in names)
    return {part.key(chat_id) for chats in lists for chat_id, parts in chats.items() for part in parts}


def _ask(pipe: Any, *command: object) -> None:
    """Queue a command on vector sets. (redis-py's own `vset` cannot parse VEMB … RAW for a client that does not decode.)"""
    pipe.execute_command(*command)
