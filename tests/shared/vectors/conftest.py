"""What every index's tests share."""

from __future__ import annotations

import pytest

from shared.vectors import searching
from tests.support.night.index_world import MadeUp


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made = MadeUp()
    monkeypatch.setattr(searching, "open_embedder", lambda settings: made)
    return made
