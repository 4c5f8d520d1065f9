"""A running bot, the loopback Telegram that it talks to, and a dispatcher of a few lines that answers as h-cli's does.

The bot has STREAM=false unless a test says otherwise: then a placeholder is there at once, in private chats too.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from redis import Redis

from shared.turns.signed import Doing, PartialAnswer, Result, sign_record
from shared.wire import keys
from tests.servers.telegram_api import TOKEN, TelegramApi
from tests.servers.telegram_messages import Shown
from tests.support.day import hcli_bot
from tests.support.day.talking import CLAUDE
from tests.support.machine import wait_for
from tests.support.processes.forked import ForkedProcess
from tests.support.world import REPOSITORY, SECRET, Dispatcher, World

CHAT = 9912
ALLOWED = range(9900, 9960)
GROUP = -1001234567890123


class Bot:
    """A bot's process; its log is on `log`."""

    def __init__(self, world: World, api: TelegramApi, *, wait: bool = True, **more: str) -> None:
        self.log = world.root / f"bot-{time.monotonic_ns()}.log"
        self.log.touch()
        self._process = ForkedProcess(["hmem", "telegram"], self.settings(world, api, **more), self.log, self.log)
        self.pid = self._process.pid
        if wait:
            try:
                wait_for(lambda: self.said("bot started") or self.code is not None, "the bot")
                assert self.code is None, self.log.read_text()
            except BaseException:  # nobody else knows of it
                self.stop(signal.SIGKILL)
                raise

    @staticmethod
    def settings(world: World, api: TelegramApi, **more: str) -> dict[str, str]:
        """The whole environment of a bot."""
        chats = ",".join(map(str, [*ALLOWED, *(GROUP - number for number in range(20))]))
        own = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_URL": api.url, "STREAM": "false", "ALLOWED_CHATS": chats}
        return world.variables(**own | more)

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def said(self, words: str) -> bool:
        return words in self.log.read_text()

    def died(self) -> int:
        """Wait for its end; the exit code."""
        wait_for(lambda: self.code is not None, "the bot's end")
        assert self.code is not None
        return self.code

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.code is None:
            os.kill(self.pid, number)
        return self.died()


