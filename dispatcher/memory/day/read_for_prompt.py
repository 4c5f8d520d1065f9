"""What the day adds to a prompt, read within a deadline: a profile, memories near the message, earlier sessions, and the turns to search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.memory.store.whose import speaker_labels
from dispatcher.memory.tombstones import hidden_by
from dispatcher.memory.typed.text import coming_lines, noted_text, profile_text
from shared.errors import HmemError
from shared.text.logs import Logger

if TYPE_CHECKING:
    from dispatcher.memory.day.parts import DayParts
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.store.summaries import SessionSummary
    from dispatcher.memory.typed.chat_memories import ChatMemories
    from shared.search.day_items import DayItems
    from shared.search.types import HiddenTurns
    from shared.text.dates.named_times import Span
    from shared.turns.records import Tombstone, Turn

log = Logger()

#: How many memories are shown because they bear on the message, in addition to the profile.
RELEVANT = 5
#: Stands below two notes, the newer of which was made within a day.
ALIKE = "- {one} and {other} are very similar: does {other} replace {one}?"
#: The longest message that is read as a question about days to come: reading a pasted page for dates takes milliseconds.
QUESTION_CHARACTERS = 400
#: How long the summary of a session is shown as an earlier conversation, and a note is news. Seconds.
EARLIER_SECONDS = 86_400.0


@dataclass(frozen=True)
class PromptRequest:
    """The message that a prompt is for.

    `recent` is the conversation so far, None if a session has it: then `session` is its id. `count_access`: it is to be answered: memories that are
    shown count as accessed, and of turns that are not injected only the best are read. `user_id` and `name`: of who asks. `now` (POSIX seconds, None
    for the clock): from when "last week" is counted.
    """

    chat_id: str
    message: str
    recent: Sequence[Turn] | None = None
    session: str | None = None
    count_access: bool = True
    now: float | None = None
    user_id: str | None = None
    name: str | None = None

    @property
    def moment(self) -> float:
        return time.time() if self.now is None else self.now


@dataclass(frozen=True)
class DayContext:
    """What the day adds to a prompt; everything is empty if the day has nothing or cannot be read."""

    profile: str = ""  # what holds for who asks
    earlier: str = ""  # the summaries of this chat's sessions that were ended within a day
    facts: str = ""  # memories that bear on the message; of one that asks about days to come, also what is due then
    items: DayItems | None = None
    tombstones: tuple[Tombstone, ...] = ()  # the chat's
    known: frozenset[str] = frozenset()  # turns that the model has already seen in its session
    family: str | None = None  # the model of the day's vectors
    degraded: list[str] = field(default_factory=list)
    unproven: str | None = None  # why nothing at all may be recalled: the tombstones cannot be read

    @property
    def hidden(self) -> HiddenTurns:
        return hidden_by(self.tombstones)


def in_time(
    pool: ThreadPoolExecutor, read: Callable[[], DayContext], empty: DayContext, deadline_seconds: float
) -> DayContext:
    """The result of `read` in a thread of the pool, so that a slow store costs at most the deadline; else `empty` with the reason. Never raises."""
    reading = pool.submit(read)
    try:
        return reading.result(timeout=deadline_seconds)
    except FutureTimeout:
        reading.cancel()
        reason = f"no memory of the day: it did not answer within {1000 * deadline_seconds:.0f} ms"
    except HmemError as error:
        reason = f"no memory of the day: {error}"
    except Exception as error:  # noqa: BLE001 - no memory is not no service
        reason = f"no memory of the day: {error!r}"
    return replace(empty, degraded=[reason])


class ContextReader:
    """StoreUnavailable if the store cannot be reached. `counting` runs the writes that no prompt waits for."""

    def __init__(self, day: DayParts, counting: ThreadPoolExecutor) -> None:
        self._day, self._counting = day, counting

    def read(self, request: PromptRequest, empty: DayContext) -> DayContext:
        """`empty` with what the day adds; memories and turns are read in one transaction, which has ended before anything is embedded."""
        chat_id = request.chat_id
        with self._day.database.reading() as connection:
            at = self._day.turns.revisions(chat_id, connection)
            memories = self._day.remembering.of_chat(chat_id, at.memories, connection)
            today = self._day.day_turns.today(chat_id, at, connection)
        profile, facts = self._memories(request, memories)
        known = frozenset(today.sessions.get(request.session, ()) if request.session else ())
        earlier = _earlier(today.ended, request.moment - EARLIER_SECONDS)
        return replace(empty, profile=profile, earlier=earlier, facts=facts, items=today.items, known=known)

    def _memories(self, request: PromptRequest, known: ChatMemories) -> tuple[str, str]:
        """(what stands in every prompt of who asks, memories that bear on this message)."""
        chat_id, now = request.chat_id, request.moment
        zone, labels = self._day.zone_of(chat_id), dict[str, str]()
        if any(memory.user_id for memory in known.memories):  # only in a group
            labels |= speaker_labels(known.memories, (request.user_id, request.name) if request.user_id else None)
        profile, there = profile_text(known.memories, request.user_id, request.name, now, zone)
        near = self._day.remembering.relevant(known, request.message, RELEVANT, now=now, shown=there)
        found, planned = near, list[str]()
        if days := _days_to_come(request.message, now, zone):
            due = [one for one in known.memories if one.memory_id not in there and _is_due(one, days, zone)]
            found = [*due, *(one for one in found if one not in due)][: 2 * RELEVANT]
            planned = self._coming(request, days, zone)
        shown = there | {one.memory_id for one in found}
        news = [one for one in known.memories if one.memory_id in shown and one.created >= now - EARLIER_SECONDS]
        similar = [(like, one) for one in news if (like := self._day.remembering.nearest(known, one))]
        found += {like.memory_id: like for like, _ in similar if like.memory_id not in shown}.values()
        alike = [ALIKE.format(one=like.number, other=one.number) for like, one in similar]
        if found and request.count_access:  # in the background, because it writes to the disk
            self._counting.submit(self._count, chat_id, [memory.memory_id for memory in found], now)
        return profile, "\n".join(filter(None, (*planned, noted_text(found, labels, now, zone), *alike)))

    def _coming(self, request: PromptRequest, days: Sequence[Span], zone: ZoneInfo) -> list[str]:
        """What features know of these days, such as reminders, the next to come first."""
        every = self._day.coming([request.chat_id], max(end for _, end in days))
        found = [one for one in every if _falls_in(days, one.at)]
        return coming_lines(found[:RELEVANT], request.user_id, request.moment, zone)

    def _count(self, chat_id: str, ids: Sequence[int], now: float) -> None:
        """Record that memories were shown."""
        try:
            self._day.remembering.note_use(chat_id, ids, now)
        except HmemError as error:
            log.warning("memories were shown, but their use could not be counted", memories=len(ids), reason=str(error))


def _days_to_come(message: str, now: float, zone: ZoneInfo) -> Sequence[Span]:
    """The days to come for whose plans a message asks; none for a longer one, which has more on its mind."""
    from shared.ranking.injection import read_message

    if len(message) > QUESTION_CHARACTERS:
        return ()
    read = read_message(message, now, zone)
    return read.times.ahead if read.asks_only_ahead else ()


def _falls_in(days: Sequence[Span], at: float | None) -> bool:
    return at is not None and any(first <= at < end for first, end in days)


def _is_due(memory: Memory, days: Sequence[Span], zone: ZoneInfo) -> bool:
    """Whether its deadline is in one of these times, or its text names a day of them, seen from when it was noted."""
    from shared.text.dates.named_times import names_one_of

    return _falls_in(days, memory.deadline) or names_one_of(days, memory.text, memory.created, zone)


def _earlier(ended: Sequence[SessionSummary], since: float) -> str:
    """Summaries of sessions that ended since then, in the order of time."""
    recent = [summary for summary in ended if summary.ended_at >= since]
    return "\n".join(summary.text for summary in sorted(recent, key=lambda summary: summary.ended_at))
