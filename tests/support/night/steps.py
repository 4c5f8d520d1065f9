"""Other steps in the place of a night's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nightly import pipeline


def replace_step(monkeypatch: pytest.MonkeyPatch, name: str, function: Any) -> None:
    """The step of this name is this function until the patch is undone."""
    steps = tuple(replace(step, run=function) if step.name == name else step for step in pipeline.STEPS)
    monkeypatch.setattr(pipeline, "STEPS", steps)


def failing_step(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
    """The step of this name fails with this."""

    def fail(*_: object) -> None:
        raise error

    replace_step(monkeypatch, name, fail)
