"""Delivery of answers: what waits in Redis is sent to its chat, in order within a chat, and no chat holds up another.

    placeholder ─ note its id ─ … ─ result ─ edit the placeholder ─ note ─ further parts, each noted ─ one script: nothing waits any more

Each step is noted in the waiting record after it was done, so a crash between the two repeats at most one step and loses none:

    placeholder sent, not noted    a second placeholder is sent; the first stays
    answer edited in, not noted    the same edit is repeated, which is invisible
    part sent, not noted           that part is sent twice; so is the answer if the placeholder was gone, one of the bot's own messages, and
                                   a message of the outbox
    file sent, not noted           that file is sent twice
    all noted, not ended           nothing is repeated

The same applies to a request whose reply was lost on the network. A message that Telegram took (`"ok": true`) is never sent again, even if the
reply does not say readably which one it is: what would have replaced it comes as a new message. Ready answers of a chat are sent in the order of
their tasks, but none waits for an earlier one that is not ready (its placeholder keeps its place): a lost task must not silence a chat.

With STREAM an answer is shown while it is written (partials.py), in a private chat as a draft: there the placeholder is sent only when the result, or
a notice, is there. An edit may be repeated and a message may not, so the answer itself always comes by an edit, whenever the bot dies:

    draft ─ … ─ result ─ nothing partial any more ─ placeholder (the draft goes) ─ note its id ─ edit ─ note ─ as above

    partial text shown             nothing is noted of it; the next one, or the answer, takes its place
    placeholder sent, not noted    as above: a second one is sent, and the first stays
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from aiogram.exceptions import (
    TelegramAPIError,
    TelegramBadRequest,
    TelegramForbiddenError,
    TelegramMigrateToChat,
)

from dispatcher.bots.answers import PLACEHOLDER
from dispatcher.bots.telegram.client import NO_ID, ButtonRows, until_redis_answers, until_telegram_takes_it
from dispatcher.bots.telegram.core import BotCore, Keyboards
from dispatcher.bots.telegram.partials import Partials
from dispatcher.bots.telegram.rendering import MessagePart, parts_of, plain_parts
from dispatcher.bots.telegram.state import OUTBOX, Waiting
from dispatcher.queue.state import held_now
from shared.system.faults import crash_point
from shared.system.waiting import set_within
from shared.text.logs import Logger
from shared.text.translations import later, speaking, tr
from shared.turns.media import Media
from shared.turns.records import RecordRefused, chat_id_of, user_id_of
from shared.turns.signed import Result, keyboard_json, keyboard_of, signed_record
from shared.turns.speakers import plain_name

log = Logger()

#: Seconds between two looks at what is ready.
LOOK_SECONDS = 0.3
#: Seconds that a message waits before its chat is told that no dispatcher takes it, and between two checks of that.
UNATTENDED_SECONDS, ATTENDANCE_SECONDS = 60.0, 5.0
#: Seconds after which no answer is expected any more.
ANSWER_TIMEOUT_SECONDS = 48 * 3600
#: Seconds for which a chat pauses after an error.
DEFECT_SECONDS = 30.0
#: Messages taken from the outbox at one look.
OUTBOX_BATCH = 20

UNSIGNED = later(
    "I received a result that does not have my signature, so I do not show it and keep waiting. If this persists, the owner "
    "should check that RESULT_HMAC_KEY is the same for the bot and the dispatcher."
)
UNATTENDED = later(
    "No dispatcher is running at the moment, so the answer is delayed. Your message is stored and will be answered. If it takes hours, "
    "tell my owner that the dispatcher is not running."
)
HELD = later("I cannot answer yet: {reason}. Your message is stored, and I answer it by myself as soon as I can.")
NO_ANSWER = later("No answer came within two days, so I have stopped waiting for it. Please ask again.")
EMPTY_ANSWER = later("The answer was empty. Please rephrase your message.")
NOT_SHOWN = later("Telegram refused part of this answer, so it cannot be shown here.")
FILE_GONE = later("The file {name} is not there any more, so I could not send it. Please ask for it again.")
FILE_REFUSED = later("Telegram rejected the file {name}, so I cannot show it here.")


class NotDelivered(Exception):
    """This chat gets nothing (any more)."""


@dataclass(frozen=True)
class Job:
    """The next step for one record: to send its result or its own text, a placeholder, a warning, or the notice of a timeout."""

    name: str
    record: Waiting
    result: bytes | None = None  # signed
    junk: bool = False  # an unsigned result is in its place
    notice: str = ""  # why the answer comes later, which its chat does not know yet
    drafted: bool = False  # it is shown as a draft, so it has no placeholder yet


class Delivery:
    def __init__(self, core: BotCore) -> None:
        self._core, self._telegram, self._state = core, core.telegram, core.state
        self._zone, self._redis = core.settings.timezone, core.redis
        self._keyboards, self._files = Keyboards(core), core.media
        self._secret, self._move = core.secret, core.move
        # None: answers are shown only when they are complete
        self._partials = Partials(core, self._keyboards) if core.settings.stream else None
        self._chats: dict[int, asyncio.Task[None]] = {}  # one task for each chat with work
        self._attendance_at = 0.0
        self.wake = asyncio.Event()  # there may be something to deliver: look immediately
        self._closing = asyncio.Event()

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        """What runs until it is cancelled; running deliveries then continue until `finish`."""
        return [self._run(), *([self._partials.run()] if self._partials else [])]

    async def _run(self) -> None:
        while True:
            self.wake.clear()
            try:
                await until_redis_answers(self._look)
            except Exception:  # a bug of ours: there must be a next look
                log.exception("the look for answers failed")
            await set_within(self.wake, LOOK_SECONDS)

    async def finish(self, seconds: float) -> None:
        """Start nothing new; running deliveries get this many seconds."""
        self._closing.set()
        if self._chats:
            await asyncio.wait(self._chats.values(), timeout=seconds)
        for task in (left := list(self._chats.values())):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        self._closing.clear()

    async def _look(self) -> None:
        await self._empty_outbox()
        busy = set(self._chats)  # before reading: what a chat's delivery does meanwhile is not visible below
        waiting = await self._state.deliveries.waiting()
        open_ones = {name: one for name, one in waiting.items() if one.text is None}
        results, junk = await self._state.answers.results(list(open_ones))
        if self._partials:
            self._partials.follow(open_ones, results.keys())
        notices = await self._notices({name: one for name, one in open_ones.items() if name not in results})
        work: dict[int, list[Job]] = {}
        for name, record in waiting.items():
            job = Job(name, record, results.get(name), name in junk, notices.get(name, ""), self._drafted(record))
            if record.target not in busy and _due(job):
                work.setdefault(record.target, []).append(job)
        if not self._closing.is_set():
            for chat, jobs in work.items():
                self._start(chat, self._serve(jobs))

    async def _notices(self, waiting: dict[str, Waiting]) -> dict[str, str]:
        """Task → why its answer comes later, which its chat should be told: no dispatcher is running, or (once in a chat) questions are held."""
        shown = {name: one for name, one in waiting.items() if one.placeholder is not None or self._drafted(one)}
        untold = {name: one for name, one in shown.items() if not one.unattended}
        if not untold or time.monotonic() - self._attendance_at < ATTENDANCE_SECONDS:
            return {}
        self._attendance_at = time.monotonic()
        long_ago, told = time.time() - UNATTENDED_SECONDS, {one.chat for one in shown.values() if one.unattended}
        unattended = await self._state.queue.unattended({name for name, one in untold.items() if one.at < long_ago})
        holds, notices = await held_now(self._redis), dict[str, str]()
        for name, record in untold.items():
            with speaking(record.language):
                if name in unattended:
                    notices[name] = tr(UNATTENDED)
                elif (
                    (hold := holds.get(record.chat) or holds.get("")) and not record.command and record.chat not in told
                ):
                    told.add(record.chat)
                    notices[name] = tr(HELD).format(reason=hold.reason(self._zone))
        return notices

    def _drafted(self, record: Waiting) -> bool:
        return self._partials is not None and self._partials.drafts(record)

    def _start(self, chat: int, work: Coroutine[Any, Any, None]) -> None:
        task = self._chats[chat] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._ended(chat))

    def _ended(self, chat: int) -> None:
        self._chats.pop(chat, None)
        self.wake.set()

    async def _serve(self, jobs: list[Job]) -> None:
        for job in jobs:
            if self._closing.is_set():
                return
            try:
                await self._do(job)
            except Exception:  # a bug of ours: this chat pauses, the others continue
                log.exception("a delivery failed", task=job.name)
                await set_within(self._closing, DEFECT_SECONDS)
                return

    async def _do(self, job: Job) -> None:
        chat = job.record.target
        try:
            if job.record.text is None and not await until_redis_answers(lambda: self._core.allows(chat)):
                raise NotDelivered("its chat is not allowed any more")
            with speaking(job.record.language):
                await self._deliver(job)
        except TelegramMigrateToChat as moved:
            to = moved.migrate_to_chat_id
            await until_redis_answers(lambda: self._move(chat, to))  # the next look continues there
            if chat not in self._core.moved:
                await self._end(job)
        except (NotDelivered, TelegramForbiddenError, TelegramBadRequest) as error:
            log.warning("a delivery was abandoned", task=job.name, chat=job.record.chat, error=str(error))
            await self._end(job)
        except TelegramAPIError as error:  # an unknown token: the loop for updates ends the process
            log.error("a delivery failed and is tried again", task=job.name, error=str(error))
            await set_within(self._closing, DEFECT_SECONDS)

    async def _deliver(self, job: Job) -> None:
        if self._partials and job.record.text is None:
            await self._partials.settle(job.name, job.record)
            job = job if job.record.parts_sent else await self._placed(job)
        record = job.record
        if record.text is not None:
            parts = plain_parts(record.text)
            await self._show(job, parts)
        elif job.result is not None:
            result = Result.verified(self._secret, job.name, job.result)
            parts = await asyncio.to_thread(parts_of, result.output)
            await self._show(job, parts or plain_parts(tr(EMPTY_ANSWER)), result)
        elif _expired(record):
            log.warning("no answer came for two days", task=job.name)
            await self._show(job, plain_parts(tr(NO_ANSWER)))
        else:  # not the answer yet
            if job.notice or (job.junk and record.placeholder is not None and not record.warned):
                told = MessagePart(job.notice or tr(UNSIGNED))
                message = await self._edit(record, told, self._keyboards.stop(job.name, record))
                unattended, warned = bool(job.notice) or record.unattended, not job.notice or record.warned
                record = replace(record, placeholder=message, unattended=unattended, warned=warned)
                await self._note(job.name, record)
            else:
                await self._placed(job)
            if self._partials:
                self._partials.resume(job.name)

    async def _placed(self, job: Job) -> Job:
        """The job with a placeholder, which is sent if there is none."""
        if job.record.placeholder is not None:
            return job
        stop = [] if job.result else self._keyboards.stop(job.name, job.record)
        message = await self._send(job.record, MessagePart(PLACEHOLDER), buttons=stop)  # it sounds: the edit does not
        crash_point("telegram:placeholder-sent")
        record = replace(job.record, placeholder=message)
        await self._note(job.name, record)
        return replace(job, record=record)

    async def _show(self, job: Job, parts: list[MessagePart], result: Result | None = None) -> None:
        """The parts that were not sent yet, then the files of the result; its buttons are below the last part."""
        keyboard = result.buttons if result else keyboard_of(job.record.buttons)
        record = job.record
        for number in range(record.parts_sent, len(parts)):
            buttons = self._keyboards.below(record, keyboard) if number == len(parts) - 1 else []
            if number == 0 and record.placeholder is not None:
                message = await self._edit(record, parts[0], buttons)
                crash_point("telegram:answer-edited")
            else:
                message = await self._send(record, parts[number], first=number == 0, buttons=buttons)
                crash_point(f"telegram:part-{number}-sent")
            if number == 0:
                record = replace(record, placeholder=message)
            record = replace(record, parts_sent=number + 1, row=message)
            await self._note(job.name, record)
        if result:
            await self._send_files(job, record, result.files)
            await self._keyboards.sent(record, keyboard, result.reply_command)
        crash_point("telegram:all-sent")
        await self._end(job)

    async def _end(self, job: Job) -> None:
        await until_redis_answers(lambda: self._state.deliveries.delivered(job.name, job.record, job.result or b""))

    async def _note(self, name: str, record: Waiting) -> None:
        await until_redis_answers(lambda: self._state.deliveries.note(name, record))

    # Sending.

    async def _edit(self, record: Waiting, part: MessagePart, buttons: ButtonRows = ()) -> int:
        """Replace the placeholder with a text; as a new message if the placeholder is gone, or has no known id. The message's id, or NO_ID."""
        placeholder = record.placeholder or NO_ID
        for tried in (part, part.plain) if placeholder else ():
            try:
                await until_telegram_takes_it(
                    lambda: self._telegram.edit(record.target, placeholder, tried, buttons)  # noqa: B023 - awaited immediately
                )
            except TelegramBadRequest as error:
                if "not modified" in str(error):
                    return placeholder
                if not tried.entities:
                    break
            else:
                return placeholder
        return await self._send(record, part, buttons=buttons)

    async def _send(self, record: Waiting, part: MessagePart, *, first: bool = True, buttons: ButtonRows = ()) -> int:
        """Send a message, if necessary without its formatting, then without its topic; returns its id, or NO_ID."""
        reply_to = record.reply_to if first else record.placeholder  # other answers may be in between
        tries = [(part, record.thread), *([(part.plain, record.thread)] if part.entities else [])]
        if record.thread is not None:
            tries.append((part.plain, None))
        for tried, thread in [*tries, (MessagePart(tr(NOT_SHOWN)), None)]:
            with contextlib.suppress(TelegramBadRequest):
                return await until_telegram_takes_it(
                    lambda: self._telegram.send(record.target, tried, thread=thread, reply_to=reply_to, buttons=buttons)  # noqa: B023
                )
        if buttons:  # it is they that Telegram refuses
            return await self._send(record, part, first=first)
        raise NotDelivered("Telegram accepts no message in this chat")

    async def _send_files(self, job: Job, record: Waiting, files: tuple[Media, ...]) -> None:
        """Those that Claude made and that were not sent yet (SEND_FILES of the dispatcher). One that cannot be sent is told in a sentence."""
        for number in range(record.files_sent or 0, len(files)):
            await self._send_file(record, files[number])
            crash_point(f"telegram:file-{number}-sent")
            await self._note(job.name, replace(record, files_sent=number + 1))

    async def _send_file(self, record: Waiting, file: Media) -> None:
        content = await until_redis_answers(lambda: self._files.get(file.sha256))
        name, told = file.name or "file", FILE_GONE
        if content is not None:
            for thread in dict.fromkeys((record.thread, None)):  # a topic may be deleted meanwhile
                where = (thread, record.placeholder)
                try:
                    await until_telegram_takes_it(
                        lambda: self._telegram.send_document(record.target, content, name, *where)  # noqa: B023
                    )
                except TelegramBadRequest as error:
                    log.warning("Telegram refused a file", error=str(error))
                    told = FILE_REFUSED
                else:
                    return
        await self._send(record, MessagePart(tr(told).format(name=plain_name(name))), first=False)

    # Outbox.

    async def _empty_outbox(self) -> None:
        """Unsolicited messages become waiting records, so that an unreachable chat does not hold up the others."""
        for _ in range(OUTBOX_BATCH):
            raw = await self._state.deliveries.outbox_head()
            if raw is None:
                return
            record = await self._outbox_record(raw)
            await self._state.deliveries.take_from_outbox(raw, record)

    async def _outbox_record(self, raw: bytes) -> Waiting | None:
        try:
            message = signed_record(self._secret, OUTBOX, raw)
            chat, text = int(chat_id_of(message.get("chat_id"))), message.get("text")
        except (RecordRefused, ValueError) as error:
            log.error("a message of the outbox cannot be believed and is removed", error=str(error))
            return None
        if not await self._core.allows(chat) or not isinstance(text, str) or not text.strip():
            log.error("a message of the outbox is removed: its chat is not allowed, or it is empty", chat=chat)
            return None
        digest = message.get("digest") is True or None
        buttons, user = keyboard_json(keyboard_of(message.get("buttons"))) or None, user_id_of(message.get("user_id"))
        return Waiting(str(chat), time.time(), text=text, user=user, digest=digest, buttons=buttons)


def _due(job: Job) -> bool:
    record = job.record
    needs_placeholder = record.placeholder is None and record.parts_sent == 0 and not job.drafted
    needs_warning = job.junk and not record.warned
    ready = record.text is not None or job.result is not None or bool(job.notice)
    return ready or needs_placeholder or needs_warning or _expired(record)


def _expired(record: Waiting) -> bool:
    return time.time() - record.at > ANSWER_TIMEOUT_SECONDS
