"""A Qdrant of the tests: a stand-in, or the server that HMEM_TEST_QDRANT_URL names where a test needs no fault and no log of requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.config.settings import Settings, load_settings
from shared.vectors import on_server
from shared.vectors.qdrant import index as qdrant
from shared.vectors.qdrant import server as qdrant_server
from tests.servers.qdrant_api import QdrantApi, qdrant_settings
from tests.support.machine import hangs, slowness
from tests.support.night.indexes.on_qdrant import KEY


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses; and short limits where the server hangs."""
    monkeypatch.setattr(qdrant_server, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(qdrant, "LOOK_SECONDS", 0.001)
    if hangs(request):
        request.getfixturevalue("hanging")


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short limits; the client counts in whole seconds."""
    for name in ("DAY_SECONDS", "NIGHT_SECONDS"):
        monkeypatch.setattr(on_server, name, 2 * slowness())


@pytest.fixture
def api() -> Iterator[QdrantApi]:
    with QdrantApi(KEY) as running:
        yield running


@pytest.fixture
def ours(api: QdrantApi, tmp_path: Path) -> Settings:
    """Settings for the stand-in, with its key."""
    return load_settings(qdrant_url=api.url, qdrant_api_key=KEY, hmem_state_dir=tmp_path / "state")


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Settings for the stand-in or a real server."""
    with qdrant_settings() as overrides:
        yield load_settings(hmem_state_dir=tmp_path / "state", **overrides)
