"""An environment without settings of ours."""

from __future__ import annotations

import pytest

from shared.config.settings import setting_names


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)
    return monkeypatch
