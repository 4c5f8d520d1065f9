"""The night with Qdrant: the proof of an index, faults while it is built, and a key that is refused and not shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shared.config.kinds import place_of
from shared.config.settings import Settings, load_settings
from shared.errors import IndexServerUnavailable, ReleaseRefused
from shared.vectors.qdrant import index as qdrant
from shared.vectors.qdrant.index import QdrantBuilder, point_id
from tests.servers.qdrant_api import QdrantApi
from tests.support.night.index_world import MadeUp, make_release, opened, vector_of
from tests.support.night.indexes.on_qdrant import CORPUS, FAULTS, KEY, SAID, built, delete, looking, lose

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

QDRANT = place_of("qdrant")


def _put(client: QdrantClient, name: str, id_: str, text: str, payload: dict[str, Any]) -> None:
    from qdrant_client import models

    batch = models.Batch(ids=[id_], vectors=[vector_of(text).tolist()], payloads=[payload])
    client.upsert(name, batch, wait=True)


FIRST = point_id("1", "1/0")
DAMAGE: dict[str, tuple[Callable[[QdrantClient, str], None], str]] = {
    "a point is missing": (lose, "holds 119 of 120 vectors of a chat"),
    "a stranger's point": (
        lambda client, name: _put(client, name, point_id("2", "2/0"), "x", {"chat_id": "2", "chunk_id": "2/0"}),
        "holds 184 vectors, 183 were given",
    ),
    "another vector": (
        lambda client, name: _put(client, name, FIRST, "something else", {"chat_id": "1", "chunk_id": "1/0"}),
        "does not find the vector of chunk 1/0",
    ),
    "another chunk": (
        lambda client, name: _put(client, name, FIRST, "note 0 of 1", {"chat_id": "1", "chunk_id": "1/1"}),
        "has chunk 1/0 under another name",
    ),
    "no collection": (lambda client, name: delete(client, name), "404, Not found: Collection"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_proof_finds_what_is_wrong(settings: Settings, tmp_path: Path, damage: str) -> None:
    served, builder = built(settings, tmp_path / QDRANT), QdrantBuilder(settings, 1)
    checked = builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)
    assert (checked.vectors, checked.unreached) == ({"1": 120, "-100": 60, "anna": 3}, 0)
    harm, why = DAMAGE[damage]
    with looking(settings) as client:
        harm(client, served.name)
    with pytest.raises((ReleaseRefused, IndexServerUnavailable), match=why):
        builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)


def test_the_proof_waits_for_the_graph(
    api: QdrantApi, ours: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, builder = built(ours, tmp_path / QDRANT), QdrantBuilder(ours, 1)
    api.statuses = ["grey", "yellow", "yellow"]
    api.requests.clear()
    builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)
    assert [path for _, path, _ in api.requests[:5]] == [f"/collections/{served.name}"] * 4 + [
        f"/collections/{served.name}/points/count"
    ]
    api.statuses = ["red"]
    with pytest.raises(IndexServerUnavailable, match=r"is red, not green: no space left\. Check the server's log"):
        builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)
    monkeypatch.setattr(qdrant, "INDEXING_SECONDS", 0.0)
    api.statuses = ["yellow"] * 3
    with pytest.raises(IndexServerUnavailable, match="is yellow, not green: it has not finished its graph"):
        builder.check(tmp_path / QDRANT, tmp_path / "scratch", CORPUS)


@pytest.mark.parametrize("fault", [one for one in FAULTS if one != "hang"])
def test_what_does_not_pass_ends_the_night_with_a_sentence(
    api: QdrantApi, ours: Settings, tmp_path: Path, fault: str
) -> None:
    builder = QdrantBuilder(ours, 1)
    builder.refuse_unless_usable()
    api.fault = fault
    with pytest.raises(IndexServerUnavailable) as caught:
        builder.build(tmp_path / QDRANT, CORPUS)
    assert str(caught.value).startswith("Qdrant is not available (")
    assert str(caught.value).endswith("then run the night again.")
    assert KEY not in repr(caught.value)
    assert not (tmp_path / QDRANT).exists()


def test_a_key_that_is_refused_is_named_and_not_shown(
    api: QdrantApi, ours: Settings, tmp_path: Path, embedder: MadeUp
) -> None:
    release = make_release(ours, tmp_path, ["qdrant"], SAID)
    for wrong in (None, "an0ther"):
        other = load_settings(qdrant_url=api.url, qdrant_api_key=wrong, hmem_state_dir=tmp_path / "state")
        found = opened(other, release, "qdrant")
        assert "401, it refuses the key: set QDRANT_API_KEY" in (found.why_not or "")
        assert "an0ther" not in (found.why_not or "") + repr(found) + repr(other)
        found.close()
        with pytest.raises(IndexServerUnavailable, match="401, it refuses the key: set QDRANT_API_KEY"):
            QdrantBuilder(other, 1).refuse_unless_usable()
