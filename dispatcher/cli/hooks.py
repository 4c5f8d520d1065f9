"""What features add to the commands of `hmem` (shared/hooks.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.hooks import specification

if TYPE_CHECKING:
    from shared.system.command import CommandEntry


@specification(fails="open")
def commands() -> Sequence[CommandEntry] | None:
    """Commands of `hmem`: name, module with its typer `app`, and a line of help. The module is imported when the command is called."""


@specification(fails="open")
def memory_commands() -> Sequence[CommandEntry] | None:
    """The same of `hmem memory`."""
