"""Times that a question names: which days they are, in which time zone; and the tables of words, typed with accents and without."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.text.dates.calendar_words import WORDS as TABLES
from shared.text.dates.calendar_words import either, index_of, number_of
from shared.text.dates.named_times import names_one_of, read_times

UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")
#: A Wednesday.
NOON = datetime(2026, 5, 13, 12, tzinfo=UTC)


def days(question: str, now: datetime = NOON) -> list[tuple[str, str]]:
    """First and last day of each span."""
    zone = now.tzinfo
    assert isinstance(zone, ZoneInfo)
    return [
        (
            datetime.fromtimestamp(first, zone).date().isoformat(),
            (datetime.fromtimestamp(end, zone).date() - timedelta(1)).isoformat(),
        )
        for first, end in read_times(question, now.timestamp(), zone).spans
    ]


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("what did I say today?", "2026-05-13", "2026-05-13"),
        ("what did I eat last night", "2026-05-12", "2026-05-12"),
        ("the day before yesterday", "2026-05-11", "2026-05-11"),
        ("what was planned 3 days ago", "2026-05-10", "2026-05-10"),
        ("what did Noor say two weeks ago?", "2026-04-27", "2026-05-03"),
        ("a month ago", "2026-04-01", "2026-04-30"),
        ("six months ago", "2025-11-01", "2025-11-30"),
        ("last week", "2026-05-04", "2026-05-10"),
        ("last month", "2026-04-01", "2026-04-30"),
        ("over the weekend", "2026-05-09", "2026-05-10"),
        ("over the past few days", "2026-05-10", "2026-05-13"),
        ("during the past month", "2026-04-13", "2026-05-13"),
        ("last Friday", "2026-05-08", "2026-05-08"),
        ("What happened on Wednesday?", "2026-05-06", "2026-05-06"),
        ("in June", "2025-06-01", "2025-06-30"),
        ("last December", "2025-12-01", "2025-12-31"),
        ("May 2023", "2023-05-01", "2023-05-31"),
        ("on May 8th, 2023", "2023-05-08", "2023-05-08"),
        ("on the 14th of May", "2025-05-14", "2025-05-14"),
        ("in Sept. 2025", "2025-09-01", "2025-09-30"),
        ("on 2025-12-31", "2025-12-31", "2025-12-31"),
        ("back in 2022", "2022-01-01", "2022-12-31"),
        ("29 February 2024", "2024-02-29", "2024-02-29"),
    ],
)
def test_a_time_is_read(question: str, first: str, last: str) -> None:
    assert days(question) == [(first, last)]
    assert days(question.upper()) == [(first, last)]


#: What is read in English is read in the other languages, in a question as in a command. Seen from Wednesday 13 May 2026.
FIVE_LANGUAGES = """
    2026-05-11 to 2026-05-11: the day before yesterday | vorgestern | avant-hier | anteayer | antes de ayer | позавчера
    2026-05-08 to 2026-05-08: last Friday | letzten Freitag | vendredi dernier | el viernes pasado | в прошлую пятницу
    2026-05-10 to 2026-05-10: a few days ago | vor ein paar Tagen | il y a quelques jours | hace unos días | несколько дней назад
    2026-04-29 to 2026-04-29: fourteen days ago | vor vierzehn Tagen | il y a quatorze jours | hace catorce días | четырнадцать дней назад
    2026-04-27 to 2026-05-03: two weeks ago | vor zwei Wochen | il y a deux semaines | hace dos semanas | пару недель назад
    2026-01-01 to 2026-03-31: last quarter | letztes Quartal | le trimestre dernier | el trimestre pasado | в прошлом квартале
    2026-05-10 to 2026-05-13: the last 3 days | in den letzten 3 Tagen | les trois derniers jours | los últimos 3 días | за последние 3 дня
    2026-05-09 to 2026-05-10: on the weekend | am Wochenende | le week-end dernier | el fin de semana pasado | на прошлых выходных
    2026-05-11 to 2026-05-17: the current week | diese Woche | cette semaine | esta semana | на этой неделе
    2022-01-01 to 2022-12-31: in 2022 | im Jahr 2022 | depuis 2022 | desde 2022 | в 2022 году
    2024-03-01 to 2024-03-31: March 2024 | März 2024 | mars 2024 | marzo de 2024 | март 2024 года | im maerz 2024 | en el mes de marzo de 2024
    2025-12-03 to 2025-12-03: 3 Dec 2025 | 3. Dez. 2025 | le 3 déc 2025 | el 3 de dic de 2025 | 3 дек 2025 | 03.12.2025
    2025-08-01 to 2025-08-31: in August | im August | en aout | en agosto | в прошлом августе
