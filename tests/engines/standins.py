"""Telegram and the provider for an installation in a network namespace of its own: they outlive each of its reboots."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.servers.messages_api import MessagesApi, Streamed
from tests.servers.telegram_api import TOKEN, TelegramApi
from tests.support.machine import wait_for

TELEGRAM_PORT, PROVIDER_PORT = 8081, 8082
CHAT = 9912
#: The first words of an answer; the message follows.
HEARD = "You said: "
#: What somebody tells, what they ask later, and the word that only the memory of the first can bring.
FACT, QUESTION, REMEMBERED = "My boiler shows F28, that is too little water.", "What was wrong with the boiler?", "F28"
CLONE_NEWNET = 0x40000000
Made = TypeVar("Made")


class _Telegram(TelegramApi):
    def __init__(self, host: str) -> None:
        self.host, self.port = host, TELEGRAM_PORT
        super().__init__()


class _Provider(MessagesApi):
    def __init__(self, host: str) -> None:
        self.host, self.port = host, PROVIDER_PORT
        super().__init__(reply)


class StandIns:
    """Both servers within `with`, on `host` in the network namespace of that file (None: this process's own)."""

    def __init__(self, namespace: Path | None, host: str = "127.0.0.1") -> None:
        self.host = host

        def made() -> tuple[TelegramApi, MessagesApi]:
            return _Telegram(host), _Provider(host)

        self.telegram, self.provider = in_namespace(namespace, made) if namespace else made()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.telegram)
            stack.enter_context(self.provider)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def environment(self) -> dict[str, str]:
        """What `hmem init --yes` is told: the bot's token, the chat, a key of the provider, and where both are."""
        return {
            "TELEGRAM_BOT_TOKEN": TOKEN,
            "TELEGRAM_API_URL": f"http://{self.host}:{TELEGRAM_PORT}",
            "ALLOWED_CHATS": str(CHAT),
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "ANTHROPIC_BASE_URL": f"http://{self.host}:{PROVIDER_PORT}",
        }

    def ask(self, text: str, expected: str = "", seconds: float = 90.0) -> str:
        """A person writes, and the bot answers with the expected words (the default: that it heard the message); its answer."""
        asked = self.say(text)
        return self.answer(asked, expected or HEARD + text, seconds)

    def say(self, text: str) -> int:
        """A person writes; the message's id."""
        self.telegram.say(CHAT, text)
        return self.telegram.newest(CHAT)

    def answer(self, since: int, expected: str, seconds: float = 90.0) -> str:
        """Waits until the bot says the expected words in a message younger than that one; its text."""

        def texts() -> list[str]:
            return [one.text for one in self.telegram.messages(CHAT) if one.by_bot and one.id > since]

        wait_for(
            lambda: any(expected in one for one in texts()), lambda: f"{expected!r}; the bot says {texts()}", seconds
        )
        return next(one for one in texts() if expected in one)


def in_namespace(namespace: Path, make: Callable[[], Made]) -> Made:
    """What `make` returns, called by a thread inside that network namespace: the sockets that it opens stay there."""
    made: list[Made] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            enter(namespace)
            made.append(make())
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def enter(namespace: Path) -> None:
    """Moves the calling thread into the network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    file = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(file, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")
    finally:
        os.close(file)


def reply(request: dict[str, Any]) -> str | Streamed:
    """A model that repeats the message, slowly if it is asked to, and tells of a boiler what its prompt says of it."""
    newest = [one for one in request["messages"] if one["role"] == "user"][-1]["content"]
    text = newest if isinstance(newest, str) else "\n".join(block.get("text", "") for block in newest)
    last = text.strip().rpartition("\n")[2]
    if last.endswith(QUESTION):
        system = "\n".join(block["text"] for block in request.get("system", []) if isinstance(block, dict))
        known = re.findall(rf"[^\n]*{REMEMBERED}[^\n]*", f"{system}\n{text}")
        return "From memory: " + (known[0] if known else "nothing is known")
    if "slowly" in last:
        return Streamed((*["One more word. "] * 30, HEARD + last), 0.5)
    return HEARD + last
