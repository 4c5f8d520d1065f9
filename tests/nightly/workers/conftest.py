from __future__ import annotations

import pytest

from tests.support.night.workers import make_nights_large


@pytest.fixture
def large_nights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nights of this test have workers, however little is said."""
    make_nights_large(monkeypatch)