""".strip().splitlines()


@pytest.mark.parametrize(
    ("span", "phrase"),
    [(line.partition(":")[0], phrase) for line in FIVE_LANGUAGES for phrase in line.partition(": ")[2].split(" | ")],
)
def test_five_languages_name_the_same_times(span: str, phrase: str) -> None:
    """In a question in one of the languages: a word or two may show none."""
    frames = [
        "what did we say {}?",
        "was habe ich {} gesagt?",
        "qu'est-ce que j'ai dit {} ?",
        "¿qué es lo que dije {}?",
        "что я сказал {}?",
    ]
    first, last = span.strip().split(" to ")
    assert [(first, last)] in [days(frame.format(phrase)) for frame in frames]


#: What is ahead, or no time; and so are the English ones after it.
NO_TIME = """
was mache ich nächsten Freitagabend? | que faire vendredi prochain ? | ¿qué hago el fin de semana que viene? | что делать в следующую пятницу?
Los años pasan y los días vuelan | so do mi und die Sonne | what may I do about the march? | what did I say about next Monday?
30 February 2024 | on 2025-13-45 | a bird, a day, a week | mondayish | room 2022
"""


def test_no_time_is_read_into_other_words() -> None:
    for question in re.split(r" \| |\n", NO_TIME):
        assert days(question) == [], question


def test_two_times_are_two_spans_and_the_longer_phrase_wins() -> None:
    assert days("yesterday or last week?") == [("2026-05-12", "2026-05-12"), ("2026-05-04", "2026-05-10")]
    assert days("the day before yesterday") == [("2026-05-11", "2026-05-11")]
    assert days("yesterday, I mean yesterday") == [("2026-05-12", "2026-05-12")]


def test_the_year_ends_where_it_ends() -> None:
    new_year = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
    assert days("yesterday", new_year) == [("2025-12-31", "2025-12-31")]
    assert days("last month", new_year) == [("2025-12-01", "2025-12-31")]
    assert days("last week", new_year) == [("2025-12-22", "2025-12-28")]
    assert days("in December", new_year) == [("2025-12-01", "2025-12-31")]
    assert days("13 months ago", new_year) == [("2024-12-01", "2024-12-31")]


def test_the_day_is_that_of_the_chats_time_zone() -> None:
    late = datetime(2026, 5, 12, 22, 30, tzinfo=UTC)  # already the 13th in Berlin
    assert days("today", late.astimezone(BERLIN)) == [("2026-05-13", "2026-05-13")]
    assert days("today", late) == [("2026-05-12", "2026-05-12")]


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-07-01", 24)])
def test_a_day_has_the_hours_it_has(day: str, hours: int) -> None:
    after = datetime.combine(date.fromisoformat(day) + timedelta(1), datetime.min.time(), BERLIN)
    ((first, end),) = read_times("yesterday", after.timestamp() + 3600, BERLIN).spans
    assert end - first == hours * 3600


def test_on_a_weekend_the_last_one_is_the_one_before() -> None:
    sunday = datetime(2026, 5, 10, 9, tzinfo=UTC)
    assert days("last weekend", sunday) == [("2026-05-02", "2026-05-03")]
    assert days("this weekend", sunday) == [("2026-05-09", "2026-05-10")]


WORDS = "last this past 3 two few a days weeks months ago in on may march monday 8 31 2023 2026-02-30 february night the of".split()


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=40), st.integers(0, 4_000_000_000)
)
def test_whatever_is_asked_spans_are_whole_days(question: str, now: int) -> None:
    for first, end in read_times(question, now, BERLIN).spans:
        assert end - first >= 23 * 3600


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What's on tomorrow?", "2026-05-14", "2026-05-14"), ("the day after tomorrow", "2026-05-15", "2026-05-15"),
        ("this week", "2026-05-13", "2026-05-17"), ("next week", "2026-05-18", "2026-05-24"), ("this weekend", "2026-05-16", "2026-05-17"),
        ("on Friday", "2026-05-15", "2026-05-15"), ("next Wednesday", "2026-05-20", "2026-05-20"),
        ("on Friday, 22 May", "2026-05-22", "2026-05-22"), ("in August", "2026-08-01", "2026-08-31"),
        ("Was steht morgen an?", "2026-05-14", "2026-05-14"), ("Was haben wir am Freitag vor?", "2026-05-15", "2026-05-15"),
        ("Was ist nächste Woche los?", "2026-05-18", "2026-05-24"), ("¿Qué tengo mañana por la mañana?", "2026-05-14", "2026-05-14"),
        ("¿Qué hay la semana que viene?", "2026-05-18", "2026-05-24"), ("Qu'est-ce que nous avons demain ?", "2026-05-14", "2026-05-14"),
        ("Che cosa abbiamo domani?", "2026-05-14", "2026-05-14"), ("O que é que eu tenho amanhã?", "2026-05-14", "2026-05-14"),
        ("Что у меня завтра?", "2026-05-14", "2026-05-14"),
        *((text, "", "") for text in ("last Friday", "last August", "yesterday", "two weeks ago", "Was trinke ich am Morgen?")),
        *((text, "", "") for text in ("Guten Morgen, wie geht es dir?", "¿A qué hora me levanto por la mañana?")),
    ],
)  # fmt: skip
def test_the_same_words_look_ahead(question: str, first: str, last: str) -> None:
    ahead = read_times(question, NOON.timestamp(), UTC).ahead
    named = [tuple(datetime.fromtimestamp(at, UTC).date().isoformat() for at in (a, b - 1)) for a, b in ahead]
    assert named == ([(first, last)] if first else [])


def test_a_text_names_a_day_seen_from_when_it_was_said() -> None:
    friday = read_times("on Friday", NOON.timestamp(), UTC).ahead
    monday = NOON.timestamp() - 2 * 86_400
    assert names_one_of(friday, "The plumber comes on Friday at nine", monday, UTC)
    assert not names_one_of(friday, "The plumber comes on Friday at nine", monday - 7 * 86_400, UTC)
    assert not names_one_of(friday, "The plumber comes in May", monday, UTC), "a month is not that day"


@pytest.mark.parametrize("words", TABLES.values(), ids=TABLES)
def test_every_language_has_all_of_its_words(words: dict[str, list[str]]) -> None:
    assert [len(words[kind]) for kind in ("weekdays", "months", "month_short", "numbers", "days")] == [7, 12, 12, 15, 5]
    assert list(words["units"]) == "minute hour day week weekend month quarter year".split()


def test_accents_may_be_left_out() -> None:
    for typed in ("märz", "maerz", "marz", "ma\u0308rz"):
        assert index_of(typed, TABLES["de"]["months"]) == 2
    assert re.fullmatch(either(["трёх", "май"]), "трех")
    assert not re.fullmatch(either(["май"]), "маи"), "й is a letter of its own"
    assert number_of("ein paar", TABLES["de"]) == 3
    with pytest.raises(ValueError, match="smarch"):
        index_of("smarch", TABLES["en"]["months"])
