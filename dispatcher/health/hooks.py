"""What features add to the doctor (shared/hooks.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.hooks import specification

if TYPE_CHECKING:
    from dispatcher.health.findings import Check


@specification(fails="open")
def checks() -> Sequence[Check] | None:
    """Checks of the feature for `hmem doctor`."""
