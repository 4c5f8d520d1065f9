"""A chat with buttons: our bot, our dispatcher and a scripted model behind a loopback Telegram."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.telegram_api import Shown
from tests.support.day.talking import CLAUDE
from tests.support.day.telegram_bot import Stage, staged, wait_until
from tests.support.world import REPOSITORY, Dispatcher

#: Longer than any answer here takes.
SECONDS = 25.0


@contextmanager
def talking(url: str, root: Path, **more: str) -> Iterator[Stage]:
    """A stage with a bot and a dispatcher; `more` are settings of both."""
    with staged(url, root) as stage:
        stage.world.environment |= {"CLAUDE_BIN": str(REPOSITORY / CLAUDE), "CONSOLIDATION_INTERVAL": "0.1", **more}
        stage.bot()
        dispatcher(stage)
        yield stage


def dispatcher(stage: Stage, **more: str) -> Dispatcher:
    return stage.world.start_dispatcher(**more)


def last(stage: Stage, chat: int) -> Shown:
    """The bot's newest message."""
    return [one for one in stage.api.messages(chat) if one.by_bot][-1]


def labels(shown: Shown) -> list[str]:
    return [one["text"] for row in shown.buttons for one in row]


def newest(stage: Stage, chat: int) -> tuple[int, str, str, int]:
    """What the bot's newest message is now: it differs after anything new."""
    shown = [one for one in stage.api.messages(chat) if one.by_bot]
    return (shown[-1].id, shown[-1].text, str(shown[-1].buttons), len(shown)) if shown else (0, "", "", 0)


def sees(stage: Stage, chat: int, words: str, before: tuple[int, str, str, int] | None = None) -> Shown:
    """Until the bot's newest message has these words, differs from what it was before, and nothing is waiting; that message."""
    wait_until(
        lambda: words in newest(stage, chat)[1] and newest(stage, chat) != before,
        lambda: f"{words!r} in {stage.api.texts(chat)}",
        SECONDS,
    )
    stage.quiet()
    return last(stage, chat)


def press(stage: Stage, chat: int, label: str, words: str, **more: Any) -> Shown:
    """Press, and see the newest message have these words."""
    before = newest(stage, chat)
    stage.api.press(chat, label, person(chat), **more)
    return sees(stage, chat, words, before)


def person(chat: int) -> dict[str, Any]:
    """Who writes in a private chat."""
    return {"id": chat, "is_bot": False, "first_name": "Ada"}


def say(
    stage: Stage, chat: int, text: str, words: str, *, user: dict[str, Any] | None = None, to: int = 0, **more: Any
) -> Shown:
    """Say it (in reply to a message), and see the answer."""
    before, who = newest(stage, chat), user or person(chat)
    if to:
        stage.api.reply(chat, to, text, who, **more)
    else:
        stage.api.say(chat, text, who, **more)
    return sees(stage, chat, words, before)


def toasts(stage: Stage) -> list[str]:
    """What presses were answered with."""
    return [str(one.params.get("text") or "") for one in stage.api.called("answerCallbackQuery")]


def requests(stage: Stage) -> list[dict[str, Any]]:
    """What reached the model, oldest first."""
    log = stage.world.root / "requests.jsonl"
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
