"""The key and the address of a Qdrant: refused ones are named, and no key is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.config.settings import Settings, load_settings
from shared.errors import IndexServerUnavailable
from shared.vectors.qdrant.index import QdrantBuilder
from tests.servers.qdrant_api import QdrantApi
from tests.support.night.index_world import MadeUp, make_release, opened
from tests.support.night.indexes.on_qdrant import SAID


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
