"""A sound installation, broken in one way after the other, and what `hmem doctor`, `hmem status` and the chat say then.

`python -m tests.support.broken.on_purpose [WORD …]` prints that as a Markdown table, for all of it or for the faults whose name
holds one of the words. tests/dispatcher/health/test_broken_on_purpose.py holds it against what each fault expects.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.broken.breaking import Unmakeable
from tests.support.broken.faults import FAULTS, Fault
from tests.support.broken.installation import PATIENCE, Installation, Said, after_nights, installation

#: Not in the system's temporary directory: our directories in there are a finding of their own.
PLACE = "/var/tmp"
HEAD = "| what is broken | `hmem doctor` | `hmem status` | the chat |\n|---|---|---|---|"


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


def row(fault: Fault, found: Outcome, place: str) -> str:
    """One line of the table; paths of this run are shortened."""
    problems = [f"**{one['name']}** {one['sentence']} {one['fix']} [{one['code']}]" for one in found.problems]
    told = [line for line in found.status.text.splitlines() if re.search(fault.status.pattern or "$^", line)]
    chat = found.chat.text.strip()
    if found.command:
        last = (found.command.text.strip().splitlines() or [""])[-1]
        problems.append(f"`{' '.join(fault.command)}`: {last} [{found.command.code}]")
    status = f"{' '.join(told) or 'as ever'} [{found.status.code}]"
    cells = (fault.name, "<br>".join(problems) or "no fault", status, f"{chat} [{found.chat.code}]")
    shortened = (cell.replace(place, "…").replace("|", "\\|").replace("\n", "<br>") for cell in cells)
    return f"| {' | '.join(shortened)} |"


def main(words: list[str]) -> None:
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="hmem-broken-", dir=PLACE) as folder:
        nights = Path(folder) / "nights"
        nights.mkdir()
        after_nights(nights)
        for number, fault in enumerate(FAULTS):
            if words and not any(word in fault.name for word in words):
                continue
            place = Path(folder) / str(number)
            place.mkdir()
            try:
                with installation(place, nights) as host:
                    print(row(fault, outcome(fault, host), str(place)), flush=True)
            except Unmakeable as why:
                print(f"| {fault.name} | cannot be made here: {why} | | |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
