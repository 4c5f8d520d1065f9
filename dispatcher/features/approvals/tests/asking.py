"""A chat in which Claude asks before it runs a tool: the real bot, dispatcher and CLI; the model asks for what a message says."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from shared.system.files import safe_name
from tests.servers.messages_api import Reply, ToolCall, tool_results
from tests.servers.telegram_messages import Shown, mention
from tests.support.day.telegram_bot import GROUP, wait_until
from tests.support.processes.forked import constant
from tests.support.processes.talk import Talk, talking

OWNER, BOB = {"id": 77, "is_bot": False, "first_name": "Olga"}, {"id": 8, "is_bot": False, "first_name": "Bob"}
RUN = re.compile(r"run: (.+?)(?:\\n|\"|$)")


def model(request: dict[str, Any]) -> Reply:
    """`run: touch x` in a message is a call of Bash; then it says what it was told of that."""
    if results := tool_results(request):
        return "told: " + " | ".join(json.dumps(one["content"], ensure_ascii=False) for one in results)
    newest = json.dumps([one for one in request["messages"] if one["role"] == "user"][-1], ensure_ascii=False)
    found = RUN.findall(newest)
    if not found:
        return "All right."
    return ToolCall("Bash", {"command": found[-1], "description": "does it"}, f"toolu_{uuid4().hex}")


class Asking:
    """What people do, and what they see."""

    def __init__(self, talk: Talk) -> None:
        self.talk, self.stage, self.api, self.redis = talk, talk.stage, talk.stage.api, talk.stage.redis

    def say(self, chat: int, command: str, user: dict[str, Any] | None = None) -> None:
        if chat < 0:
            self.api.say(chat, f"@memory_bot run: {command}", user, entities=mention("@memory_bot"))
        else:
            self.api.say(chat, f"run: {command}", user or person(chat))

    def question(self, chat: int) -> Shown:
        """Until there is an open question in the chat."""
        wait_until(lambda: self.open_question(chat), lambda: f"a question in {self.api.texts(chat)}", 40)
        return cast(Shown, self.open_question(chat))

    def open_question(self, chat: int) -> Shown | None:
        found = [one for one in self.api.messages(chat) if one.by_bot and one.text.startswith("Claude wants to use")]
        return found[-1] if found and "Allow it this once?" in found[-1].text else None

    def asked(self, chat: int, command: str, user: dict[str, Any] | None = None) -> Shown:
        self.say(chat, command, user)
        return self.question(chat)

    def press(self, chat: int, label: str, user: dict[str, Any] | None = None, **more: Any) -> str:
        """What is shown for a moment."""
        before = len(self.api.called("answerCallbackQuery"))
        self.api.press(chat, label, user or person(chat), **more)
        wait_until(lambda: len(self.api.called("answerCallbackQuery")) > before, lambda: "an answer to the press")
        return str(self.api.called("answerCallbackQuery")[-1].params.get("text") or "")

    def ends(self, chat: int, question: Shown, words: str) -> None:
        """Until the question has been edited to that; it has no buttons any more."""

        def now() -> Shown:
            return next(one for one in self.api.messages(chat) if one.id == question.id)

        wait_until(lambda: now().text.endswith(words), lambda: f"{words!r} in {now().text!r}", 40)
        assert not now().buttons

    def told(self, chat: int, words: str) -> None:
        """Until Claude has said what it was told."""
        wait_until(
            lambda: any(one.startswith("told: ") and words in one for one in self.api.texts(chat)),
            lambda: f"{words!r} in {self.api.texts(chat)}",
            40,
        )
        self.stage.quiet()

    def made(self, chat: int, name: str) -> bool:
        return (self.stage.world.root / "state" / "chats" / safe_name(str(chat)) / name).exists()

    def open_id(self) -> str:
        """The id of the newest question without an end."""
        names = cast(list[bytes], self.redis.hkeys("hcli:mem:approvals:open"))
        return [one.decode() for one in names if one != b"0" * 20][-1]

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(raw) for raw in cast(list[bytes], self.redis.lrange("hcli:mem:approvals", 0, -1))]


def person(chat: int) -> dict[str, Any]:
    return {"id": chat if chat > 0 else 7, "is_bot": False, "first_name": "Ada"}


def pressed_again(chat: int, message: int, data: str) -> dict[str, object]:
    """An update: the data of a button, sent once more."""
    where = {"chat": {"id": chat, "type": "private"}, "message_id": message, "date": 0}
    pressed: dict[str, object] = {"from": person(chat), "chat_instance": "1", "message": where, "data": data}
    return pressed | {"id": f"again-{time.monotonic_ns()}"}


@contextmanager
def asking(redis_url: str, root: Path, *, seconds: float = 60.0, **more: str) -> Iterator[Asking]:
    settings = {"APPROVE_TOOLS": "Bash", "OWNERS": "77", **more}
    with (
        constant("dispatcher.features.approvals.approvals:WAIT_SECONDS", seconds),
        constant("dispatcher.features.approvals.telegram:GRACE_SECONDS", 1.0),
        talking(redis_url, root, **settings) as talk,
    ):
        talk.answer = model
        yield Asking(talk)


__all__ = ["BOB", "GROUP", "OWNER", "Asking", "asking", "person", "pressed_again"]
