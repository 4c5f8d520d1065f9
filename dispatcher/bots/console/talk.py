"""`hmem talk`: pushes a message as any bot does, shows the answer while it is written, and asks whether Claude may use a tool."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from uuid import uuid4

import typer
from redis.asyncio import Redis
from rich.console import Console
from rich.live import Live
from rich.text import Text

from dispatcher.bots.answers import RETRYING, Answers, shown_now
from dispatcher.bots.hooks import terminal_waits
from dispatcher.queue.chat_commands import dispatcher_commands
from dispatcher.queue.state import running_dispatchers
from shared.config.settings import Settings
from shared.errors import AnswerTimeout, ForgedResult, InvalidInput, NoDispatcher
from shared.hooks import features
from shared.turns.records import MOST_TASK_BYTES, dumps
from shared.turns.signed import Result, signing_key
from shared.wire import keys
from shared.wire.client import COMMAND, open_async_redis, open_redis
from shared.wire.ids import FROM_TERMINAL
from shared.wire.values import visible

POLL_SECONDS = 0.1
#: Who writes, as a task has it.
USER = "cli"
_COMMAND = re.compile(r"\s*/([a-z]+)(?:@\w+)?(?!\S)", re.IGNORECASE)


class LiveAnswer(Live):
    """Where an answer grows: its last lines, which are gone when it is there."""

    def __init__(self) -> None:
        super().__init__(console=Console(), transient=True)

    def show(self, text: str) -> None:
        lines = "\n".join(visible(text).splitlines()[-max(1, self.console.height - 2) :])
        self.update(Text(lines or "…"))

    def allows(self, question: str) -> bool:
        """What is typed in answer."""
        self.stop()
        try:
            return input(f"{visible(question)}\nAllow it this once? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:
            return False
        finally:
            self.start()


class ConsoleBot:
    """One chat, as a terminal has it. `look`: somebody looks at the terminal."""

    def __init__(self, settings: Settings, chat_id: str, *, look: bool) -> None:
        self._secret = signing_key(settings, "no answer could be verified")
        self._settings, self._chat_id, self._look = settings, chat_id, look
        self._told = ""  # the task of which the person knows that Claude is not reached

    def say(self, message: str, seconds: float) -> Result:
        """The verified answer. AnswerTimeout if none came, ForgedResult if only unsigned ones came, InvalidInput for a message that is too long, or a
        command that only Telegram's bot answers."""
        commands = dispatcher_commands()
        if (asked := _COMMAND.match(message)) and asked[1].lower() not in commands:
            listed = "\n".join(f"/{name} - {what}" for name, what in commands.items())
            raise InvalidInput(f"/{asked[1]} is not a command of the terminal. Its commands are:\n{listed}")
        task_id = f"{FROM_TERMINAL}{uuid4()}"
        task = {"task_id": task_id, "message": message, "chat_id": self._chat_id, "user_id": USER}
        raw = dumps(task | {"submitted_at": datetime.now(UTC).isoformat()})
        if len(raw) > MOST_TASK_BYTES:
            raise InvalidInput(
                f"The message is too long: {len(raw)} bytes, and the limit is {MOST_TASK_BYTES}. Shorten it."
            )
        self._push(raw)
        with LiveAnswer() if self._look else nullcontext() as terminal:
            return asyncio.run(self._answer(task_id, seconds, terminal))

    def _push(self, raw: bytes) -> None:
        with open_redis(self._settings.redis_url, COMMAND) as client:
            client.rpush(keys.TASKS, raw)
            try:
                running_dispatchers(client)
            except NoDispatcher as error:  # another program's may answer
                typer.echo(f"note: {error}", err=True)

    async def _answer(self, task_id: str, seconds: float, terminal: LiveAnswer | None) -> Result:
        async with open_async_redis(self._settings.redis_url, COMMAND) as redis:
            answers, junk = Answers(redis, self._secret), dict[str, str]()
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                results, junk = await answers.results([task_id])
                if task_id in results:
                    await redis.delete(keys.result(task_id))
                    return Result.verified(self._secret, task_id, results[task_id])
                await self._meanwhile(redis, answers, task_id, terminal)
                await asyncio.sleep(POLL_SECONDS)
        if junk:
            raise ForgedResult(
                f"The result that came within {seconds:g} s is not signed by the dispatcher ({junk[task_id]}). Set the same RESULT_HMAC_KEY on "
                "both sides; if it is the same, another program writes to Redis."
            )
        raise AnswerTimeout(
            f"No answer within {seconds:g} s. Is the dispatcher running (hmem run)? The message stays queued."
        )

    async def _meanwhile(self, redis: Redis, answers: Answers, task_id: str, terminal: LiveAnswer | None) -> None:
        """Show what is written, and have features ask what they want to know. Where nobody looks, tell only what makes it late."""
        for partial in (await answers.partials([task_id])).values():
            if terminal:
                terminal.show("\n".join(shown_now(partial)).strip())
            elif partial.doing == "retrying" and self._told != task_id:
                self._told = task_id
                typer.echo(f"note: {RETRYING}", err=True)
        if terminal:
            ask = terminal.allows
            await features().ask_async(terminal_waits, redis=redis, secret=self._secret, task_id=task_id, ask=ask)
