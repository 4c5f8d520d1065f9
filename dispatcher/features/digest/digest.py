"""A chat's digest of the morning, and its sending: what was said yesterday, which goals are due, and what is new in memory since the last one.

It is made of what may be recalled: forgotten turns and superseded memories are not in it. Yesterday's lines are the chat's own sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.features.digest.outgoing import Outgoing, due
from dispatcher.features.digest.settings import report_due
from dispatcher.memory.dates.reminders import language_of_answers
from dispatcher.memory.day.history import look_back
from dispatcher.memory.store.whose import said_text
from shared.errors import HmemError, ReleaseRefused
from shared.search.history import HistoryQuery
from shared.text.dates.calendar_days import end_of_day, midnight
from shared.text.format import one_line, shorten
from shared.text.logs import Logger
from shared.text.translations import later, speaking, tr
from shared.text.translations.dates import day_shown, long_date_with_weekday

if TYPE_CHECKING:
    from dispatcher.health.findings import Setup
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.store.memories import Memory
    from dispatcher.releases.served import ReadRelease
    from shared.search.recall import OpenRelease
    from shared.turns.records import Turn

log = Logger()

#: The most lines of yesterday, of goals and of new memories, and characters of a line.
YESTERDAY_LINES, GOALS, MEMORIES, LINE_CHARACTERS = 5, 10, 10, 300
#: A day's newest turns that are read.
MOST_TURNS = 2_000
#: Days that a digest looks back at most, if there was none for long.
MOST_DAYS = 7
#: Closes a digest.
CLOSING = later("Reply to correct a fact. /memory shows all of them, /digest off ends this message.")


def digest_text(
    day: DayMemory,
    release: OpenRelease | None,
    chat_id: str,
    today: date,
    now: float,
    last: date | None = None,
    chosen: str | None = None,
) -> str | None:
    """The digest of a morning; None if there is nothing to say. StoreUnavailable or StorageError if it cannot be made now.

    `last` is the day of the digest before: what is newly remembered, or has become overdue, since that one is in this one.
    `chosen`: the chat's language (an ISO code); None for that of the answers, else of the goals and of what is new.
    """
    settings, zone = day.settings, day.settings.timezone
    yesterday = today - timedelta(1)
    unmet = day.actions.unmet(chat_id)  # what somebody wanted forgotten is not said once more
    said = _said(day, release, chat_id, midnight(yesterday, zone), midnight(today, zone))
    turns = [one for one in said if one.task_id not in unmet]
    memories = day.remembering.of_chat(chat_id).memories
    since_day = last if last and last < today else yesterday
    since = report_due(settings, max(since_day, today - timedelta(MOST_DAYS)))
    goals, new = _due(memories, since, end_of_day(today + timedelta(1), zone)), _new(memories, since)
    words = " ".join(one.text for one in (*goals, *new))
    with speaking(chosen or language_of_answers(turns, words)):
        parts = [
            _part(tr("Yesterday, {date}:").format(date=long_date_with_weekday(yesterday)), _yesterday(turns, zone)),
            _part(tr("Due:"), [_goal(one, now, zone) for one in goals], GOALS),
            _part(
                tr("New in my memory:"), [shorten(one_line(said_text(one)), LINE_CHARACTERS) for one in new], MEMORIES
            ),
        ]
        found = [part for part in parts if part]
        return "\n\n".join([*found, tr(CLOSING)]) if found else None


def _said(day: DayMemory, release: OpenRelease | None, chat_id: str, since: float, until: float) -> Sequence[Turn]:
    """The turns of that time that may be recalled, in the order of time."""
    asked = HistoryQuery(chat_id, MOST_TURNS, since, until)
    try:
        seen = look_back(day, release, asked)
    except ReleaseRefused as error:
        log.warning("a digest is made without the release", reason=str(error))
        seen = look_back(day, None, asked)
    if seen.away is not None:
        raise seen.away
    return seen.found.turns


def _due(memories: Sequence[Memory], since: float, until: float) -> list[Memory]:
    """Open goals that are due by then, or became overdue since yesterday's digest."""
    goals = [
        one for one in memories if one.type == "goal" and one.deadline is not None and since <= one.deadline <= until
    ]
    return sorted(goals, key=lambda one: (one.deadline or 0.0, one.number))


def _new(memories: Sequence[Memory], since: float) -> list[Memory]:
    return [one for one in memories if one.created >= since and one.type != "completed_goal"]


def _goal(goal: Memory, now: float, zone: ZoneInfo) -> str:
    text = shorten(one_line(said_text(goal)), LINE_CHARACTERS)
    return f"{text} – {day_shown(goal.deadline, now, zone)}" if goal.deadline is not None else text


def _part(title: str, lines: Sequence[str], most: int = YESTERDAY_LINES) -> str:
    if not lines:
        return ""
    left = len(lines) - most
    more = [tr("and {count} more").format(count=left)] if left > 0 else []
    return "\n".join([title, *(f"• {line}" for line in [*lines[:most], *more])])


def _yesterday(turns: Sequence[Turn], zone: ZoneInfo) -> list[str]:
    """At most YESTERDAY_LINES lines with their times."""
    from shared.ranking.extractive_summary import summarise
    from shared.turns.chunking import chunks_of

    chosen = summarise([chunk for turn in turns for chunk in chunks_of(turn)], YESTERDAY_LINES)
    return [f"{datetime.fromtimestamp(one.timestamp, zone):%H:%M} {one.speaker}: {one.text}" for one in chosen]


def send_digests(day: DayMemory, read_release: ReadRelease, stopping: Callable[[], bool], setup: Setup) -> int:
    """Send today's digests that were not sent yet; how many. RedisError if Redis does not answer. A chat whose digest fails is tried again."""
    now, outgoing = setup.now(), Outgoing(setup.redis, setup.settings)
    today = datetime.fromtimestamp(now, setup.settings.timezone).date()
    if now < report_due(setup.settings, today):
        return 0
    return sum(
        _send(day, read_release, outgoing, chat, last, today, now)
        for chat, last in outgoing.wanted_digests().items()
        if due(last, today) and not stopping()
    )


def _send(
    day: DayMemory, read_release: ReadRelease, outgoing: Outgoing, chat: str, last: str, today: date, now: float
) -> int:
    try:
        forgotten = day.forgotten.of(chat)
        with read_release() as release:
            text = digest_text(day, release, chat, today, now, date.fromisoformat(last), outgoing.language(chat))
        if day.forgotten.of(chat) != forgotten:  # meanwhile: the next look makes another one
            return 0
    except (HmemError, OSError) as error:
        log.warning("a digest must wait", reason=str(error))
        return 0
    except Exception:  # a defect of ours: the other chats get theirs, and this one is not tried every minute
        log.exception("a digest failed")
        text = None
    return int(outgoing.digest(chat, text, today, now) and text is not None)
