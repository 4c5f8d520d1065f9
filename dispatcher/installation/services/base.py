"""The programs of an installation that run all the time, and what a service manager does with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.layout import BINARIES, Layout

#: Seconds that the dispatcher may take to finish its answers (TASK_TIMEOUT and a little), and the others.
DISPATCHER_STOPS, OTHERS_STOP = 660, 30


@dataclass(frozen=True)
class Service:
    """Programs are started in the order in which they are listed."""

    name: str
    description: str
    command: tuple[str, ...]
    stop_seconds: int = OTHERS_STOP


class ServiceManager(Protocol):
    """What starts the programs, now and after a restart of the host."""

    name: str
    programs: Sequence[Service]

    def install(self, journal: InstallationJournal) -> bool:
        """Write what it needs; whether anything changed. Nothing is started."""

    def start(self, names: Sequence[str]) -> None:
        """Start those that do not run. InstallationIncomplete with the reason if one does not start."""

    def restart(self, names: Sequence[str]) -> None:
        """Stop and start those."""

    def stopped(self) -> list[str]:
        """The installed programs that do not run."""

    def remove(self, journal: InstallationJournal) -> None:
        """Stop all, and remove what `install` wrote."""

    def after_restart(self) -> str:
        """What the owner has to know about a restart of the host; empty if all programs start by themselves."""


def programs_of(layout: Layout, *, own_redis: bool, bot: bool = True) -> list[Service]:
    """Redis first."""
    found = []
    if own_redis:
        conf = layout.redis / "redis.conf"
        found.append(Service("redis", "Redis of hcli-memory", ("redis-server", str(conf))))
    hmem, hmem_night = str(BINARIES / "hmem"), str(BINARIES / "hmem-night")
    found.append(Service("dispatcher", "hcli-memory dispatcher", (hmem, "run"), DISPATCHER_STOPS))
    if bot:
        found.append(Service("telegram", "hcli-memory Telegram bot", (hmem, "telegram")))
    found.append(Service("night", "hcli-memory nights", (hmem_night, "schedule")))
    return found
