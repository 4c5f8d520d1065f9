"""Fetches the files of messages and queues their tasks, chat by chat in order; of what cannot be fetched the sender is told in a sentence.

    Intake ─ arriving (Redis) ─ for each chat: wait for further parts ─ download ─ store by hash ─ one script: task queued, arriving gone

A crash in between loses nothing: what is among the arriving messages is fetched again, and the same bytes have the same hash.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from aiogram.exceptions import TelegramAPIError, TelegramBadRequest

from dispatcher.bots.telegram import commands
from dispatcher.bots.telegram.client import TOO_BIG, until_redis_answers, until_telegram_takes_it
from dispatcher.bots.telegram.contents import FILES, FileToFetch
from dispatcher.bots.telegram.core import BotCore
from dispatcher.bots.telegram.messages import MESSAGE_CHARACTERS
from dispatcher.bots.telegram.state import ARRIVING, QUEUED_OF_CHAT, Mark, Waiting, digest
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.text.translations import later, speaking, tr
from shared.turns.media import MEDIA_MOST, Media
from shared.turns.records import MOST_TASK_BYTES, NO_TEXT, dumps, with_text
from shared.turns.signed import SignedRecord
from shared.wire.media import MediaRefused

#: How long the bot waits for another picture of an album, and for the next part of a long text; how far apart Telegram may date two parts. Seconds.
ALBUM_SECONDS, PARTS_SECONDS = 1.0, 2.0


@dataclass(frozen=True)
class Arriving(SignedRecord):
    """A message whose files, or further parts, are still at Telegram, as Redis has it until they are fetched: the task as it will be, and the files.

    What comes after it in the same chat waits behind it, so that a chat keeps its order. The pictures of an album come as a message each, and so do
    the parts into which Telegram cuts a long text: they are gathered in the first one's. `at`: when the newest part of it came, and `said`: its date
    (POSIX seconds); `order`: the number of its update; `record`: where the answer goes (state.Waiting).
    """

    kind = ARRIVING
    order: int
    chat: str
    at: float
    label: str
    task: dict[str, Any]
    record: dict[str, Any]
    files: tuple[FileToFetch, ...] = ()
    album: str | None = None  # or the long text (IncomingMessage.paste)
    said: float = 0.0
    cut: int | None = None  # of a part of a text after which another one may come: its length as Telegram counts
    parts: dict[str, tuple[int, int]] | None = (
        None  # of a text that came in parts: label of each → where it is in the text
    )

    @property
    def due(self) -> float:
        waits = self.cut or (self.album and 0 < len(self.files) < MEDIA_MOST)
        return self.at + ALBUM_SECONDS if waits else self.at

    @property
    def text(self) -> str:
        return "" if self.task.get(NO_TEXT) is True else str(self.task.get("message", ""))

    @property
    def marks(self) -> dict[str, Mark]:
        """Label of each message of it → what is known of that for edits."""
        if self.parts is None:
            return {self.label: Mark(self.task["task_id"], digest(self.text))}
        places = self.parts.items()
        return {label: Mark(self.task["task_id"], digest(self.text[slice(*at)]), *at) for label, at in places}

    def goes_on_with(self, album: str | None, said: float) -> bool:
        """Whether a message of this album or long text, and of this date, is a further part of this one."""
        in_time = self.cut is not None and said - self.said <= PARTS_SECONDS
        return album is not None and album == self.album and (bool(self.files) or in_time)

    def with_part(self, other: Arriving) -> Arriving:
        """With one more picture of its album (the caption counts, whichever of them has it), or the next part of its text."""
        if self.cut:
            so_far = self.text + ("" if self.cut == MESSAGE_CHARACTERS else "\n")  # cut inside a line, or at its end
            task = with_text(self.task, so_far + other.text)
            parts = self.parts or {self.label: (0, len(self.text))}
            parts = parts | {other.label: (len(so_far), len(so_far) + len(other.text))}
            grown = replace(self, at=other.at, said=other.said, cut=other.cut, parts=parts, task=task)
            ends = not other.cut or len(dumps(grown.content())) > MOST_TASK_BYTES // 2  # a larger one would be refused
            return replace(grown, album=None, cut=None) if ends else grown
        files = (*self.files, *other.files)[:MEDIA_MOST]
        if self.text or not other.text:
            return replace(self, at=other.at, files=files)
        task = {name: value for name, value in other.task.items() if name != "task_id"}
        whole = {"task_id": self.task["task_id"], **task}
        return replace(self, at=other.at, files=files, task=whole, label=other.label)

    def edited(self, label: str, text: str) -> Arriving:
        mark, parts = self.marks[label], self.parts
        if parts:
            longer = len(text) - (mark.end - mark.start)
            parts = {
                name: (a + longer * (a > mark.start), b + longer * (b >= mark.end)) for name, (a, b) in parts.items()
            }
        return replace(self, parts=parts, task=with_text(self.task, mark.put(text, self.text) or text))

    @classmethod
    def of(cls, content: dict[str, Any]) -> Arriving:
        files = tuple(FileToFetch(**one) for one in content.pop("files", ()))
        return super().of({**content, "files": files})


def named(task: dict[str, Any], files: tuple[FileToFetch, ...]) -> dict[str, Any]:
    """The task of a message with files: one without words says what it is instead."""
    if str(task.get("message") or "").strip() or not files:
        return task
    return task | {"message": FILES[files[0].kind][0], NO_TEXT: True}


log = Logger()

#: Attempts to fetch a file: within about a quarter of a minute.
ATTEMPTS = 8

TOO_LARGE = later("This file is too large for me: I read files of up to {most} MB. Please send a smaller one.")
GONE = later("Telegram does not have this file any more, so I could not read it. Please send it again.")
NOT_FETCHED = later("I could not fetch this file from Telegram, so I did not read it. Please send it again later.")


class Arrivals:
    """One per bot. `arrived` is called when there is something new to deliver."""

    def __init__(self, core: BotCore, arrived: Callable[[], None]) -> None:
        self._allows, self._most = core.allows, core.settings.media_bytes
        self._telegram, self._state, self._store, self._arrived = core.telegram, core.state, core.media, arrived
        self._wake, self.begun = asyncio.Event(), asyncio.Event()
        self._chats = dict[str, asyncio.Task[None]]()

    async def store(self, update: str, arriving: Arriving) -> bool:
        """A message of an update, or one more part of an earlier one; False if too much of this chat is waiting."""
        while True:
            own = await self.of_chat(arriving.chat)
            first = next(
                (name for name, (_, one) in own.items() if one.goes_on_with(arriving.album, arriving.said)), ""
            )
            if not first and len(own) >= QUEUED_OF_CHAT:
                return False
            before, whole = (own[first][0], own[first][1].with_part(arriving)) if first else (b"", arriving)
            if await self._state.updates.arrive(first or update, update, before, whole) >= 0:
                self._wake.set()
                return True

    async def edit(self, update: str, label: str, text: str) -> bool:
        """Change the text of a message that is still arriving, or of a part of one; False if there is none of that label."""
        while True:
            arriving = (await self.all()).items()
            found = [(name, raw, one) for name, (raw, one) in arriving if label in one.marks]
            if not found:
                return False
            name, raw, one = found[0]
            whole = one.edited(label, text)
            if await self._state.updates.arrive(name, update, raw, whole) >= 0:
                return True

    async def of_chat(self, chat: str) -> dict[str, tuple[bytes, Arriving]]:
        """What is arriving of this chat: what comes now has to wait behind it."""
        return {name: found for name, found in (await self.all()).items() if found[1].chat == chat}

    async def all(self) -> dict[str, tuple[bytes, Arriving]]:
        """In their order."""
        found = await self._state.deliveries.believed(ARRIVING, Arriving)
        return dict(sorted(found.items(), key=lambda one: one[1][1].order))

    async def run(self) -> None:
        """Runs until cancelled, which may happen at any moment; fetches nothing until `begun`."""
        await self.begun.wait()
        try:
            while True:
                self._wake.clear()
                for _, one in (await until_redis_answers(self.all)).values():
                    if one.chat not in self._chats:
                        self._start(one.chat)
                await self._wake.wait()
        finally:
            for task in self._chats.values():
                task.cancel()
            await asyncio.gather(*self._chats.values(), return_exceptions=True)

    def _start(self, chat: str) -> None:
        task = self._chats[chat] = asyncio.create_task(self._chat(chat))

        def ended(_: object) -> None:
            self._chats.pop(chat, None)
            self._wake.set()  # something may have come while it ended

        task.add_done_callback(ended)

    async def _chat(self, chat: str) -> None:
        """One after the other, until nothing of the chat is arriving."""
        while True:
            found = await until_redis_answers(lambda: self.of_chat(chat))
            if not found:
                return
            name, (raw, one) = next(iter(found.items()))
            if one.at <= (now := time.time()) < one.due:  # a clock that was set back makes nobody wait
                await asyncio.sleep(one.due - now)
                continue
            record = Waiting.of(one.record)
            with speaking(record.language):
                await self._fetch_all(name, raw, one, record)
            self._arrived()

    async def _fetch_all(self, task_id: str, raw: bytes, one: Arriving, record: Waiting) -> None:
        media, sentences = list[dict[str, Any]](), list[str]()
        for file in one.files:
            try:
                media.append((await self._fetched(file)).to_json())
            except MediaRefused as error:
                sentences.append(str(error))
        crash_point("telegram:media-stored")
        sentence, updates = " ".join(dict.fromkeys(sentences)), self._state.updates
        if sentence and not media:
            await until_redis_answers(lambda: updates.say(task_id, replace(record, text=sentence), raw))
            return
        if sentence:
            notice = replace(record, at=time.time(), text=sentence)
            await until_redis_answers(lambda: updates.say(f"{task_id}-media", notice))
        if await until_redis_answers(lambda: self._allows(int(one.chat))):
            task, marks = dumps(one.task | ({"media": media} if media else {})), one.marks
            mark = marks.pop(one.label)
            for label, other in marks.items():
                await until_redis_answers(lambda: self._state.marks.note(label, other.to_json()))  # noqa: B023 - awaited immediately
            busy = replace(record, text=tr(commands.BUSY))
            taken = await until_redis_answers(lambda: updates.take(task_id, record, task, one.label, mark, busy, raw))
            log.info("a message was received whole", task=task_id, chat=one.chat, files=len(media), outcome=taken)
        else:
            await until_redis_answers(lambda: updates.drop_arriving(task_id))
        crash_point("telegram:after-arrival")

    async def _fetched(self, file: FileToFetch) -> Media:
        """The file in the store; MediaRefused with a sentence."""
        too_large = tr(TOO_LARGE).format(most=f"{self._most / 1_000_000:g}")
        if file.size > self._most:
            raise MediaRefused(too_large)
        try:
            content = await until_telegram_takes_it(lambda: self._telegram.download(file.file_id, self._most), ATTEMPTS)
        except TelegramBadRequest as error:
            raise MediaRefused(too_large if TOO_BIG in str(error) else tr(GONE)) from None
        except TelegramAPIError as error:
            log.error("a file could not be fetched", kind=file.kind, error=str(error))
            raise MediaRefused(tr(NOT_FETCHED)) from None
        sha256 = await until_redis_answers(lambda: self._store.put(content))
        return Media(file.kind, sha256, len(content), file.mime, file.name, file.seconds)
