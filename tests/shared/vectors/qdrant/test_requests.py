"""What goes over the wire to Qdrant when a release is built and switched to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.config.kinds import place_of
from shared.config.settings import Settings
from shared.vectors.qdrant import index as qdrant
from shared.vectors.qdrant.index import point_id
from tests.servers.qdrant_api import QdrantApi
from tests.support.night.index_world import DIMENSIONS
from tests.support.night.indexes.on_qdrant import built

QDRANT = place_of("qdrant")


def test_the_collection_and_its_indexes_are_made_before_the_first_point(
    api: QdrantApi, ours: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant, "REQUEST_BYTES", 50_000)
    served = built(ours, tmp_path / QDRANT, 17)
    assert served.name.startswith("hmem-17-")
    assert (served.vectors, served.dimensions) == (183, DIMENSIONS)
    writing = [(method, path.removeprefix(f"/collections/{served.name}")) for method, path, _ in api.requests if method != "GET"]  # fmt: skip
    assert writing[:2] == [("PUT", ""), ("PUT", "/index")]
    assert set(writing[2:]) == {("PUT", "/points")}
    assert api.asked(f"/collections/{served.name}")[0] == {
        "vectors": {"size": DIMENSIONS, "distance": "Cosine", "on_disk": True},
        "hnsw_config": {"m": 0, "payload_m": 16},
    }
    assert {one["field_name"]: one["field_schema"] for one in api.asked("/index")} == {
        "chat_id": {"type": "keyword", "is_tenant": True},
    }
    sent = [body["batch"] for body in api.asked("/points")]
    assert len(sent) > 2
    assert max(len(json.dumps(body)) for body in api.asked("/points")) <= 50_000
    points = {id_: payload for batch in sent for id_, payload in zip(batch["ids"], batch["payloads"], strict=True)}
    assert points[point_id("-100", "-100/7")] == {"chat_id": "-100", "chunk_id": "-100/7"}
    assert len(points) == 183


def test_ids_are_told_apart() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), ("a\x00b", "c"), ("a", "\x00bc"), ("1:", "a"), ("1", ":a")]  # fmt: skip
    assert len({point_id(*pair) for pair in pairs}) == len(pairs)
    assert point_id("9912", "t1:user#1") == "6058ea0d-1258-51d1-8a8e-99263c556872", "the ids of what is stored"
