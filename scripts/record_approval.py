"""Record what the bot and the loopback Telegram say to each other about a tool that asks first: writes docs/recordings/telegram-approval.txt.

.venv/bin/python scripts/record_approval.py     (it needs redis-server, and the Claude CLI)
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from dispatcher.features.approvals.tests.asking import Asking, asking, person  # noqa: E402
from scripts.record_buttons import Recorder, record  # noqa: E402
from tests.support.machine import wait_for  # noqa: E402

TARGET = ROOT / "docs" / "recordings" / "telegram-approval.txt"
HEAD = """\
What people, the bot and the loopback Bot API of the tests say to each other about a tool that asks first, made by
scripts/record_approval.py: the real Claude CLI, whose model is a script. Seconds are from the first line of a part.
[a] [b] are buttons, one row a line; what Telegram returns at a press is shortened. APPROVE_TOOLS=Bash, APPROVE_SECONDS=5
"""
CHAT = 9931


def part(here: Asking, record: Recorder, title: str, command: str, label: str, end: str) -> str:
    """One question, its answer and what Claude says in the end."""
    known = len(here.api.texts(CHAT))
    record.note(f"writes: run: {command}")
    here.say(CHAT, command)
    question = here.question(CHAT)
    if label:
        record.note(f"presses [{label}]")
        here.press(CHAT, label, person(CHAT))
    here.ends(CHAT, question, end)
    wait_for(lambda: any(one.startswith("told: ") for one in here.api.texts(CHAT)[known:]), "the answer")
    here.stage.quiet()
    return record.part(title)


def record_all(url: str, root: Path) -> str:
    with asking(url, root, APPROVE_SECONDS="5", BUTTONS="false") as here:
        record = Recorder(here.stage, CHAT)
        parts = [
            part(here, record, "Allowed: it runs", "touch report.csv", "Allow", "Allowed by Ada."),
            part(here, record, "Denied: Claude is told", "rm report.csv", "Deny", "Denied by Ada."),
            part(here, record, "Nobody answers", "rm -r ~", "", "Nobody answered: denied."),
        ]
        return "\n\n".join([HEAD.rstrip(), *parts]) + "\n"


if __name__ == "__main__":
    record(TARGET, record_all)
