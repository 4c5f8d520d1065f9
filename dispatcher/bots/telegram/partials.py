"""Answers while they are written: what the dispatcher has of them in Redis (dispatcher/answering/conversation/partial.py) is shown in their chats.

In a private chat as a draft (`sendMessageDraft`), which goes when the next message comes; elsewhere, and where the Bot API has no drafts, by edits
of the placeholder. Nothing of this is noted: after a crash it begins anew. What is shown may be old, and may fail: only the delivery of an answer
(delivery.py) decides what the chat has in the end, and it calls `settle` first, after which nothing more of that answer is shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from typing import Any

from aiogram.exceptions import TelegramAPIError, TelegramBadRequest, TelegramNotFound, TelegramRetryAfter
from redis.exceptions import RedisError

from dispatcher.bots.answers import PLACEHOLDER, shown_now
from dispatcher.bots.telegram.core import BotCore, Keyboards
from dispatcher.bots.telegram.rendering import MessagePart, last_part
from dispatcher.bots.telegram.state import Waiting
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.text.translations import speaking
from shared.turns.signed import PartialAnswer

#: Shows a second in all chats together, and how many may come at once: the rest of what Telegram allows is for answers.
SHOWS_A_SECOND, SHOWS_AT_ONCE = 20.0, 5
#: Seconds between two shows in a chat; in a group that leaves 5 of its 20 messages a minute.
CHAT_SECONDS, GROUP_SECONDS = 1.25, 4.0
#: Pauses that the first words of an answer need not wait for: they follow what is being done.
FIRST_WORDS = 2


class Pace:
    """When a chat may be shown something, so that the answers themselves never wait for Telegram's limits: about a message a second in a chat,
    twenty a minute in a group, and thirty a second in all; an edit counts as a message. Where many chats talk, each is shown less often.

    Each show moves the time at which the next one is due (the generic cell rate algorithm). Times are seconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self._due: dict[int, float] = {}  # by chat
        self._all_due = 0.0

    def take(self, chat: int, now: float, talking: int, *, first_words: bool) -> bool:
        """Whether a chat may be shown something now, while so many chats have something to be shown."""
        pause = max(CHAT_SECONDS if chat > 0 else GROUP_SECONDS, talking / SHOWS_A_SECOND)
        due = self._due.get(chat, 0.0)
        ahead = FIRST_WORDS * pause if first_words else pause - CHAT_SECONDS  # so that a short answer grows, too
        if now < due - ahead or now < self._all_due - SHOWS_AT_ONCE / SHOWS_A_SECOND:
            return False
        self._due[chat] = max(due, now) + pause
        self._all_due = max(self._all_due, now) + 1 / SHOWS_A_SECOND
        return True

    def spend(self, messages: int, now: float) -> None:
        """So many messages are sent that are more important; of many at once, what is partial waits for a second at most."""
        self._all_due = min(max(self._all_due, now) + messages / SHOWS_A_SECOND, now + 1.0)

    def pause(self, chat: int, until: float) -> None:
        """Telegram wants nothing more for this chat until then."""
        self._due[chat] = until + FIRST_WORDS * GROUP_SECONDS


log = Logger()

#: Seconds between two looks while an answer is awaited, and after an error of Redis.
LOOK_SECONDS, REDIS_DOWN_SECONDS = 0.15, 2.0
#: Seconds that one request may take: an answer waits for the one that is under way in its chat.
REQUEST_SECONDS = 5
#: Seconds after which a draft that has not changed is sent again: Telegram shows it for thirty.
DRAFT_SECONDS = 20.0
#: The answers that are followed: the oldest ones of a chat (usually the first is being written), and in all.
FOLLOWED_IN_CHAT, FOLLOWED = 3, 300
#: Messages that an answer usually takes in the end: the placeholder, and its edit.
ANSWER_MESSAGES = 2


@dataclass
class _Followed:
    """An awaited answer: what is known of it, and what was shown last, when (seconds of the monotonic clock)."""

    name: str
    record: Waiting
    partial: PartialAnswer | None = None
    shown: tuple[str, str] | None = None
    shown_at: float = 0.0
    plain: bool = False  # Telegram refused its formatting

    @property
    def has_news(self) -> bool:
        """Where the chat was told that the answer comes later, only words replace that."""
        return self.partial is not None and (bool(self.partial.text) or not self.record.unattended)

    @property
    def now(self) -> tuple[str, str]:
        """Its text so far, and the line about what is being done."""
        with speaking(self.record.language):
            return shown_now(self.partial) if self.partial else ("", PLACEHOLDER)


