"""Qdrant: a collection for each release, all chats in it, told apart by the payload's `chat_id`; vectors and ids only, never a text.

    point     uuid5 of (chat id, chunk id); cosine; payload {chat_id, chunk_id}
    index     chat_id (keyword, is_tenant), made before the first point

The graph is one for each chat (m=0, payload_m), as Qdrant's guide to multitenancy says: every search is within a chat. `is_tenant` stores a
chat's vectors side by side, so they are left on disk: as many collections stand as there are releases, one of them is asked, and the page
cache keeps what of it is read.

`points_count` is an estimate, a count is not. What is deleted from a collection may stay in its segments for a while, so nothing is ever
deleted from one: a forget is a new collection, and the old one goes as a whole.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable, ReleaseRefused, SettingsError
from shared.text.format import in_batches
from shared.vectors import on_server
from shared.vectors.base import SAME, Corpus, Rows, VectorIndex, unreached
from shared.vectors.on_server import Served, ServedBackend, ServedBuilder
from shared.vectors.qdrant.server import NoAnswer, answered, client_of, patiently
from shared.vectors.qdrant.settings import QdrantSettings
from shared.vectors.searching import MOST_COMPARED

if TYPE_CHECKING:
    from qdrant_client import models

    from shared.embedding.models import Vectors

    #: (chat id, chunk id, its vector)
    Row = tuple[str, str, Sequence[float]]

#: What Qdrant answers where a collection of the name exists.
CONFLICT = 409
#: Links of a vector in the graph of its chat; the graph over all chats is not made.
CHAT_LINKS = 16
#: Of a request that writes points, without its last one; Qdrant takes 32 MB. A number of a vector is about 20 characters, 22 with what parts them.
REQUEST_BYTES, NUMBER_BYTES, POINT_BYTES = 8_000_000, 22, 300
#: Searches in one request of the proof.
ASKED_AT_ONCE = 100
#: Seconds that Qdrant has for the graph of a new collection, and between two looks at it.
INDEXING_SECONDS, LOOK_SECONDS = 600.0, 0.2
#: Of the ids of points: never change it.
NAMESPACE = uuid.UUID("0b7c2f0e-5d0a-4c53-9f3b-6a1d8e0f4c21")


@contextmanager
def _night(settings: Settings, seconds: float) -> Iterator[Any]:
    """A client; what is not answered is an IndexServerUnavailable."""
    try:
        with closing(client_of(settings, seconds)) as client:
            yield client
    except NoAnswer as error:
        raise IndexServerUnavailable(
            f"Qdrant is not available ({error}). Check that it runs and that QDRANT_URL and QDRANT_API_KEY are right, "
            "then run the night again."
        ) from error


def point_id(chat_id: str, chunk_id: str) -> str:
    """The length keeps ("a", "bc") and ("ab", "c") apart, whatever characters they have."""
    return str(uuid.uuid5(NAMESPACE, f"{len(chat_id)}:{chat_id}{chunk_id}"))


def index_of_chats() -> models.KeywordIndexParams:
    from qdrant_client import models

    return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)


def ensure(client: Any, name: str, dimensions: int) -> None:
    """The collection with its index of chats, whatever of it is there already. The name is new, so nothing else can be there."""
    from qdrant_client import models

    if not patiently(lambda: client.collection_exists(name)):
        # `on_disk` rather than `memory`, which replaces it: older servers know only the one.
        vectors = models.VectorParams(size=max(1, dimensions), distance=models.Distance.COSINE, on_disk=True)
        hnsw = models.HnswConfigDiff(m=0, payload_m=CHAT_LINKS)
        try:
            patiently(lambda: client.create_collection(name, vectors_config=vectors, hnsw_config=hnsw))
        except NoAnswer as error:
            if error.status != CONFLICT:  # else it was made by a request whose answer was lost
                raise
    if "chat_id" not in patiently(lambda: client.get_collection(name)).payload_schema:
        patiently(lambda: client.create_payload_index(name, "chat_id", field_schema=index_of_chats(), wait=True))


def refuse_other(name: str, found: Any, dimensions: int) -> None:
    """ReleaseRefused unless the collection is of this size (Qdrant has none of size 0; that of no vectors has 1) and compares by cosine."""
    vectors = found.config.params.vectors
    distance = getattr(vectors, "distance", None)
    has = (getattr(vectors, "size", None), distance and distance.value)
    if has != (max(1, dimensions), "Cosine"):
        raise ReleaseRefused(
            f"The Qdrant collection {name} holds vectors of {has[0]} dimensions, compared by {has[1]}; {max(1, dimensions)} and Cosine were "
            "expected. Run the night again."
        )


def _of_chat(chat_id: str) -> models.Filter:
    from qdrant_client import models

    return models.Filter(must=[models.FieldCondition(key="chat_id", match=models.MatchValue(value=chat_id))])


class QdrantBuilder(ServedBuilder):
    """Builds the collection of one release, always whole: Qdrant cannot copy one within a server, and what it had deleted it would carry along.

    So each night sends every vector: of 384 dimensions about 8 KB, 0.8 GB for 100,000. An attempt that fails leaves a collection that no
    release names; `sweep` removes it.
    """

    def refuse_unless_usable(self) -> None:

        if self._settings.of(QdrantSettings).qdrant_url is None:
            raise SettingsError(
                "NIGHT_INDEXES names qdrant, but QDRANT_URL is not set. Set it, or change NIGHT_INDEXES."
            )
        with _night(self._settings, on_server.DAY_SECONDS) as client, answered():
            client.get_collections()

    def _put(self, served: Served, corpus: Corpus) -> None:
        with _night(self._settings, on_server.NIGHT_SECONDS) as client:
            ensure(client, served.name, served.dimensions)
            for batch in _batches(corpus):
                patiently(partial(client.upsert, served.name, batch, wait=True))

    def _compare(self, served: Served, corpus: Corpus) -> int:
        with _night(self._settings, on_server.NIGHT_SECONDS) as client:
            _wait_until_indexed(client, served)
            chats = (_Chat(served.name, chat_id, *given) for chat_id, given in corpus.chats.items())
            not_reached = sum(chat.check(client) for chat in chats)
            total = patiently(lambda: client.count(served.name, exact=True).count)
        if total != len(corpus):
            raise ReleaseRefused(
                f"The Qdrant collection {served.name} holds {total} vectors, {len(corpus)} were given to it. Run the night again."
            )
        return not_reached

    def _names(self) -> list[str]:
        with _night(self._settings, on_server.NIGHT_SECONDS) as client:
            return [one.name for one in patiently(client.get_collections).collections]

    def _remove(self, gone: Sequence[str]) -> None:
        with _night(self._settings, on_server.NIGHT_SECONDS) as client:
            for name in gone:
                patiently(partial(client.delete_collection, name))


def _rows(corpus: Corpus) -> Iterator[Row]:
    for chat_id, (ids, vectors) in corpus.chats.items():
        for row, chunk_id in enumerate(ids):
            yield chat_id, chunk_id, vectors[row].tolist()


def _batches(corpus: Corpus) -> Iterator[models.Batch]:
    """All points, in requests of a bounded size."""
    return map(_batch, in_batches(_rows(corpus), REQUEST_BYTES, _bytes_of))


def _bytes_of(row: Row) -> int:
    """The most that a point takes in a request."""
    chat_id, chunk_id, vector = row
    return NUMBER_BYTES * len(vector) + 6 * (len(chat_id) + len(chunk_id)) + POINT_BYTES  # 6: an escaped character


def _batch(rows: Sequence[Row]) -> models.Batch:
    from qdrant_client import models

    return models.Batch(
        ids=[point_id(chat_id, chunk_id) for chat_id, chunk_id, _ in rows],
        vectors=[list(vector) for *_, vector in rows],
        payloads=[{"chat_id": chat_id, "chunk_id": chunk_id} for chat_id, chunk_id, _ in rows],
    )


def _wait_until_indexed(client: Any, served: Served) -> None:
    """Until Qdrant says that the collection is done; it must be of the right kind."""
    ends = time.monotonic() + INDEXING_SECONDS
    while True:
        found = patiently(lambda: client.get_collection(served.name))
        refuse_other(served.name, found, served.dimensions)
        status = found.status.value
        if status == "green":
            return
        if status == "red" or time.monotonic() > ends:
            error = getattr(found.optimizer_status, "error", "it has not finished its graph")
            raise IndexServerUnavailable(
                f"The Qdrant collection {served.name} is {status}, not green: {error}. Check the server's log, its disk and its memory, "
                "then run the night again."
            )
        time.sleep(LOOK_SECONDS)


@dataclass(frozen=True)
class _Chat:
    """What a chat must have in a collection."""

    collection: str
    chat_id: str
    ids: Sequence[str]
    vectors: Vectors

    @cached_property
    def known(self) -> frozenset[str]:
        return frozenset(self.ids)

    def check(self, client: Any) -> int:
        """ReleaseRefused if its vectors are not all there; how many of those asked for are stored but not reached by a search."""
        count = patiently(lambda: client.count(self.collection, count_filter=_of_chat(self.chat_id), exact=True).count)
        if count != len(self.ids):
            raise ReleaseRefused(f"Qdrant holds {count} of {len(self.ids)} vectors of a chat. Run the night again.")
        missed = partial(self._missed, client, exact=False)  # as the day asks
        return unreached("Qdrant", self.ids, missed, partial(self._missed, client, exact=True))

    def _missed(self, client: Any, rows: Rows, *, exact: bool) -> Rows:
        """The rows whose vectors do not find themselves; ReleaseRefused if one finds what was not stored like that."""
        missed: list[int] = []
        for part in in_batches(rows, ASKED_AT_ONCE):
            answers = self._ask(client, part, exact=exact)
            for row, answer in zip(part, answers, strict=True):
                hit = answer.points[0] if answer.points else None
                if hit is None or hit.score < 1 - SAME:
                    missed.append(row)
                elif not self._has(hit):
                    raise ReleaseRefused(
                        f"Qdrant has chunk {self.ids[row]} under another name than it was given. Run the night again."
                    )
        return missed

    def _ask(self, client: Any, rows: Sequence[int], *, exact: bool) -> list[Any]:
        from qdrant_client import models

        requests = [
            models.QueryRequest(
                query=self.vectors[row].tolist(),
                filter=_of_chat(self.chat_id),
                limit=1,
                with_payload=True,
                params=models.SearchParams(exact=exact),
            )
            for row in rows
        ]
        answers: list[Any] = patiently(lambda: client.query_batch_points(self.collection, requests))
        return answers

    def _has(self, hit: Any) -> bool:
        """Whether a point is one of the chat's, with all that stands in its payload."""
        chunk_id = (hit.payload or {}).get("chunk_id", "")
        payload = {"chat_id": self.chat_id, "chunk_id": chunk_id}
        return chunk_id in self.known and hit.id == point_id(self.chat_id, chunk_id) and hit.payload == payload


