"""A sound installation, broken in one way after the other, and what `hmem doctor`, `hmem status` and the chat say then."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from tests.support.broken.faults import Fault
from tests.support.broken.installation import PATIENCE, Installation, Said

#: Not in the system's temporary directory: our directories in there are a finding of their own.
PLACE = "/var/tmp"


@dataclass(frozen=True)
class Outcome:
    """What was said. `findings`: what `hmem doctor --json` tells."""

    doctor: int
    findings: list[dict[str, Any]]
    status: Said
    chat: Said
    command: Said | None = None

    @property
    def problems(self) -> list[dict[str, Any]]:
        return [one for one in self.findings if one["state"] == "problem"]


def outcome(fault: Fault, host: Installation) -> Outcome:
    """Break it and ask everybody; Unmakeable where that cannot be done here."""
    if fault.start == "before" and not host.start():
        raise RuntimeError((host.root / "dispatcher.log").read_text())
    with fault.breaks(host) or nullcontext():
        if fault.start == "after":
            host.start()
        return asked(host, fault.patience, fault.command)


def asked(host: Installation, patience: float = PATIENCE, command: tuple[str, ...] = ()) -> Outcome:
    """What everybody says of it as it is."""
    doctor = host.says("hmem", "doctor", "--json")
    status = host.says("hmem", "status")
    findings = json.loads(doctor.text)["findings"]
    chat = host.ask(patience)
    return Outcome(doctor.code, findings, status, chat, host.says(*command) if command else None)
