"""Record what an owner, a stranger, the bot and the loopback Telegram say to each other about an invitation: docs/recordings/telegram-invite.txt.

.venv/bin/python scripts/record_invite.py     (it needs redis-server)
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from scripts.record_buttons import SHOWN, _call, _lines, record  # noqa: E402
from tests.support.day.telegram_bot import CHAT, Stage, newest, sees, talking  # noqa: E402

TARGET = ROOT / "docs" / "recordings" / "telegram-invite.txt"
GUEST, GROUP = 5151, -1009
NAMES = {CHAT: "Ada", GUEST: "Gil"}
HEAD = """\
What an owner (Ada), a stranger (Gil), the bot and the loopback Bot API of the tests say to each other about an invitation,
made by scripts/record_invite.py. Seconds are from the first line of a part; the model is a script. [a] [b] are buttons, one
row a line; what Telegram returns at a press is shortened.
"""


class Recorder:
    """Does what two people do and notes it; `part` merges that with the calls of the bot."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._done: list[tuple[float, str, str]] = []

    def say(self, who: int, text: str, words: str, chat: int = 0) -> str:
        """What is answered."""
        place, before = chat or who, newest(self.stage, chat or who)
        self._note(who, f"writes{' in the group' if chat else ''}: {text}")
        self.stage.api.say(place, text, _person(who))
        return sees(self.stage, place, words, before).text

    def press(self, who: int, label: str, words: str) -> None:
        before = newest(self.stage, who)
        self._note(who, f"presses [{label}]")
        self.stage.api.press(who, label, _person(who))
        sees(self.stage, who, words, before)

    def ignored(self, who: int, text: str, why: str) -> None:
        self._note(who, f"writes: {text}   ({why})")
        self.stage.confirmed(self.stage.api.say(who, text, _person(who)))
        self.stage.quiet()

    def _note(self, who: int, what: str) -> None:
        self._done.append((time.monotonic(), NAMES[who], what))

    def part(self, title: str) -> str:
        """What was said since the last part."""
        calls = [one for one in self.stage.api.calls if one.method in SHOWN]
        began = self._done[0][0]
        told = [
            (one.at, "bot", f"to {_place(one.params)}{_call(one.method, one.params, one.status)}")
            for one in calls
            if one.at >= began
        ]
        lines = [line for at, who, what in sorted(self._done + told) for line in _lines(at - began, who, what)]
        self._done.clear()
        return "\n".join([f"# {title}", "", *lines])


def _place(params: dict[str, Any]) -> str:
    chat = int(params.get("chat_id") or CHAT)
    return f"{NAMES.get(chat, 'the group')}: "


def _person(who: int) -> dict[str, Any]:
    return {"id": who, "is_bot": False, "first_name": NAMES[who]}


def invitation(record: Recorder) -> str:
    record.say(GUEST, "hello", "I only answer in chats")
    told = record.say(CHAT, "/invite 7d", "becomes a guest")
    code = re.findall(r"start=(\S+)", told)[0]
    record.say(GUEST, f"/start {code}", "Welcome!")
    sees(record.stage, CHAT, "has used an invitation")
    record.say(GUEST, "what can I do with a boat?", "All right.")
    return record.part("An invitation: a stranger, the code, a guest")


def wrong(record: Recorder) -> str:
    NAMES[6161] = "Eve"
    for _ in range(5):
        record.say(6161, "/start AAAAAAAAAAAAAAAAAAAAAAAA", "I cannot use this code")
    record.ignored(6161, "/start AAAAAAAAAAAAAAAAAAAAAAAA", "silence, for an hour after the first of them")
    return record.part("Wrong, expired and used codes are answered alike, five times")


def guests(record: Recorder) -> str:
    record.say(CHAT, "/invite here", "from now on", GROUP)
    record.say(CHAT, "/guests", "since")
    record.press(CHAT, "Remove Gil", "no longer a guest")
    record.ignored(GUEST, "are you there?", "strangers are told once a day that the bot is private")
    return record.part("A group, the list of guests, and a guest who is removed")


def record_all(url: str, root: Path) -> str:
    with talking(url, root, CHAT_TIMEZONE="Europe/Berlin", OWNERS=str(CHAT)) as stage:
        record = Recorder(stage)
        return "\n\n".join([HEAD.rstrip(), invitation(record), wrong(record), guests(record)]) + "\n"


if __name__ == "__main__":
    record(TARGET, record_all)
