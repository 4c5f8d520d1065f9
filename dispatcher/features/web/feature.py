"""The owner's page: what is remembered, how the nights went, and why each answer was what it was."""

from __future__ import annotations

from collections.abc import Sequence

from shared.hooks import hook
from shared.system.command import CommandEntry


@hook
def commands() -> Sequence[CommandEntry]:
    summary = (
        "The owner's page: what is remembered, and why each answer was what it was. Prints a link on its first line."
    )
    return [CommandEntry("web", "dispatcher.features.web.command", summary)]
