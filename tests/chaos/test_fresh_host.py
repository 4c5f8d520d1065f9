"""A lost night host, restored from a copy and from the mirror; damaged segments on either side."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_an_empty_archive_cannot_shrink_memory_and_a_copy_brings_it_back(tmp_path: Path) -> None:
    found = prove("fresh-host", tmp_path, rounds=2)
    assert found.faults > 4, found.notes
