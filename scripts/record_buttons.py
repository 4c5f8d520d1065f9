"""Record what the bot and the loopback Telegram say to each other about buttons: writes docs/recordings/telegram-buttons.txt.

.venv/bin/python scripts/record_buttons.py     (it needs redis-server)
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from redis import Redis  # noqa: E402 - after the path

from tests.support.day.telegram_bot import Stage, last, newest, person, sees, talking, wait_until  # noqa: E402  # noqa: E402
from tests.support.machine import answers, free_port, wait_for  # noqa: E402

TARGET = ROOT / "docs" / "recordings" / "telegram-buttons.txt"
SHOWN = ("sendMessage", "sendDocument", "getFile", "editMessageText", "editMessageReplyMarkup", "answerCallbackQuery")
WIDTH = 120
HEAD = """\
What people, the bot and the loopback Bot API of the tests say to each other, made by scripts/record_buttons.py.
Seconds are from the first line of a part; the model is a script. [a] [b] are buttons, one row a line; what Telegram
returns at a press is shortened.
"""


class Recorder:
    """Does what a person does and notes it; `lines` merges that with the calls of the bot."""

    def __init__(self, stage: Stage, chat: int) -> None:
        self.stage, self.chat = stage, chat
        self._done: list[tuple[float, str, str]] = []

    def say(self, text: str, words: str, *, to: int = 0) -> None:
        before = newest(self.stage, self.chat)
        self.note(f"writes{' in reply to message ' + str(to) if to else ''}: {text}")
        if to:
            self.stage.api.reply(self.chat, to, text, person(self.chat))
        else:
            self.stage.api.say(self.chat, text, person(self.chat))
        sees(self.stage, self.chat, words, before)

    def press(self, label: str, words: str) -> None:
        before = newest(self.stage, self.chat)
        self.note(f"presses [{label}]")
        self.stage.api.press(self.chat, label, person(self.chat))
        sees(self.stage, self.chat, words, before)

    def press_only(self, label: str) -> None:
        self.note(f"presses [{label}]")
        self.stage.api.press(self.chat, label, person(self.chat))

    def note(self, what: str) -> None:
        self._done.append((time.monotonic(), "Ada", what))

    def part(self, title: str) -> str:
        """What was said since the last part."""
        calls = [one for one in self.stage.api.calls if one.method in SHOWN]
        began = self._done[0][0]
        told = [(one.at, "bot", _call(one.method, one.params, one.status)) for one in calls if one.at >= began]
        lines = [line for at, who, what in sorted(self._done + told) for line in _lines(at - began, who, what)]
        self._done.clear()
        return "\n".join([f"# {title}", "", *lines])


def _call(method: str, params: dict[str, Any], status: int) -> str:
    text = f": {params['text']}" if params.get("text") else ""
    text += f" {params['file_id']}" if params.get("file_id") else ""
    message = f" message {params['message_id']}" if params.get("message_id") else ""
    reply = json.loads(params.get("reply_parameters") or "{}").get("message_id")
    rows = json.loads(params.get("reply_markup") or "{}").get("inline_keyboard", [])
    below = "".join("\n" + " ".join(f"[{one['text']}]" for one in row) for row in rows)
    data = (
        f"\n    callback_data of [{rows[0][0]['text']}]: {rows[0][0]['callback_data'][:6]}…{rows[0][0]['callback_data'][25:]}"
        if rows
        else ""
    )
    return f"{method}{message}{f' in reply to {reply}' if reply else ''} → {status}{text}{below}{data}"


def _lines(seconds: float, who: str, what: str) -> list[str]:
    wrapped = [one for line in what.splitlines() for one in textwrap.wrap(line, WIDTH - 12) or [""]]
    head = f"{seconds:6.2f} {who:4} "
    return [f"{head if not at else ' ' * len(head)}{line}".rstrip() for at, line in enumerate(wrapped)]


def memory(record: Recorder) -> str:
    record.say("/memory", "1. The dentist")
    record.press("1", "1. Fact")
    record.press("Edit", "Reply to this message")
    record.say("The dentist is Dr Schwarz", "This replaces number 1", to=last(record.stage, record.chat).id)
    record.press("Show all", "Superseded:")
    record.press("2", "2. Fact")
    record.press("Forget", "Forget this")
    record.press("Yes, forget it", "Forgotten.")
    return record.part("/memory: the list, an entry, its change by a reply, its forgetting")


def forget(record: Recorder) -> str:
    record.say("/forget parrot", "To be forgotten")
    record.press("Forget these 1", "Forgotten")
    record.say("/forget all", "To be forgotten")
    record.press("Forget everything…", "Really")
    record.press("No", "Nothing was forgotten")
    return record.part(
        "/forget: a preview, and what was shown is forgotten; the whole chat only after a second question"
    )


def below(record: Recorder) -> str:
    stage, chat, hold = record.stage, record.chat, record.stage.world.root / "hold"
    record.say("a riddle please", "What has keys")
    record.press("Why?", "given this from memory")
    record.press("Retry", "What has keys")
    hold.touch()
    record.note("writes: think long")
    stage.api.say(chat, "think long", person(chat))
    wait_until(lambda: bool(last(stage, chat).buttons) and last(stage, chat).text == "…", lambda: "the placeholder")
    wait_for(lambda: b'"placeholder"' in b"".join(stage.redis.hvals("hcli:mem:bot:waiting")), "its record")  # type: ignore[arg-type]
    record.press_only("Stop")
    sees(stage, chat, "Cancelled.")
    hold.unlink()
    return record.part("Below an answer: Why?, Retry; below a placeholder: Stop")


def record_all(url: str, root: Path) -> str:
    with talking(url, root, CHAT_TIMEZONE="Europe/Berlin") as stage:
        record = Recorder(stage, stage.new_chat())
        (root / "answers.json").write_text('{"a riddle please": "What has keys and opens nothing? A piano."}')
        record.say("my parrot is called Coco", "All right.")
        record.say("/memory add The dentist is Dr Weiss", "number 1")
        record.part("")
        return "\n\n".join([HEAD.rstrip(), memory(record), forget(record), below(record)]) + "\n"


def record(target: Path, record_all: Callable[[str, Path], str]) -> None:
    """Write what `record_all` returns for a Redis of its own, given its URL and an empty directory."""
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            ["redis-server", "--port", str(port), "--save", "", "--dir", folder], stdout=subprocess.DEVNULL
        ) as server,
    ):
        url = f"redis://127.0.0.1:{port}/0"
        client = Redis.from_url(url)
        wait_for(lambda: answers(client), "redis-server")
        try:
            target.write_text(record_all(url, Path(folder)), encoding="utf-8")
        finally:
            server.terminate()


if __name__ == "__main__":
    record(TARGET, record_all)
