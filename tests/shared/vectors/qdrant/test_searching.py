"""The day with Qdrant: a server that fails, and a collection that is not the release's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shared.config.kinds import place_of
from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable
from shared.vectors.on_server import read_served
from shared.vectors.qdrant.index import QdrantBackend, ensure
from tests.servers.qdrant_api import QdrantApi
from tests.support.night.index_world import MadeUp, make_release, nearest, opened
from tests.support.night.indexes.on_qdrant import KEY, SAID, delete, looking, lose

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

QDRANT = place_of("qdrant")


@pytest.fixture
def asked(ours: Settings, tmp_path: Path, embedder: MadeUp) -> Iterator[QdrantBackend]:
    """A backend that is open."""
    found = opened(ours, make_release(ours, tmp_path, ["qdrant"], SAID), "qdrant")
    assert isinstance(found, QdrantBackend)
    assert found.is_available(), found.why_not
    yield found
    found.close()


@pytest.mark.parametrize("fault", ["drop", "hang"])
def test_a_server_that_fails_closes_the_index_until_it_is_opened_again(
    api: QdrantApi, asked: QdrantBackend, fault: str
) -> None:
    api.fault = fault
    with pytest.raises(IndexServerUnavailable, match="the qdrant server is not available") as caught:
        nearest(asked, "note 7 of 1", "1", SAID)
    assert ("timed out" in str(caught.value)) == (fault == "hang"), "else the server gave up first"
    assert not asked.is_available()
    requests = len(api.requests)
    assert nearest(asked, "note 7 of 1", "1", SAID) == []
    assert len(api.requests) == requests, "nobody waits for it again"
    asked.open()
    assert "the qdrant server is not available" in (asked.why_not or "")
    assert KEY not in (asked.why_not or "")
    api.fault = "ok"
    asked.open()
    assert asked.why_not is None
    assert nearest(asked, "note 7 of 1", "1", SAID) == ["1/7"]


def _narrow(client: QdrantClient, name: str) -> None:
    client.delete_collection(name)
    ensure(client, name, 8)


GONE: dict[str, tuple[Callable[[QdrantClient, str], None], str]] = {
    "deleted": (delete, "is gone. Run the night again."),
    "fewer": (lose, "holds 182 vectors, release 1 has 183"),
    "another size": (_narrow, "holds vectors of 8 dimensions"),
}


@pytest.mark.parametrize("how", GONE)
def test_a_collection_that_is_not_the_releases_is_not_asked(
    settings: Settings, tmp_path: Path, embedder: MadeUp, how: str
) -> None:
    path = make_release(settings, tmp_path, ["qdrant"], SAID)
    found = opened(settings, path, "qdrant")
    harm, why = GONE[how]
    with looking(settings) as client:
        harm(client, read_served(path / QDRANT).name)
    if how == "deleted":
        with pytest.raises(IndexServerUnavailable, match="404, Not found"):
            nearest(found, "note 7 of 1", "1", SAID)
    found.close()
    found.open()
    assert why in (found.why_not or "")
    assert nearest(found, "note 7 of 1", "1", SAID) == []
    found.close()


def test_a_row_of_another_chat_does_not_come_out(api: QdrantApi, asked: QdrantBackend) -> None:
    search = api._query

    def careless(found: Any, asked: models.QueryRequest) -> Any:
        answer = search(found, asked)
        answer["points"][0]["payload"]["chat_id"] = "2"
        del answer["points"][1]["payload"]
        return answer

    api._query = careless  # type: ignore[method-assign]
    found = nearest(asked, "note 7 of 1", "1", SAID, 200)
    assert len(found) == 118
    assert "1/7" not in found
