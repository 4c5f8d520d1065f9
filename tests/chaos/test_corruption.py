"""A quarter of the corruptions that scripts/chaos tries; each is refused, and no index is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_a_damaged_release_is_refused_and_chroma_never_asked(tmp_path: Path) -> None:
    found = prove("corruption", tmp_path, rounds=4)
    assert found.faults > 80, found.notes
