"""What we send to Qdrant, given to its engine in this process (qdrant-edge-py): whether a filter by chat finds what it should, and nothing else.

The client's models become the engine's field by field; a field that has no counterpart there fails the test. HTTP, aliases, and
the server's status are not in the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import qdrant_edge as edge

from shared.vectors.base import Corpus
from shared.vectors.qdrant import index as qdrant
from tests.support.night.index_world import corpus_of, notes, vector_of

if TYPE_CHECKING:
    from qdrant_client import models

#: Ids of chats that a careless comparison takes for another's, and the number of their turns.
CHATS = {"1": 300, "01": 40, "1 ": 40, "-1": 60, "a\x00b": 20, "a": 20, "é": 20, "e\u0301": 20, "A": 5, "*": 5}
CORPUS = corpus_of({chat: notes(chat, count) for chat, count in CHATS.items()})
K = 10


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[edge.EdgeShard]:
    """The collection of a release, with its graphs."""
    graph = edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10, payload_m=qdrant.CHAT_LINKS)
    vectors = edge.EdgeVectorParams(size=CORPUS.dimensions, distance=edge.Distance.Cosine, on_disk=True)
    optimizers = edge.EdgeOptimizersConfig(indexing_threshold=1)
    config = edge.EdgeConfig(vectors=vectors, hnsw_config=graph, optimizers=optimizers)
    with closing(edge.EdgeShard.create(str(tmp_path_factory.mktemp("shard")), config)) as made:
        made.update(edge.UpdateOperation.create_field_index("chat_id", index_of(qdrant.index_of_chats())))
        for batch in qdrant._batches(CORPUS):
            made.update(edge.UpdateOperation.upsert_points(points_of(batch)))
        while made.optimize():
            pass
        yield made


def index_of(wanted: models.KeywordIndexParams) -> edge.KeywordIndexParams:
    made: edge.KeywordIndexParams = edge.KeywordIndexParams(**wanted.model_dump(exclude_none=True, exclude={"type"}))
    return made


def points_of(batch: models.Batch) -> list[edge.Point]:
    vectors: Any = batch.vectors
    assert batch.payloads is not None
    return [edge.Point(*one) for one in zip(batch.ids, vectors, batch.payloads, strict=True)]


def filter_of(chat: str) -> edge.Filter:
    (condition,) = qdrant._of_chat(chat).model_dump(exclude_none=True).pop("must")
    (value,) = condition.pop("match").values()
    return edge.Filter(must=[edge.FieldCondition(**condition, match=edge.MatchValue(value))])


def nearest(shard: edge.EdgeShard, chat: str, vector: np.ndarray, k: int, *, exact: bool) -> list[edge.ScoredPoint]:
    return shard.query(
        edge.QueryRequest(
            limit=k,
            query=edge.Query.Nearest(vector.tolist()),
            filter=filter_of(chat),
            with_payload=True,
            params=edge.SearchParams(exact=exact),
        )
    )


def test_a_filter_counts_one_chat(shard: edge.EdgeShard) -> None:
    for chat, count in {**CHATS, "": 0, "2": 0, "1\x00": 0, "É": 0}.items():
        assert shard.count(edge.CountRequest(exact=True, filter=filter_of(chat))) == count, repr(chat)
    assert shard.count(edge.CountRequest(exact=True)) == len(CORPUS)


@pytest.mark.parametrize("exact", [True, False])
def test_a_search_is_within_one_chat(shard: edge.EdgeShard, exact: bool) -> None:
    """Questions are other chats' words, whose own vectors are nearer. As the night asks, and as the day does."""
    assert shard.info().indexed_vectors_count > 0, "there is a graph"
    right = []
    for chat in CHATS:
        for other in CHATS:
            vector = vector_of(f"note 3 of {other}")
            found = nearest(shard, chat, vector, K, exact=exact)
            payloads = [hit.payload or {} for hit in found]
            chunks = [one["chunk_id"] for one in payloads]
            assert {one["chat_id"] for one in payloads} == {chat}
            assert [str(hit.id) for hit in found] == [qdrant.point_id(chat, one) for one in chunks]
            wanted = best_of(CORPUS, chat, vector)
            assert len(found) == len(wanted)
            right.append(len({*chunks} & wanted) / len(wanted))
    assert np.mean(right) >= (1.0 if exact else 0.95)


def best_of(corpus: Corpus, chat: str, vector: np.ndarray) -> set[str]:
    names, vectors = corpus.chats[chat]
    return {names[row] for row in np.argsort(-(vectors @ vector))[:K]}


def test_what_is_stored_comes_back(shard: edge.EdgeShard) -> None:
    """The check of a night accepts each point: its id and chunk."""
    from qdrant_client import models

    for chat, (names, vectors) in CORPUS.chats.items():
        ours = qdrant._Chat("any", chat, names, vectors)
        for row in range(0, len(names), 7):
            (hit,) = nearest(shard, chat, vectors[row], 1, exact=True)
            assert ours._has(models.ScoredPoint(id=str(hit.id), version=0, score=hit.score, payload=hit.payload))
