"""The answer while Claude writes it, for the bot: `hcli:mem:partial:<task>`, a string that expires.

Nothing here can hold up an answer or make it fail: a value that Redis does not take is replaced by the next one. The bot shows a partial answer until
the result is there; `finish.lua` and `bury.lua` remove it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from dispatcher.answering.hooks import Core
from dispatcher.claude.events import Progress
from dispatcher.claude.reply import WORD_JOINER
from dispatcher.memory.typed import tags
from shared.system.waiting import set_within
from shared.text.format import cut, cut_end
from shared.text.logs import Logger
from shared.turns.records import Task, well_formed
from shared.turns.signed import TEXT_CHARACTERS, TOOL_CHARACTERS, PartialAnswer, signing_key
from shared.wire import keys

log = Logger()

#: Seconds between two values of a task, between two writes of the same one (it expires after PARTIAL_TTL_SECONDS), and that one write may take.
PAUSE_SECONDS, RENEW_SECONDS, WRITE_SECONDS = 0.25, 20.0, 2.0
#: Seconds that an answer waits for the last write: one that comes after the result would stay until it expires.
LAST_WRITE_SECONDS = 0.1


class PartialAnswers:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        self._core, self._secret = core, signing_key(core.settings, "no partial answer could be signed")
        self._warned = False

    @asynccontextmanager
    async def of(self, task: Task, code: str) -> AsyncIterator[Callable[[Progress], None]]:
        """What takes the progress of this answer and writes it, at most every PAUSE_SECONDS, but its first words at once."""
        writer = _Writer(lambda number, progress: self._write(task, code, number, progress))
        running = asyncio.create_task(writer.run())
        try:
            yield writer.report
        finally:
            writer.close()
            await asyncio.wait({running}, timeout=LAST_WRITE_SECONDS)
            running.cancel()

    async def _write(self, task: Task, code: str, number: int, progress: Progress) -> None:
        text = _shown(progress.text, code if self._core.remembers else "")
        tool = cut(well_formed(progress.tool), TOOL_CHARACTERS)
        partial = PartialAnswer(task.chat_id, number, text, progress.doing, tool)
        raw = partial.to_json(self._secret, task.task_id)
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._core.redis.set(keys.partial(task.task_id), raw, ex=keys.PARTIAL_TTL_SECONDS)
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            if not self._warned:
                log.warning("an answer cannot be shown while it is written", reason=str(error) or type(error).__name__)
            self._warned = True


class _Writer:
    """Writes the newest progress, one value at a time, until it is closed."""

    def __init__(self, write: Callable[[int, Progress], Awaitable[None]]) -> None:
        self._write, self._latest, self._number = write, Progress(), 0
        self._news, self._first_words = asyncio.Event(), asyncio.Event()
        self._closed = False

    def report(self, progress: Progress) -> None:
        first_words = progress.text and not self._latest.text
        self._latest = progress
        self._news.set()
        if first_words:
            self._first_words.set()

    def close(self) -> None:
        self._closed = True
        self._news.set()
        self._first_words.set()

    async def run(self) -> None:
        while not self._closed:
            self._news.clear()
            self._first_words.clear()
            self._number = max(self._number + 1, time.time_ns() // 1_000_000)
            await self._write(self._number, self._latest)
            await set_within(self._first_words, PAUSE_SECONDS)
            await set_within(self._news, RENEW_SECONDS)


def _shown(text: str, code: str) -> str:
    """What may be shown of an answer so far: without its tags, and of a long one the end."""
    text = tags.without_tags_so_far(well_formed(text).replace(WORD_JOINER, ""), code)
    if len(text) <= TEXT_CHARACTERS:
        return text
    text = cut_end(text, TEXT_CHARACTERS)
    return text[text.find("\n", 0, TEXT_CHARACTERS // 2) + 1 :]
