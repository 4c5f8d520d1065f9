"""What every step of `hmem init --night-host` works with: this host's installation, the other host, and what is known of both so far."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dispatcher.installation.init.context import InitContext
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.night_host.redis_login import RedisLogin
from dispatcher.installation.night_host.remote import RemoteHost
from shared.errors import InstallationIncomplete

#: Beside the settings: what was made on this host for the other one.
JOURNAL = "night-host-here.json"
_ADDRESS = re.compile(
    r"\[(?P<six>[0-9A-Fa-f:.%\w]+)\](?::(?P<port6>\d+))?|(?P<host>[\w.-]+)(?::(?P<port>\d+))?|(?P<bare>[0-9A-Fa-f:]+)", re.ASCII
)  # fmt: skip


class DayAddress(NamedTuple):
    """How the night host reaches this host's sshd."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> DayAddress:
        """`day.example.org`, `192.0.2.7:2222`, `[2001:db8::7]:22`; ValueError with a sentence for anything else."""
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise ValueError(
                f"{text!r} is no address. Write it like day.example.org, 192.0.2.7:2222 or [2001:db8::7]:22"
            )
        port = int(match["port"] or match["port6"] or 22)
        return cls(match["host"] or match["six"] or match["bare"], port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass
class NightMove:
    """`survey` is what the other host has (bootstrap.py), `there` where things are on it (agent.py), `login` how it logs in to Redis."""

    installation: InitContext
    remote: RemoteHost
    journal: InstallationJournal
    day_address: str = ""
    host_key: str = ""
    survey: dict[str, Any] = field(default_factory=dict)
    there: dict[str, Any] = field(default_factory=dict)
    login: RedisLogin | None = None
    changed: bool = False  # the night host's settings, or its way to this host

    def ask(self, verb: str, what: str, seconds: float = 600.0, **given: Any) -> dict[str, Any]:
        """A verb of the night host's half."""
        return self.remote.ask(verb, {"user": self.installation.as_user, **given}, what, seconds)

    @property
    def address(self) -> DayAddress:
        return DayAddress.parse(self.journal.names("day-address")[-1])

    @property
    def tunnel(self) -> bool:
        """Whether the night host reaches Redis through ssh."""
        return self.login is None or self.login.address is not None

    @property
    def redis_url(self) -> str:
        """REDIS_URL of the night host; "" if it has one that stays."""
        if self.login is None or (self.there["has_login"] and not self.login.password):
            return ""
        return self.login.url_through(Path(self.there["socket"]))

    def look_around(self) -> dict[str, Any]:
        """What the other host has. InstallationIncomplete if ssh, or Python there, does not work."""
        given = {"user": self.installation.as_user}
        self.survey = self.remote.script(
            "survey", given, f"Connecting to {self.remote.name}", f"Then run {self.remote.command} again."
        )
        self.remote.python = f"{self.survey['program']}/.venv/bin/python"
        return self.survey


def refuse_other_host(journal: InstallationJournal, name: str) -> None:
    """InstallationIncomplete if the nights were given to another host before."""
    if others := [host for host in journal.names("night-host") if host != name]:
        raise InstallationIncomplete(
            f"The nights of this installation belong to {others[0]}. Bring them back first: hmem init --undo --night-host {others[0]}."
        )
