"""When a chat is reminded of a goal, and in which words. Pure functions.

A goal for a day is reminded of in the evening before; one that was made later than that in the morning of its day, or, if that is over too, in
the evening of the day itself. A goal with a time of day is reminded of an hour before; where that would be in the night, in the evening before,
if it was known by then. One that was made within its last hour is reminded of when it is due. What is made later than all of
these has just been talked about: nobody is reminded of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from shared.ranking.question import query_words
from shared.text.dates.calendar_days import end_of_day, instant
from shared.text.format import one_line, shorten
from shared.text.translations import tr
from shared.text.translations.dates import day_shown
from shared.text.words.function_words import language_of
from shared.turns.records import Turn

#: The morning of a goal's day, and its evening.
MORNING, EVENING = time(9), time(18)
#: Nobody is woken before this time of day by a goal that was known the evening before.
QUIET_UNTIL = time(8)
#: Seconds before a goal with a time of day.
AHEAD_SECONDS = 3_600.0
#: The longest time from a reminder to its deadline: the day before from its beginning, an hour more where the clocks go back. Seconds.
EARLIEST_SECONDS = 49 * 3_600.0
#: The longest that a goal is quoted.
QUOTED = 300


def reminder_time(deadline: float, made: float, zone: ZoneInfo) -> float | None:
    """When to remind of a goal (POSIX seconds, as its deadline and when it was made); None for a goal that was made too late for any reminder."""
    due = datetime.fromtimestamp(deadline, zone)
    day, before = due.date(), due.date() - timedelta(1)
    evening_before = instant(before, EVENING, zone)
    if int(deadline) == end_of_day(day, zone):
        times = [evening_before, instant(day, MORNING, zone), instant(day, EVENING, zone)]
    else:
        hour_before = deadline - AHEAD_SECONDS
        ahead = datetime.fromtimestamp(hour_before, zone)
        early = ahead.time() < QUIET_UNTIL or ahead.date() < day
        times = [*([evening_before] if early else []), hour_before, deadline]
    return next((at for at in times if at > made), None)


def reminder_text(text: str, deadline: float, now: float, zone: ZoneInfo) -> str:
    """`Reminder: “call the bank” is due Friday 27 November 2026, 17:00 (tomorrow).`, in the language that is spoken now."""
    said = tr("Reminder: “{text}” was due {when}.") if deadline < now else tr("Reminder: “{text}” is due {when}.")
    return said.format(text=shorten(one_line(text), QUOTED), when=day_shown(deadline, now, zone))


def language_of_answers(recent: Sequence[Turn], words: str) -> str | None:
    """The language in which the bot answered most of these questions (the one of the senders' Telegram, or the one that the chat had chosen); where
    there are none, that of `words`, which the chat has written. None: English."""
    known = [turn.extra.get("language") for turn in recent if turn.role == "user"]
    found = max(known, key=known.count) if known else language_of(query_words(words))
    return found if isinstance(found, str) else None