class QdrantBackend(ServedBackend):
    """Searches the collection of one release. The import alone takes over a second."""

    name = "qdrant"
    errors = (NoAnswer,)

    def _connect(self, served: Served) -> tuple[Any, Served]:
        client = client_of(self._settings, on_server.DAY_SECONDS)
        with answered():
            if not client.collection_exists(served.name):
                raise ReleaseRefused(
                    f"The Qdrant collection {served.name} of release {self._release.name} is gone. Run the night again."
                )
            found = client.get_collection(served.name)
            count = client.count(served.name, exact=True).count
        refuse_other(served.name, found, served.dimensions)
        if count != served.vectors:
            raise ReleaseRefused(
                f"The Qdrant collection {served.name} holds {count} vectors, release {self._release.name} has {served.vectors}. Run the night again."
            )
        return client, served

    def _found(self, index: tuple[Any, Served], vector: Vectors, chat_id: str) -> dict[str, float]:
        """Of the nearest MOST_COMPARED."""
        client, served = index
        if not served.vectors:
            return {}
        with answered():
            answer = client.query_points(
                served.name,
                query=vector.tolist(),
                query_filter=_of_chat(chat_id),
                limit=MOST_COMPARED,
                with_payload=["chat_id", "chunk_id"],
            )
            found = [(hit.payload or {}, float(hit.score)) for hit in answer.points]
        return {payload["chunk_id"]: score for payload, score in found if payload.get("chat_id") == chat_id}


INDEX = VectorIndex(QdrantBuilder, QdrantBackend)
