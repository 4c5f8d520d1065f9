"""Fetches the files of messages and queues their tasks, chat by chat in order; of what cannot be fetched the sender is told in a sentence.

    Intake ─ arriving (Redis) ─ for each chat: wait for the rest of an album ─ download ─ store by hash ─ one script: task queued, arriving gone

A crash in between loses nothing: what is among the arriving messages is fetched again, and the same bytes have the same hash.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import structlog

from dispatcher.bots.telegram.commands import answers
from dispatcher.bots.telegram.core import BotCore
from dispatcher.bots.telegram.errors import FileGone, FileTooLarge, TelegramError
from dispatcher.bots.telegram.incoming.media_kinds import FileToFetch, stand_in
from dispatcher.bots.telegram.retry import until_redis_answers, until_telegram_takes_it
from dispatcher.bots.telegram.state import QUEUED_OF_CHAT, digest
from dispatcher.bots.telegram.waiting import Mark, Waiting
from shared.system.faults import crash_point
from shared.text.translations import later, speaking, tr
from shared.turns.media import MEDIA_MOST, Media
from shared.turns.records import NO_TEXT, RecordRefused, dumps, loads_object, with_text
from shared.wire import keys
from shared.wire.media.store import MediaRefused

#: How long the bot waits for another picture of an album. Seconds.
ALBUM_SECONDS = 1.0


@dataclass(frozen=True)
class Arriving:
    """A message whose files are still at Telegram, as Redis has it until they are fetched: the task as it will be, and the files to fetch.

    What comes after it in the same chat waits behind it, so that a chat keeps its order. The pictures of an album come as a message each: they are
    gathered in the first one's. `at`: when the newest part of it came (POSIX seconds); `order`: the number of its update; `record`: where the answer
    goes (state.Waiting).
    """

    order: int
    chat: str
    at: float
    label: str
    task: dict[str, Any]
    record: dict[str, Any]
    files: tuple[FileToFetch, ...] = ()
    album: str | None = None

    @property
    def due(self) -> float:
        return self.at + ALBUM_SECONDS if self.album and len(self.files) < MEDIA_MOST else self.at

    @property
    def text(self) -> str:
        return "" if self.task.get(NO_TEXT) is True else str(self.task.get("message", ""))

    def with_picture(self, other: Arriving) -> Arriving:
        """With one more of its album; the caption counts, whichever of them has it."""
        files = (*self.files, *other.files)[:MEDIA_MOST]
        if self.text or not other.text:
            return replace(self, at=other.at, files=files)
        task = {name: value for name, value in other.task.items() if name != "task_id"}
        whole = {"task_id": self.task["task_id"], **task}
        return replace(self, at=other.at, files=files, task=whole, label=other.label)

    def with_caption(self, text: str) -> Arriving:
        """After an edit."""
        return replace(self, task=with_text(self.task, text))

    def to_json(self) -> bytes:
        return dumps({name: value for name, value in asdict(self).items() if value is not None})

    @classmethod
    def parse(cls, raw: bytes) -> Arriving:
        """RecordRefused or TypeError for what this program did not write."""
        record = loads_object(raw)
        files = tuple(FileToFetch(**one) for one in record.pop("files", ()))
        made = cls(files=files, **record)
        if not isinstance(made.task, dict) or not isinstance(made.record, dict):
            raise RecordRefused("no task")
        return made


def named(task: dict[str, Any], files: tuple[FileToFetch, ...]) -> dict[str, Any]:
    """The task of a message with files: one without words says what it is instead."""
    if str(task.get("message") or "").strip() or not files:
        return task
    return task | {"message": stand_in(files[0].kind), NO_TEXT: True}


log = structlog.get_logger()

#: Attempts to fetch a file: within about a quarter of a minute.
ATTEMPTS = 8

TOO_LARGE = later("This file is too large for me: I read files of up to {most} MB. Please send a smaller one.")
GONE = later("Telegram does not have this file any more, so I could not read it. Please send it again.")
NOT_FETCHED = later("I could not fetch this file from Telegram, so I did not read it. Please send it again later.")


class FileNotRead(Exception):
    """The text is a sentence for the sender."""


class Arrivals:
    """One per bot. `arrived` is called when there is something new to deliver."""

    def __init__(self, core: BotCore, arrived: Callable[[], None]) -> None:
        self._allowed, self._most = core.allowed, core.settings.media_bytes
        self._telegram, self._state, self._store, self._arrived = core.telegram, core.state, core.media, arrived
        self._wake, self.begun = asyncio.Event(), asyncio.Event()
        self._chats: dict[str, asyncio.Task[None]] = {}

    async def store(self, update: str, arriving: Arriving) -> bool:
        """A message of an update, or one more picture of an album; False if too much of this chat is waiting."""
        while True:
            found = await self.all()
            own = {task_id: one for task_id, (_, one) in found.items() if one.chat == arriving.chat}
            first = next(
                (task_id for task_id, one in own.items() if arriving.album and one.album == arriving.album), ""
            )
            if not first and len(own) >= QUEUED_OF_CHAT:
                return False
            before, whole = (found[first][0], own[first].with_picture(arriving)) if first else (b"", arriving)
            if await self._state.updates.arrive(first or update, update, before, whole.to_json()) >= 0:
                self._wake.set()
                return True

    async def waits(self, chat: int) -> bool:
        """Whether messages of this chat are arriving: what comes now has to wait behind them."""
        return any(one.chat == str(chat) for _, one in (await self.all()).values())

    async def has_album(self, chat: int, album: str) -> bool:
        return any(one.chat == str(chat) and one.album == album for _, one in (await self.all()).values())

    async def edit(self, update: str, label: str, text: str) -> bool:
        """Change the caption of a message whose files are still arriving; False if there is none of that label."""
        while True:
            found = next(
                ((name, raw, one) for name, (raw, one) in (await self.all()).items() if one.label == label), None
            )
            if found is None:
                return False
            name, raw, one = found
            if await self._state.updates.arrive(name, update, raw, one.with_caption(text).to_json()) >= 0:
                return True

    async def all(self) -> dict[str, tuple[bytes, Arriving]]:
        """In their order. One that cannot be read is logged and removed: it could never be fetched."""
        found = {}
        for name, raw in (await self._state.updates.arriving()).items():
            try:
                found[name] = (raw, Arriving.parse(raw))
            except (ValueError, TypeError) as error:
                log.error("an arriving message cannot be read and is removed", task=name, error=type(error).__name__)
                await self._state.updates.drop_arriving(name)
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
            found = await until_redis_answers(self.all)
            head = next(((name, raw, one) for name, (raw, one) in found.items() if one.chat == chat), None)
            if head is None:
                return
            name, raw, one = head
            if (left := one.due - time.time()) > 0:
                await asyncio.sleep(min(left, 5.0))
                continue
            record = Waiting.parse(dumps(one.record))
            with speaking(record.language):
                await self._fetch_all(name, raw, one, record)
            self._arrived()

    async def _fetch_all(self, task_id: str, raw: bytes, one: Arriving, record: Waiting) -> None:
        media, sentences = list[dict[str, Any]](), list[str]()
        for file in one.files:
            try:
                media.append((await self._fetched(file)).to_json())
            except FileNotRead as error:
                sentences.append(str(error))
        crash_point("telegram:media-stored")
        sentence = " ".join(dict.fromkeys(sentences))
        if sentence and not media:
            await self._say(task_id, record, sentence, raw)
            return
        if sentence:
            notice = replace(record, at=time.time(), text=sentence)
            mark = keys.bot_seen(f"{task_id}-media")
            await until_redis_answers(
                lambda: self._state.updates.tell(f"{task_id}-media", notice, mark, keys.BOT_SEEN_TTL_SECONDS)
            )
        await self._queue(task_id, raw, one, record, media)
        crash_point("telegram:after-arrival")

    async def _queue(
        self, task_id: str, raw: bytes, one: Arriving, record: Waiting, media: list[dict[str, Any]]
    ) -> None:
        task = dumps(one.task | ({"media": media} if media else {}))
        if not await until_redis_answers(lambda: self._allowed.has(int(one.chat))):
            await until_redis_answers(lambda: self._state.updates.drop_arriving(task_id))
            return
        refusal = replace(record, text=tr(answers.BUSY))
        mark = Mark(task_id, digest(one.text))
        taken = await until_redis_answers(
            lambda: self._state.updates.take(task_id, record, task, one.label, mark, refusal, raw)
        )
        log.info("a message with files was received", task=task_id, chat=one.chat, files=len(media), outcome=taken)

    async def _say(self, task_id: str, record: Waiting, text: str, raw: bytes) -> None:
        await until_redis_answers(lambda: self._state.updates.say(task_id, replace(record, text=text), raw))

    async def _fetched(self, file: FileToFetch) -> Media:
        """The file in the store; FileNotRead with a sentence."""
        try:
            if file.size > self._most:
                raise FileTooLarge(f"{file.size} bytes")
            content = await until_telegram_takes_it(lambda: self._telegram.download(file.file_id, self._most), ATTEMPTS)
            sha256 = await until_redis_answers(lambda: self._store.put(content))
        except FileTooLarge:
            raise FileNotRead(tr(TOO_LARGE).format(most=f"{self._most / 1_000_000:g}")) from None
        except FileGone:
            raise FileNotRead(tr(GONE)) from None
        except TelegramError as error:
            log.error("a file could not be fetched", kind=file.kind, error=str(error))
            raise FileNotRead(tr(NOT_FETCHED)) from None
        except MediaRefused as error:
            raise FileNotRead(str(error)) from None
        return Media(file.kind, sha256, len(content), file.mime, file.name, file.seconds)
