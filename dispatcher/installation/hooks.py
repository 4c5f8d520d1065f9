"""What features add to an installation (shared/hooks.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.hooks import specification

if TYPE_CHECKING:
    from dispatcher.installation.init.in_progress import InstallationInProgress
    from dispatcher.installation.layout import Service
    from shared.config.settings import Settings


@specification(fails="closed")
def init_questions(installation: InstallationInProgress) -> None:
    """What `hmem init` asks for the feature, after its own questions."""


@specification(fails="closed")
def service(settings: Settings) -> Service | None:
    """A program that `hmem init` keeps running, if these settings want it."""