class Partials:
    """One per bot."""

    def __init__(self, core: BotCore, keyboards: Keyboards) -> None:
        self._telegram, self._state, self._keyboards, self._pace = core.telegram, core.state, keyboards, Pace()
        self._followed: dict[str, _Followed] = {}
        self._settled = set[str]()  # answers of which nothing more is shown
        self._showing: dict[int, asyncio.Task[None]] = {}  # by chat
        self._some = asyncio.Event()
        self._without_drafts = set[int]()  # chats that Telegram has refused one

    def drafts(self, record: Waiting) -> bool:
        """Whether this answer is shown as a draft, so that it needs no placeholder yet."""
        chat = record.target
        private = chat > 0 and record.text is None and record.placeholder is None and record.parts_sent == 0
        return private and chat not in self._without_drafts

    def follow(self, awaited: dict[str, Waiting], ready: Collection[str]) -> None:
        """All answers that are awaited, oldest first, and those of them that are there."""
        self._settled &= awaited.keys()
        kept: dict[str, _Followed] = {}
        in_chat: dict[int, int] = {}
        for name, record in awaited.items():
            if name in ready or name in self._settled or not (record.placeholder or self.drafts(record)):
                continue
            in_chat[record.target] = in_chat.get(record.target, 0) + 1
            if in_chat[record.target] <= FOLLOWED_IN_CHAT and len(kept) < FOLLOWED:
                one = kept[name] = self._followed.get(name) or _Followed(name, record)
                one.record = record
        self._followed = kept
        if kept:
            self._some.set()
        else:
            self._some.clear()

    async def settle(self, name: str, record: Waiting) -> None:
        """From now on nothing more of this answer is shown, and no request is under way in its chat that could overtake the next one."""
        self._settled.add(name)
        self._pace.spend(ANSWER_MESSAGES, time.monotonic())
        self._followed.pop(name, None)
        if showing := self._showing.get(record.target):
            await asyncio.wait({showing})

    def resume(self, name: str) -> None:
        """What was sent was not the answer: it is awaited again."""
        self._settled.discard(name)

    async def run(self) -> None:
        """Runs until cancelled, and idles while nothing is awaited."""
        try:
            await self._some.wait()
            await asyncio.to_thread(last_part, "**x**")  # imports the library before the first words come
            while True:
                await self._some.wait()
                await asyncio.sleep(await self._look())
        finally:
            if self._showing:  # an answer may follow at once: nothing may overtake it
                await asyncio.wait(self._showing.values())

    async def _look(self) -> float:
        """Show what is new; returns the seconds until the next look."""
        try:
            found = await self._state.answers.partials(list(self._followed))
            for name, partial in found.items():
                one = self._followed.get(name)
                if one and (one.partial is None or partial.number > one.partial.number):
                    one.partial = partial
            self._show_news()
        except (RedisError, OSError):  # the loop for answers reports it
            return REDIS_DOWN_SECONDS
        except Exception:  # a bug of ours: the answers come nevertheless
            log.exception("the look for partial answers failed")
            return REDIS_DOWN_SECONDS
        return LOOK_SECONDS

    def _show_news(self) -> None:
        now = time.monotonic()
        news = sorted(self._news(now), key=lambda one: one.shown_at)
        talking = len({one.record.target for one in self._followed.values() if one.partial})
        for one in news:
            chat = one.record.target
            first_words = bool(one.partial and one.partial.text) and not (one.shown and one.shown[0])
            if chat not in self._showing and self._pace.take(chat, now, talking, first_words=first_words):
                one.shown, one.shown_at = one.now, now
                self._start(chat, self._show(one, *one.now))

    def _start(self, chat: int, show: Coroutine[Any, Any, None]) -> None:
        task = self._showing[chat] = asyncio.create_task(show)
        task.add_done_callback(lambda _: self._showing.pop(chat, None))

    def _news(self, now: float) -> list[_Followed]:
        """Those that have something new to show, or a draft that would vanish. Before anything is known, the first of a chat shows that it waits."""
        firsts = {one.record.target: one.name for one in reversed(self._followed.values())}
        return [
            one
            for one in self._followed.values()
            if (one.has_news or (self.drafts(one.record) and firsts[one.record.target] == one.name))
            and (one.shown != one.now or (self.drafts(one.record) and now - one.shown_at > DRAFT_SECONDS))
        ]

    async def _show(self, one: _Followed, text: str, doing: str) -> None:
        """What Telegram does not take is shown again when there is more."""
        chat, drafted = one.record.target, one.record.placeholder is None
        part = await asyncio.to_thread(last_part, text, doing)
        if one.name in self._settled:
            return
        try:
            await self._send(one, part.plain if one.plain else part)
            crash_point("telegram:partial-shown")
        except TelegramRetryAfter as flood:
            one.shown = None
            self._pace.pause(chat, time.monotonic() + flood.retry_after)
            log.info(
                "partial answers pause in a chat, because Telegram asks for it", chat=chat, seconds=flood.retry_after
            )
        except (TelegramBadRequest, TelegramNotFound) as error:
            if "not modified" in str(error):
                return
            if part.entities and not one.plain:
                one.plain, one.shown = True, None
            elif drafted:  # it gets a placeholder, and is then shown by edits
                self._without_drafts.add(chat)
                one.shown = None
                log.info("Telegram takes no drafts for a chat", chat=chat, error=str(error))
        except TelegramAPIError as error:
            log.info("a partial answer could not be shown", chat=chat, error=str(error))

    async def _send(self, one: _Followed, part: MessagePart) -> None:
        record = one.record
        if record.placeholder is None:
            await self._telegram.draft(record.target, _draft_id(one.name), part, record.thread, REQUEST_SECONDS)
        else:
            with speaking(record.language):
                stop = self._keyboards.stop(one.name, record)
            await self._telegram.edit(record.target, record.placeholder, part, stop, seconds=REQUEST_SECONDS)


def _draft_id(name: str) -> int:
    """The same after a restart, so that the draft goes on; never 0."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % (2**31 - 1) + 1
