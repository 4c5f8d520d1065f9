"""Answers while they are written: what the dispatcher has of them in Redis (dispatcher/answering/conversation/partial.py) is shown in their chats.

In a private chat as a draft (`sendMessageDraft`), which goes when the next message comes; elsewhere, and where the Bot API has no drafts, by edits
of the placeholder. Nothing of this is noted: after a crash it begins anew. What is shown may be old, and may fail: only the delivery of an answer
(delivery.py) decides what the chat has in the end, and it calls `settle` first, after which nothing more of that answer is shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog
from redis.exceptions import RedisError

from dispatcher.bots.telegram.core import BotCore
from dispatcher.bots.telegram.errors import Flood, Gone, Moved, NotThere, Refused, TelegramError
from dispatcher.bots.telegram.outgoing.keyboard import Keyboards
from dispatcher.bots.telegram.outgoing.rendering import MessagePart, last_part
from dispatcher.bots.telegram.waiting import Waiting
from shared.system.faults import crash_point
from shared.text.translations import later, speaking, tr
from shared.turns.records import RecordRefused
from shared.turns.signed.results import PartialAnswer

#: Shows a second in all chats together, and at once: the rest of what Telegram allows is for answers.
SHOWS_A_SECOND, SHOWS_AT_ONCE = 20.0, 5.0
#: Seconds between two shows in a chat; and on average in a group, which leaves 5 of its 20 messages a minute.
CHAT_SECONDS, GROUP_SECONDS = 1.25, 4.0
#: Shows that a chat may have in a short time after a while without any: what is being done, and the first words.
AT_ONCE = 3.0


@dataclass
class _Allowance:
    """Fills by `a_second` up to `most`; each show takes one. Times are seconds of a monotonic clock."""

    most: float
    a_second: float
    left: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.left = self.most

    def refill(self, now: float) -> float:
        self.left = min(self.most, self.left + max(0.0, now - self.at) * self.a_second)
        self.at = now
        return self.left


class Pace:
    """The allowances of all chats, so that the answers themselves never wait for Telegram's limits: about a message a second in a chat, twenty a
    minute in a group, and thirty a second in all; an edit counts as a message. Where many chats talk, each is shown less often."""

    def __init__(self) -> None:
        self._all = _Allowance(SHOWS_AT_ONCE, SHOWS_A_SECOND)
        self._chats: dict[int, _Allowance] = {}
        self._last: dict[int, float] = {}
        self._paused: dict[int, float] = {}

    def take(self, chat: int, now: float, talking: int, *, first_words: bool) -> bool:
        """Whether a chat may be shown something now, while so many chats have something to be shown; the first words of an answer need no pause."""
        own = self._chats.setdefault(chat, _Allowance(AT_ONCE, 1 / (CHAT_SECONDS if chat > 0 else GROUP_SECONDS)))
        enough = own.refill(now) >= (1 if first_words else 2) and self._all.refill(now) >= 1
        if not enough or now < self._paused.get(chat, 0.0):
            return False
        if not first_words and now - self._last.get(chat, -math.inf) < max(CHAT_SECONDS, talking / SHOWS_A_SECOND):
            return False
        own.left -= 1
        self._all.left -= 1
        self._last[chat] = now
        return True

    def spend(self, messages: int) -> None:
        """So many messages are sent that are more important; of many at once, what is partial waits for a second at most."""
        self._all.left = max(self._all.left - messages, -SHOWS_A_SECOND)

    def pause(self, chat: int, until: float) -> None:
        """Telegram wants nothing more for this chat until then."""
        self._paused[chat] = until

    def forget(self, now: float) -> None:
        """Drop the chats that have not been shown anything for a while: they have their full allowance anyway."""
        old = [
            chat
            for chat, last in self._last.items()
            if now - last > AT_ONCE * GROUP_SECONDS and now >= self._paused.get(chat, 0.0)
        ]
        for chat in old:
            for kept in (self._chats, self._last, self._paused):
                kept.pop(chat, None)


log = structlog.get_logger()

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
#: The most chats that are shown that an answer is awaited before anything is known of it.
WAITING_CHATS = 20

PLACEHOLDER = "…"
THINKING = later("Thinking…")
USING = later("Using {tool}…")


@dataclass
class _Followed:
    """An awaited answer: what is known of it, and what was shown last, when (seconds of the monotonic clock)."""

    name: str
    record: Waiting
    partial: PartialAnswer | None = None
    raw: bytes = b""
    shown: tuple[str, str] | None = None
    shown_at: float = 0.0
    plain: bool = False  # Telegram refused its formatting
    over: bool = False  # Telegram refused it altogether

    @property
    def now(self) -> tuple[str, str]:
        """Its text so far, and the line about what is being done."""
        with speaking(self.record.language):
            return shown_now(self.partial) if self.partial else ("", PLACEHOLDER)


def shown_now(partial: PartialAnswer) -> tuple[str, str]:
    """(text, line about what is being done)."""
    if partial.doing == "tool":
        server, _, tool = partial.tool.removeprefix("mcp__").rpartition("__")
        name = " ".join(f"{server}: {tool}".split() if server else tool.split())
        return partial.text, tr(USING).format(tool=name) if name else tr("Using a tool…")
    if partial.text.strip():
        return partial.text, ""
    return "", tr(THINKING) if partial.doing == "thinking" else PLACEHOLDER


class Partials:
    """One per bot."""

    def __init__(self, core: BotCore, keyboards: Keyboards) -> None:
        self._telegram, self._state, self._keyboards, self._pace = core.telegram, core.state, keyboards, Pace()
        self._followed: dict[str, _Followed] = {}
        self._settled = set[str]()  # answers of which nothing more is shown
        self._showing: dict[int, asyncio.Task[None]] = {}  # by chat
        self._some = asyncio.Event()
        self._has_drafts = True  # the Bot API knows drafts
        self._without_drafts = set[int]()  # chats that have none

    def drafts(self, record: Waiting) -> bool:
        """Whether this answer is shown as a draft, so that it needs no placeholder yet."""
        chat = record.target
        private = chat > 0 and record.text is None and record.placeholder is None and record.parts_sent == 0
        return private and self._has_drafts and chat not in self._without_drafts

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
            self._pace.forget(time.monotonic())

    async def settle(self, name: str, record: Waiting) -> None:
        """From now on nothing more of this answer is shown, and no request is under way in its chat that could overtake the next one."""
        self._settled.add(name)
        self._pace.spend(ANSWER_MESSAGES)
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
            for name, raw in found.items():
                if (one := self._followed.get(name)) and raw != one.raw:
                    self._read(one, raw)
            self._show_news()
        except (RedisError, OSError):  # the loop for answers reports it
            return REDIS_DOWN_SECONDS
        except Exception:  # a bug of ours: the answers come nevertheless
            log.exception("the look for partial answers failed")
            return REDIS_DOWN_SECONDS
        return LOOK_SECONDS

    def _read(self, one: _Followed, raw: bytes) -> None:
        one.raw = raw
        try:
            partial = self._state.answers.verified_partial(one.name, raw)
        except RecordRefused as error:
            log.warning(
                "a partial answer is not signed by the dispatcher and is ignored", task=one.name, reason=str(error)
            )
            return
        if one.partial is None or partial.number > one.partial.number:
            one.partial = partial

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
        """Those that have something new to show, or a draft that would vanish."""
        written = {one.record.target for one in self._followed.values() if one.partial}
        waiting = dict[int, _Followed]()  # of each chat the first one of which nothing is known
        for one in self._followed.values():
            if not one.partial and one.record.target not in written and self.drafts(one.record):
                waiting.setdefault(one.record.target, one)
        shown = [one for one in self._followed.values() if one.partial] + list(waiting.values())[:WAITING_CHATS]
        return [
            one
            for one in shown
            if not one.over
            and (one.shown != one.now or (self.drafts(one.record) and now - one.shown_at > DRAFT_SECONDS))
        ]

    async def _show(self, one: _Followed, text: str, doing: str) -> None:
        record, chat = one.record, one.record.target
        part = await asyncio.to_thread(last_part, text, doing)
        if one.name in self._settled:
            return
        try:
            await self._send(one, part.plain if one.plain else part)
            crash_point("telegram:partial-shown")
        except Flood as flood:
            one.shown = None
            self._pace.pause(chat, time.monotonic() + flood.seconds)
            log.info("partial answers pause in a chat, because Telegram asks for it", chat=chat, seconds=flood.seconds)
        except NotThere:
            self._has_drafts = False
            log.info("this Bot API has no drafts: answers are shown by edits of the placeholder")
        except Refused as error:
            self._refused(one, part, error)
        except (Gone, Moved):
            one.over = True
        except TelegramError:  # the next one may get through
            one.shown = None
        if self._has_drafts and chat not in self._without_drafts:
            return
        if record.placeholder is None:  # it gets one, and is then shown by edits
            one.shown = None

    async def _send(self, one: _Followed, part: MessagePart) -> None:
        record = one.record
        if record.placeholder is None:
            await self._telegram.draft(record.target, _draft_id(one.name), part, record.thread, REQUEST_SECONDS)
        else:
            with speaking(record.language):
                stop = self._keyboards.stop(one.name, record)
            await self._telegram.edit(record.target, record.placeholder, part, stop, seconds=REQUEST_SECONDS)

    def _refused(self, one: _Followed, part: MessagePart, error: Refused) -> None:
        if "not modified" in str(error):
            return
        one.shown = None
        if part.entities and not one.plain:
            one.plain = True
        elif one.record.placeholder is None:
            self._without_drafts.add(one.record.target)
            log.info("Telegram takes no drafts for a chat", chat=one.record.target, error=str(error))
        else:
            one.over = True


def _draft_id(name: str) -> int:
    """The same after a restart, so that the draft goes on; never 0."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % (2**31 - 1) + 1
