"""What features add to the doctor (shared/hooks.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.hooks import specification

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.health.findings import Check


@specification(fails="open")
def checks() -> Sequence[Check] | None:
    """Checks of the feature for `hmem doctor`."""


@specification(fails="open")
def morning_line(client: Redis, run: int) -> tuple[str, str] | None:
    """What the feature tells of a good night in the morning report: a sentence without its full stop, and the command of a button below it."""
