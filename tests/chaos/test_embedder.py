"""Some of the ways in which an embedder fails; tests/shared/embedding/test_ollama.py has each in detail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_a_failing_embedder_costs_a_night_and_nothing_else(tmp_path: Path) -> None:
    found = prove("embedder", tmp_path, rounds=1)
    assert found.faults == 3, found.notes
