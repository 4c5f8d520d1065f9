"""A Python that takes its time, in the place of the one that reads documents and recordings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.machine import script

_SLOW = """#!{python}
import pathlib, time
for word in ("begun", "ended"):
    with pathlib.Path({said!r}).open("a") as said:
        said.write(word + " ")
    time.sleep(0.3)
print('{{"form": "text", "text": "words", "characters": 5, "pages": 0}}')
"""


@pytest.fixture
def begun_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A child answers with some words; when each has begun and ended."""
    python, said = tmp_path / "python", tmp_path / "said"
    said.touch()  # the walls of a child let it write to files that are there
    script(python, _SLOW.format(python=sys.executable, said=str(said)))
    monkeypatch.setattr(sys, "executable", str(python))
    return lambda: said.read_text().split()
