"""Deadlines in words: which moment they are, in which time zone."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.memory.dates.deadlines import FARTHEST, Deadline, resolve
from dispatcher.memory.dates.reminders import when_text

BERLIN = ZoneInfo("Europe/Berlin")
SANTIAGO = ZoneInfo("America/Santiago")
#: A Wednesday.
AFTERNOON = datetime(2026, 11, 25, 15, tzinfo=BERLIN)


def said(text: str, now: datetime = AFTERNOON) -> str | None:
    """`2026-11-27` for the end of a day, `2026-11-27 17:00` for another moment, in the zone of `now`."""
    zone = now.tzinfo
    assert isinstance(zone, ZoneInfo)
    found = resolve(text, now.timestamp(), zone)
    if found is None:
        return None
    moment = datetime.fromtimestamp(found.at, zone)
    return moment.strftime("%Y-%m-%d" if moment.strftime("%H:%M:%S") == "23:59:59" else "%Y-%m-%d %H:%M")


WEEKDAYS = [
    ("next Friday", "2026-11-27"),
    ("Friday", "2026-11-27"),
    ("by this coming Friday", "2026-11-27"),
    ("before Friday", "2026-11-26"),
    ("Friday next week", "2026-12-04"),
    ("next week on Friday", "2026-12-04"),
    ("Wednesday", "2026-11-25"),
    ("next Wednesday", "2026-12-02"),
    ("last Wednesday", "2026-11-18"),
    ("Tue", "2026-12-01"),
    ("last Friday", "2026-11-20"),
    ("в пятницу", "2026-11-27"),
    ("к пятнице", "2026-11-27"),
    ("в следующую среду", "2026-12-02"),
    ("в прошлый вторник", "2026-11-24"),
    ("в пятницу на следующей неделе", "2026-12-04"),
]
RELATIVE = [
    ("today", "2026-11-25"),
    ("tomorrow", "2026-11-26"),
    ("the day after tomorrow", "2026-11-27"),
    ("in two weeks", "2026-12-09"),
    ("within the next two weeks", "2026-12-09"),
    ("within a week", "2026-12-02"),
    ("in a couple of days", "2026-11-27"),
    ("in a few days", "2026-11-28"),
    ("three weeks from today", "2026-12-16"),
    ("in 3 months", "2027-02-25"),
    ("in a year", "2027-11-25"),
    ("in 24 hours", "2026-11-26 15:00"),
    ("in half an hour", "2026-11-25 15:30"),
    ("завтра", "2026-11-26"),
    ("послезавтра", "2026-11-27"),
    ("через две недели", "2026-12-09"),
    ("через 2 дня", "2026-11-27"),
    ("через месяц", "2026-12-25"),
    ("в течение недели", "2026-12-02"),
    ("через час", "2026-11-25 16:00"),
    ("через полчаса", "2026-11-25 15:30"),
]
CALENDAR = [
    ("this week", "2026-11-29"),
    ("next week", "2026-12-06"),
    ("by the end of next week", "2026-12-06"),
    ("start of next week", "2026-11-30"),
    ("this weekend", "2026-11-29"),
    ("end of month", "2026-11-30"),
    ("before the end of the month", "2026-11-30"),
    ("next month", "2026-12-31"),
    ("end of the quarter", "2026-12-31"),
    ("Q1", "2027-03-31"),
    ("end of Q3 2026", "2026-09-30"),
    ("end of the year", "2026-12-31"),
    ("next year", "2027-12-31"),
    ("by the end of 2028", "2028-12-31"),
    ("by May", "2027-05-31"),
    ("in May", "2027-05-31"),
    ("before May", "2027-04-30"),
    ("in November", "2026-11-30"),
    ("next November", "2027-11-30"),
    ("last November", "2025-11-30"),
    ("beginning of Sept. 2027", "2027-09-01"),
    ("end of February 2028", "2028-02-29"),
    ("EOM", "2026-11-30"),
    ("до конца недели", "2026-11-29"),
    ("к концу месяца", "2026-11-30"),
    ("в следующем месяце", "2026-12-31"),
    ("на следующей неделе", "2026-12-06"),
    ("на выходных", "2026-11-29"),
    ("в мае", "2027-05-31"),
    ("к декабрю", "2026-12-31"),
    ("в сентябре 2027 года", "2027-09-30"),
    ("до конца года", "2026-12-31"),
    ("в 1 квартале 2027", "2027-03-31"),
]
DATES = [
    ("2026-12-01", "2026-12-01"),
    ("2026/12/01", "2026-12-01"),
    ("1 December", "2026-12-01"),
    ("December 1st", "2026-12-01"),
    ("on the 1st of December, 2027", "2027-12-01"),
    ("12.01.2027", "2027-01-12"),
    ("12-01-2027", "2027-01-12"),
    ("25/12/2026", "2026-12-25"),
    ("12/31", "2026-12-31"),
    ("31.12", "2026-12-31"),
    ("Friday, 27 November 2026", "2026-11-27"),
    ("25 November", "2026-11-25"),
    ("24 November", "2027-11-24"),
    ("29 February", "2028-02-29"),
    ("the 25th", "2026-11-25"),
    ("the 15th", "2026-12-15"),
    ("31st", "2026-12-31"),
    ("15th of next month", "2026-12-15"),
    ("before 1 December", "2026-11-30"),
    ("1 декабря", "2026-12-01"),
    ("до 25-го декабря", "2026-12-25"),
    ("2-го мая", "2027-05-02"),
    ("до 15 числа", "2026-12-15"),
    ("1 December 2020", "2020-12-01"),
    ("yesterday", "2026-11-24"),
    ("2 days ago", "2026-11-23"),
    ("вчера", "2026-11-24"),
]
TIMES = [
    ("tonight", "2026-11-25"),
    ("EOD", "2026-11-25"),
    ("end of day tomorrow", "2026-11-26"),
    ("by EOD Friday", "2026-11-27"),
    ("midnight", "2026-11-25"),
    ("tomorrow at 5pm", "2026-11-26 17:00"),
    ("at 5:30 p.m. tomorrow", "2026-11-26 17:30"),
    ("Friday 17:00", "2026-11-27 17:00"),
    ("Friday at 5", "2026-11-27 17:00"),
    ("12am tomorrow", "2026-11-26 00:00"),
    ("12pm tomorrow", "2026-11-26 12:00"),
    ("5pm", "2026-11-25 17:00"),
    ("2pm", "2026-11-26 14:00"),
    ("today at 2pm", "2026-11-25 14:00"),
    ("noon", "2026-11-26 12:00"),
    ("before noon tomorrow", "2026-11-26 12:00"),
    ("8pm tonight", "2026-11-25 20:00"),
    ("tonight at 8", "2026-11-25 20:00"),
    ("tomorrow morning", "2026-11-26 12:00"),
    ("tomorrow morning at 7", "2026-11-26 07:00"),
    ("at 9 in the morning tomorrow", "2026-11-26 09:00"),
    ("this morning", "2026-11-25 12:00"),
    ("Monday afternoon", "2026-11-30 18:00"),
    ("2026-12-01T17:00", "2026-12-01 17:00"),
    ("2026-12-01T17:00:00Z", "2026-12-01 18:00"),
    ("2026-12-01 17:00+03:00", "2026-12-01 15:00"),
    ("Friday 10:00 UTC", "2026-11-27 11:00"),
    ("Friday 5pm EST", "2026-11-27 23:00"),
    ("завтра в 17:00", "2026-11-26 17:00"),
    ("завтра в 5 вечера", "2026-11-26 17:00"),
    ("завтра утром в 9", "2026-11-26 09:00"),
    ("сегодня вечером", "2026-11-25"),
    ("завтра в 2 часа дня", "2026-11-26 14:00"),
    ("в пятницу в полдень", "2026-11-27 12:00"),
    ("в пятницу в 2 ночи", "2026-11-27 02:00"),
    ("в пятницу в 12 ночи", "2026-11-27"),
    ("в пятницу в 12 вечера", "2026-11-27"),
    ("Friday night at 11", "2026-11-27 23:00"),
    ("Friday at 12 at night", "2026-11-27"),
    ("Friday evening at 5", "2026-11-27 17:00"),
    ("tonight at 12", "2026-11-25"),
    ("EOD Friday at 5", "2026-11-27 17:00"),
    ("at 2 at night", "2026-11-26 02:00"),
    ("tomorrow at 3:30", "2026-11-26 03:30"),
    ("tomorrow at 03:30", "2026-11-26 03:30"),
    ("tomorrow at 03", "2026-11-26 03:00"),
    ("tomorrow at 8:30", "2026-11-26 08:30"),
    ("tomorrow morning at 3:30", "2026-11-26 03:30"),
    ("tomorrow 3:30 UTC", "2026-11-26 04:30"),
    ("сегодня в 10:00 мск", "2026-11-25 08:00"),
]


@pytest.mark.parametrize(("text", "moment"), [*WEEKDAYS, *RELATIVE, *CALENDAR, *DATES, *TIMES])
def test_what_is_named_ends_then(text: str, moment: str) -> None:
    assert said(text) == moment
    assert said(f"  {text.upper()}. ") == moment


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "Christmas", "soon", "someday", "never", "none", "no deadline", "n/a", "-",
        "now", "ASAP", "week", "the end", "hello world",
        "a", "1 a", "5", "10", "12/01/2026", "3/12", "к лету", "30 February", "29 February 2027", "0000-00-00", "2026-13-40", "99/99/9999",
        "at 25:00", "Friday night at 2", "tonight at 2", "Friday night at 0:30", "Friday evening at 12:30", "в пятницу ночью в 2",
        "today in 8", "через 8",
        "in 60 years", "10 000 days", "1 January 1950", "2099", "by Friday because my boss said so", "Friday " * 30, "12:00 XYZT Friday",
    ],
)  # fmt: skip
def test_what_is_no_date_or_too_far_is_none(text: str) -> None:
    assert said(text) is None


def test_the_words_are_kept() -> None:
    found = resolve(" by\n next  Friday. ", AFTERNOON.timestamp(), BERLIN)
    assert found == Deadline(datetime(2026, 11, 27, 23, 59, 59, tzinfo=BERLIN).timestamp(), "by next Friday.")


def test_the_day_is_that_of_the_zone() -> None:
    moment = datetime(2026, 11, 25, 23, 30, tzinfo=UTC).timestamp()
    for zone, end in (("UTC", 26), ("Asia/Tokyo", 27), ("America/New_York", 26)):
        found = resolve("tomorrow", moment, ZoneInfo(zone))
        assert found
        assert datetime.fromtimestamp(found.at, ZoneInfo(zone)) == datetime(
            2026, 11, end, 23, 59, 59, tzinfo=ZoneInfo(zone)
        )


@pytest.mark.parametrize(
    ("text", "now", "moment"),
    [
        ("tomorrow", datetime(2026, 10, 24, 15, tzinfo=BERLIN), "2026-10-25T22:59:59"),
        ("in 24 hours", datetime(2026, 10, 24, 15, tzinfo=BERLIN), "2026-10-25T13:00:00"),
        ("in a day", datetime(2026, 10, 24, 15, tzinfo=BERLIN), "2026-10-25T22:59:59"),
        ("tomorrow 02:30", datetime(2026, 10, 24, 15, tzinfo=BERLIN), "2026-10-25T01:30:00"),  # the second one
        ("tomorrow 02:30", datetime(2026, 3, 28, 15, tzinfo=BERLIN), "2026-03-29T01:30:00"),  # 3:30, after the gap
        ("через час", datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN), "2026-03-29T01:30:00"),
        ("2026-09-05", datetime(2026, 9, 1, tzinfo=SANTIAGO), "2026-09-06T03:59:59"),  # the next day begins at 1:00
        ("2026-04-04", datetime(2026, 4, 1, tzinfo=SANTIAGO), "2026-04-05T03:59:59"),  # its last hour comes twice
    ],
)
def test_days_of_23_and_25_hours(text: str, now: datetime, moment: str) -> None:
    zone = now.tzinfo
    assert isinstance(zone, ZoneInfo)
    found = resolve(text, now.timestamp(), zone)
    assert found
    assert datetime.fromtimestamp(found.at, UTC).isoformat() == f"{moment}+00:00"


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2026-11-27T23:59:59", "Friday 27 November 2026"),
        ("2026-11-27T17:00", "Friday 27 November 2026, 17:00"),
        ("2026-11-26T23:59:59", "Thursday 26 November 2026 (tomorrow)"),
        ("2026-11-25T09:05", "Wednesday 25 November 2026, 09:05 (today)"),
        ("2020-12-01T23:59:59", "Tuesday 1 December 2020"),
    ],
)
def test_a_deadline_for_people(at: str, said: str) -> None:
    moment = datetime.fromisoformat(at).replace(tzinfo=BERLIN)
    assert when_text(moment.timestamp(), AFTERNOON.timestamp(), BERLIN, "en") == said


ZONES = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "America/Santiago",
        "Asia/Kolkata",
        "Pacific/Kiritimati",
        "Asia/Beirut",
    ]
).map(ZoneInfo)
#: From 2024 to 2036.
MOMENTS = st.integers(1_704_067_200, 2_114_380_799).map(float)


@settings(deadline=None, max_examples=200)
@given(MOMENTS, st.integers(2, 1500), ZONES)
def test_what_people_are_shown_means_the_same_again(now: float, days: int, zone: ZoneInfo) -> None:
    day = datetime.fromtimestamp(now, zone).date() + timedelta(days)
    found = resolve(day.isoformat(), now, zone)
    assert found
    shown = when_text(found.at, now, zone, "en")
    assert resolve(shown, now, zone) == Deadline(found.at, shown)
    assert datetime.fromtimestamp(found.at, zone).date() == day
    assert datetime.fromtimestamp(found.at + 1, zone).date() == day + timedelta(1)


@settings(deadline=None, max_examples=200)
@given(MOMENTS, ZONES, st.sampled_from([text for text, _ in (*WEEKDAYS, *CALENDAR, *DATES, *TIMES, *RELATIVE)]))
def test_on_any_day_a_text_means_something_near(now: float, zone: ZoneInfo, text: str) -> None:
    found = resolve(text, now, zone)
    if found is None:  # the one day that not every year has
        assert text in ("29 February", "end of February 2028")
        return
    assert abs(found.at - now) <= FARTHEST
    if text in ("Friday", "next Friday", "в пятницу"):
        day, today = datetime.fromtimestamp(found.at, zone).date(), datetime.fromtimestamp(now, zone).date()
        first = today + timedelta(1) if text == "next Friday" else today
        assert day.weekday() == 4
        assert first <= day < first + timedelta(7)


WORDS = "next last this Friday May 2026 1 31 12/ . : - at in by the end of month через в конец года 5pm утром 99999999999 zzz UTC ago +03:00 q4"


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(
    st.one_of(
        st.text(max_size=120), st.lists(st.sampled_from([*WORDS.split(), " ", "٣", "ё"]), max_size=8).map(" ".join)
    ),
    MOMENTS,
    ZONES,
)
def test_it_never_raises(text: str, now: float, zone: ZoneInfo) -> None:
    found = resolve(text, now, zone)
    assert found is None or abs(found.at - now) <= FARTHEST


def test_threads_do_not_disturb_one_another() -> None:
    wanted = [(text, moment) for text, moment in (*RELATIVE, *DATES)] * 4
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(said, [text for text, _ in wanted])) == [moment for _, moment in wanted]


def test_the_library_is_imported_when_it_is_needed() -> None:
    code = (
        "import sys; from zoneinfo import ZoneInfo; from dispatcher.memory.dates.deadlines import resolve; zone = ZoneInfo('UTC')\n"
        "assert resolve('next Friday', 1.8e9, zone) and 'dateparser' not in sys.modules\n"
        "assert resolve('1 December', 1.8e9, zone) and 'dateparser' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=600)


def test_last_years_date_is_kept_as_past() -> None:
    found = resolve("2025-03-01", AFTERNOON.timestamp(), BERLIN)
    assert found
    assert datetime.fromtimestamp(found.at, BERLIN).date() == date(2025, 3, 1)
    assert found.at < AFTERNOON.timestamp()
