"""When a reminder is due: the words for it in five languages, hostile ones, and wall clocks over every change of the clocks."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.features.schedules.schedule_dates import read_repeating, read_request, read_when
from dispatcher.features.schedules.wall_clock import RepeatRule, next_moment
from shared.errors import InvalidInput

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 26, 8, 0, tzinfo=BERLIN).timestamp()  # a Thursday

ONCE = [
    ("tomorrow 9:00 buy bread", "2026-11-27 09:00", "buy bread"), ("buy bread tomorrow 9:00", "2026-11-27 09:00", "buy bread"),
    ("in 20 minutes tea", "2026-11-26 08:20", "tea"), ("in 10 minutes 5 laps", "2026-11-26 08:10", "5 laps"),
    ("in 1 minute now", "2026-11-26 08:01", "now"), ("in 1 hour three", "2026-11-26 09:00", "three"),
    ("in 20 minutes noon tea", "2026-11-26 08:20", "noon tea"), ("in 2 hours 30 minutes tea", "2026-11-26 10:30", "tea"),
    ("in a week 5 tickets", "2026-12-03 09:00", "5 tickets"), ("24 december 18:00 presents", "2026-12-24 18:00", "presents"),
    ("tomorrow buy bread", "2026-11-27 09:00", "buy bread"), ("tonight call mom", "2026-11-26 20:00", "call mom"),
    ("8:30 tea", "2026-11-26 08:30", "tea"), ("7:30 tea", "2026-11-27 07:30", "tea"),
    ("2027-03-28 2:30 in the gap", "2027-03-28 03:30", "in the gap"),
    ("tomorrow 9:00 line one\nline  two", "2026-11-27 09:00", "line one\nline  two"),
    ("tomorrow 9:00 in the garden", "2026-11-27 09:00", "in the garden"), ("at 5 pm party", "2026-11-26 17:00", "party"),
    ("morgen um 9 Uhr Brot kaufen", "2026-11-27 09:00", "Brot kaufen"), ("in 20 Minuten Tee", "2026-11-26 08:20", "Tee"),
    ("am 24. Dezember um 18 Uhr Bescherung", "2026-12-24 18:00", "Bescherung"),
    ("demain à 9h acheter du pain", "2026-11-27 09:00", "acheter du pain"), ("dans 20 minutes thé", "2026-11-26 08:20", "thé"),
    ("mañana a las 9:00 comprar pan", "2026-11-27 09:00", "comprar pan"), ("завтра в 9:00 купить хлеб", "2026-11-27 09:00", "купить хлеб"),
    ("через 20 минут чай", "2026-11-26 08:20", "чай"),
]  # fmt: skip
REPEATING = [
    ("every monday 8:00 standup", "2026-11-30 08:00", "weekly:0", "standup"),
    ("every monday and thursday at 6 pm gym", "2026-11-26 18:00", "weekly:0,3", "gym"),
    ("every day 7:30 pills", "2026-11-27 07:30", "daily", "pills"), ("daily 7:30 pills", "2026-11-27 07:30", "daily", "pills"),
    ("every weekday 9:00 mail", "2026-11-26 09:00", "weekly:0,1,2,3,4", "mail"),
    ("every month on the 31st at 9:00 rent", "2026-11-30 09:00", "monthly:31", "rent"),
    ("jeden Montag um 8 Uhr Standup", "2026-11-30 08:00", "weekly:0", "Standup"),
    ("jeden Tag 7:30 Pillen", "2026-11-27 07:30", "daily", "Pillen"), ("tous les lundis à 8h réunion", "2026-11-30 08:00", "weekly:0", "réunion"),
    ("todos los lunes 8:00 reunión", "2026-11-30 08:00", "weekly:0", "reunión"),
    ("каждый понедельник в 8:00 планёрка", "2026-11-30 08:00", "weekly:0", "планёрка"),
    ("каждый день 7:30 таблетки", "2026-11-27 07:30", "daily", "таблетки"),
]  # fmt: skip


def local(at: float) -> str:
    return datetime.fromtimestamp(at, BERLIN).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(("asked", "when", "text"), ONCE)
def test_once(asked: str, when: str, text: str) -> None:
    due, words = read_request(asked, NOW, BERLIN)
    assert (local(due.at), due.rule, words) == (when, None, text)


@pytest.mark.parametrize(("asked", "when", "rule", "text"), REPEATING)
def test_again_and_again(asked: str, when: str, rule: str, text: str) -> None:
    due, words = read_request(asked, NOW, BERLIN)
    assert (local(due.at), str(due.rule), words) == (when, rule, text)
    assert RepeatRule.parse(rule) == due.rule


@pytest.mark.parametrize(("asked", "why"), [
    ("yesterday 9:00 x", "do not understand"), ("today 7:00 x", "in the past"), ("1 December 2020 9:00 x", "in the past"),
    ("hello world", "do not understand"), ("tomorrow 9:00", "text is missing"), ("every day 7:30", "text is missing"),
    ("31 February 9:00 x", "do not understand"), ("99:99 x", "do not understand"), ("tomorrow 25:00 late", "25:00.* not a time of day"),
    ("tomorrow 9:75 late", "9:75.* not a time of day"), ("every day 24:30 pills", "24:30.* not a time of day"),
    ("monday 25:00", "25:00.* not a time of day"), ("in 9999999999 years x", "do not understand"), ("03/04 9:00 x", "one day in America"),
    ("\u202emorgen\u202c", "do not understand"), ("[REMIND: x | WHEN: y]", "do not understand"),
])  # fmt: skip
def test_what_is_no_time_to_come_is_refused_in_a_sentence(asked: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        read_request(asked, NOW, BERLIN)


def test_the_when_of_a_tag_is_a_time_and_nothing_else() -> None:
    for when in ("tomorrow 9:00", "every monday 8:00", "in 20 minutes", "завтра в 9:00"):
        assert read_when(when, NOW, BERLIN).at > NOW
    for when in ("every monday 8:00 and more", "soon", "yesterday", "", "|", "9" * 500, "every"):
        with pytest.raises(InvalidInput):
            read_when(when, NOW, BERLIN)


def test_every_takes_only_what_repeats() -> None:
    due, text = read_repeating("monday 8:00 What is new in Redis?", NOW, BERLIN)
    assert (local(due.at), str(due.rule), text) == ("2026-11-30 08:00", "weekly:0", "What is new in Redis?")
    with pytest.raises(InvalidInput, match="how often"):
        read_repeating("tomorrow 8:00 news", NOW, BERLIN)


@settings(max_examples=100)
@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_request, read_repeating):
        try:
            due, words = read(text, NOW, BERLIN)
        except InvalidInput:
            continue
        assert due.at > NOW
        assert words.strip()


#: With gaps and repetitions of an hour, of half an hour (Lord Howe), at midnight (Beirut, Havana), and of a whole day (Apia, Kwajalein).
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "America/Havana", "Pacific/Apia", "Pacific/Kwajalein",
         "Asia/Kathmandu", "Africa/Casablanca", "UTC"]  # fmt: skip
RULES = st.one_of(
    st.just(RepeatRule()),
    st.sets(st.integers(0, 6), min_size=1).map(lambda days: RepeatRule(tuple(sorted(days)))),
    st.integers(1, 31).map(lambda day: RepeatRule(month_day=day)),
)


@settings(max_examples=100)
@given(RULES, st.times(), st.sampled_from(ZONES), st.floats(700_000_000, 2_500_000_000))
def test_a_rule_goes_on_and_keeps_its_wall_clock(rule: RepeatRule, clock: time, name: str, after: float) -> None:
    clock, zone = clock.replace(second=0, microsecond=0, fold=0, tzinfo=None), ZoneInfo(name)
    at = after
    for _ in range(6):
        following = next_moment(rule, clock, zone, at)
        assert following > at
        shown = datetime.fromtimestamp(following, zone)
        if shown.time().replace(fold=0) == clock:
            assert rule.matches(shown.date())
            assert shown.fold == 0, "of two such hours it is the first"
        else:  # only where no clock shows it on the day that was meant: as much later as the clocks went forward
            before, after_gap = (shown - timedelta(1)).utcoffset(), shown.utcoffset()
            assert before is not None and after_gap is not None and after_gap > before
            meant = shown.replace(tzinfo=None, fold=0) - (after_gap - before)
            assert meant.time() == clock and rule.matches(meant.date())
        at = following
