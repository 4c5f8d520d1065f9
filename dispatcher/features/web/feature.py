"""The owner's page: what is remembered, how the nights went, and why each answer was what it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook
from shared.system.command import CommandEntry

if TYPE_CHECKING:
    from dispatcher.health.findings import Check, Finding, Setup
    from dispatcher.installation.init.in_progress import InstallationInProgress
    from dispatcher.installation.layout import Service
    from shared.config.settings import Settings


@hook
def commands() -> Sequence[CommandEntry]:
    summary = (
        "The owner's page: what is remembered, and why each answer was what it was. Prints a link on its first line."
    )
    return [CommandEntry("web", "dispatcher.features.web.command", summary)]


@hook
def checks() -> Sequence[Check]:
    from dispatcher.health.findings import Check

    return [Check("page", _check_page)]


def _check_page(setup: Setup) -> Finding:
    from dispatcher.features.web.service import check_page  # it loads the page, which hmem status does not need

    return check_page(setup)


@hook
def init_questions(installation: InstallationInProgress) -> None:
    from dispatcher.features.web.service import ask_for_service

    ask_for_service(installation)


@hook
def service(settings: Settings) -> Service | None:
    from dispatcher.features.web.service import page_service

    return page_service(settings)
