"""The restore drill, with few turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_the_archive_alone_makes_the_same_memory_on_an_empty_host(tmp_path: Path) -> None:
    found = prove("restore", tmp_path, rounds=1)
    assert found.rounds == 1, found.notes