class Stage:
    """A world with a Telegram and bots."""

    def __init__(self, world: World, api: TelegramApi) -> None:
        self.world, self.api, self.redis = world, api, world.redis
        self._ended = ExitStack()
        self._last_chat = ALLOWED[0]
        self._written = time.time_ns() // 1_000_000
        self._drafts = False  # private chats get no placeholder at once

    def bot(self, **more: Any) -> Bot:
        made = Bot(self.world, self.api, **more)
        self._drafts = more.get("STREAM") == "true"
        self._ended.callback(made.stop, signal.SIGKILL)
        return made

    def bot_again(self, **more: Any) -> Bot:
        """A bot after one that was killed: it sees that the holder of the lease is dead."""
        return self.bot(**more)

    def close(self) -> None:
        self._ended.close()

    def new_chat(self) -> int:
        """A chat that nobody has used."""
        self._last_chat += 1
        return self._last_chat

    def ask(self, chat: int, text: str, **more: Any) -> str:
        """Say it, and take the task when its placeholder is there; its id."""
        self.api.say(chat, text, **more)
        task_id = str(self.pop()["task_id"])
        if chat < 0 or not self._drafts:
            self.placeholder_of(task_id)
        return task_id

    def placeholder_of(self, task_id: str) -> None:
        """Until the task's placeholder is noted."""
        waiting = "hcli:mem:bot:waiting:main"
        wait_for(lambda: b'"placeholder"' in (self.redis.hget(waiting, task_id) or b""), "the placeholder")

    # The dispatcher's side.

    def queued(self) -> list[dict[str, Any]]:
        return [json.loads(raw) for raw in cast(list[bytes], self.redis.lrange("hcli:tasks", 0, -1))]

    def pop(self) -> dict[str, Any]:
        """Take the next task as h-cli's dispatcher does."""
        popped: Any = self.redis.blpop(["hcli:tasks"], timeout=300)
        assert popped, "no task came"
        task: dict[str, Any] = json.loads(popped[1])
        return task

    def answer(self, task_id: str, output: str, *, secret: str = SECRET) -> None:
        """A result, signed with code of the test's own."""
        hcli_bot.answer(self.redis, task_id, output, secret)

    def result(self, task_id: str, output: str, **more: Any) -> None:
        """A result of our dispatcher, with what `Result.sign` takes: buttons, files, a reply command."""
        signed = Result.sign(SECRET, task_id, output, datetime.now(UTC).isoformat(), **more)
        self.redis.set(keys.result(task_id), signed.to_json(), ex=600)

    def push(self, *messages: dict[str, Any]) -> None:
        """Into the outbox, signed as a dispatcher does it."""
        self.redis.rpush(keys.outbox("main"), *(sign_record(SECRET, keys.outbox("main"), one) for one in messages))

    def waits(self, name: str, **record: Any) -> None:
        """A waiting record with these fields, and those that it has, signed."""
        key = keys.bot_waiting("main")
        known = json.loads(self.redis.hget(key, name) or b"{}")
        known.pop("hmac", None)
        self.redis.hset(key, name, sign_record(SECRET, f"{key} {name}", known | record))

    def write(self, task_id: str, chat: int, text: str, doing: Doing = "writing", tool: str = "") -> None:
        """What is there of an answer that is being written, as our dispatcher has it."""
        self._written += 1
        partial = PartialAnswer(str(chat), self._written, text, doing, tool)
        self.redis.set(f"hcli:mem:partial:{task_id}", partial.to_json(SECRET, task_id), ex=60)

    # What is seen.

    def drafted(self, chat: int, *texts: str) -> None:
        """Until one of these is the draft in the chat."""
        drafts = self.api.drafts
        wait_until(lambda: drafts.get(chat, (0, ""))[1] in texts, lambda: f"{drafts.get(chat)} to be {texts}")

    def shows(self, chat: int, *texts: str) -> None:
        """Until these are the bot's messages in the chat, in this order and no others."""
        wait_until(lambda: self.api.texts(chat) == list(texts), lambda: f"{self.api.texts(chat)} to be {list(texts)}")

    def quiet(self) -> None:
        """Until nothing is waiting for delivery."""
        waiting = "hcli:mem:bot:waiting:main"
        wait_until(lambda: not self.redis.hlen(waiting), lambda: f"deliveries: {self.redis.hgetall(waiting)}")

    def confirmed(self, update: int) -> None:
        """Until Telegram was told that this update was taken."""
        wait_for(lambda: self.api.offset > update, f"update {update} to be confirmed")


@contextmanager
def staged(url: str, root: Path) -> Iterator[Stage]:
    """A stage on an empty Redis."""
    redis: Redis = Redis.from_url(url)
    redis.flushall()
    world = World(root, redis, url, {"EMBEDDER": "none", "NIGHT_INDEXES": "none"})
    with TelegramApi() as api:
        stage = Stage(world, api)
        try:
            yield stage
        finally:
            stage.close()
            for dispatcher in world.dispatchers:
                dispatcher.stop(signal.SIGKILL)
            redis.close()


def wait_until(condition: Callable[[], object], what: Callable[[], str], seconds: float = 60.0) -> None:
    """As wait_for, with a text that is made when the time is up."""
    wait_for(condition, what, seconds)


def keys_of(redis: Redis, pattern: str) -> list[bytes]:
    return sorted(cast(list[bytes], list(redis.scan_iter(match=pattern))))


def says(stage: Stage, chat: int, words: str) -> None:
    """Until the bot's last message in the chat holds these words."""
    wait_until(lambda: words in "".join(stage.api.texts(chat)[-1:]), lambda: f"{words!r} in {stage.api.texts(chat)}")
    stage.quiet()


# Chats with buttons.

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
