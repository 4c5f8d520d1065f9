"""Deadlines in words, as people write them in English, German, French, Spanish and Russian: which moment they are, in which time zone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.memory.dates.deadlines import FARTHEST, Deadline, resolve
from dispatcher.memory.dates.reminders import when_text
from dispatcher.memory.dates.user_dates import deadline_of, read_since
from shared.errors import InvalidInput
from tests.support.world import REPOSITORY

BERLIN = ZoneInfo("Europe/Berlin")
SANTIAGO = ZoneInfo("America/Santiago")
#: A Wednesday.
AFTERNOON = datetime(2026, 11, 25, 15, tzinfo=BERLIN)
NOW = AFTERNOON.timestamp()
HELD_OUT = REPOSITORY / "tests" / "data" / "deadlines_held_out.tsv"


def said(text: str) -> str | None:
    """`2026-11-27` for the end of a day, `2026-11-27 17:00` for another moment."""
    found = resolve(text, NOW, BERLIN)
    if found is None:
        return None
    moment = datetime.fromtimestamp(found.at, BERLIN)
    return moment.strftime("%Y-%m-%d" if moment.strftime("%H:%M:%S") == "23:59:59" else "%Y-%m-%d %H:%M")


#: Each moment, and what people call it.
MEANT = """
2020-12-01 = 1 December 2020
2024-11-25 = hace dos años
2025-11-25 = il y a une année
2025-11-30 = last November
2026-09-30 = end of Q3 2026 | letztes Quartal | le trimestre dernier
2026-10-31 = el mes anterior
2026-11-04 = vor drei Wochen
2026-11-11 = il y a deux semaines
2026-11-18 = last Wednesday
2026-11-20 = last Friday
2026-11-22 = vor ein paar Tagen | letztes Wochenende | el fin de semana pasado | несколько дней назад
2026-11-23 = 2 days ago | anteayer | antier
2026-11-24 = в прошлый вторник | yesterday | вчера
2026-11-25 = Wednesday | today | 25 November | the 25th | tonight | EOD | midnight | сегодня вечером | tonight at 12 | heute | aujourd'hui | hoy |
  сегодня
2026-11-25 08:00 = сегодня в 10:00 мск
2026-11-25 12:00 = this morning | hace tres horas
2026-11-25 14:00 = today at 2pm
2026-11-25 14:55 = vor 5 Minuten
2026-11-25 15:30 = in half an hour | через полчаса
2026-11-25 16:00 = через час
2026-11-25 17:00 = 5pm | in zwei Stunden | dans deux heures | en dos horas | через два часа
2026-11-25 18:00 = heute um 18 Uhr
2026-11-25 20:00 = 8pm tonight | tonight at 8
2026-11-26 = before Friday | tomorrow | завтра | end of day tomorrow | vor Freitag | morgen | morgen abend | avant vendredi | demain | demain soir |
  antes del viernes | mañana | mañana por la noche | перед пятницей | завтра вечером
2026-11-26 00:00 = 12am tomorrow
2026-11-26 02:00 = at 2 at night | um 2 Uhr nachts
2026-11-26 03:00 = tomorrow at 03 | morgen um 03 Uhr | morgen um 3 Uhr früh | um 3 Uhr morgens
2026-11-26 03:30 = tomorrow at 3:30 | tomorrow at 03:30 | tomorrow morning at 3:30 | morgen um 03:30 Uhr | morgen früh um halb 4 |
  mañana a las 03:30 | mañana a las 3 y media de la mañana
2026-11-26 04:30 = tomorrow 3:30 UTC
2026-11-26 07:00 = tomorrow morning at 7 | mañana por la mañana a las 7
2026-11-26 08:00 = morgen um 8 Uhr
2026-11-26 08:30 = tomorrow at 8:30
2026-11-26 09:00 = at 9 in the morning tomorrow | завтра утром в 9 | morgen früh um 9 Uhr | demain à 9 heures | mañana a las 9 de la mañana |
  завтра в 9 утра
2026-11-26 12:00 = 12pm tomorrow | noon | before noon tomorrow | tomorrow morning | demain à midi | mañana a mediodía | завтра в полдень
2026-11-26 14:00 = 2pm | завтра в 2 часа дня | завтра в два часа дня
2026-11-26 15:00 = in 24 hours | morgen um 3 | morgen um 3 Uhr | mañana a las 3
2026-11-26 15:15 = mañana a las 3 y cuarto
2026-11-26 15:30 = morgen um halb 4 | morgen um 3 Uhr 30 | mañana a las 3 y media
2026-11-26 17:00 = tomorrow at 5pm | завтра в 17:00 | завтра в 5 вечера
2026-11-26 17:30 = at 5:30 p.m. tomorrow
2026-11-26 19:00 = morgen um 7 Uhr
2026-11-27 = next Friday | Friday | by this coming Friday | в пятницу | к пятнице | the day after tomorrow | in a couple of days | послезавтра |
  через 2 дня | Friday, 27 November 2026 | by EOD Friday | в пятницу в 12 ночи | в пятницу в 12 вечера | Friday at 12 at night | nächsten Freitag |
  Freitag | am Freitag | diesen Freitag | übermorgen | uebermorgen | Freitag um 12 Uhr nachts | Freitag um 12 Uhr abends | vendredi prochain |
  vendredi | ce vendredi | après-demain | apres demain | vendredi à 12h du soir | próximo viernes | el próximo viernes | el viernes que viene |
  el viernes | este viernes | pasado mañana | viernes a las 12 de la noche | в следующую пятницу | через пару дней | в пт | this Friday
2026-11-27 02:00 = в пятницу в 2 ночи
2026-11-27 03:00 = vendredi à 3h du matin
2026-11-27 03:30 = vendredi à 3h30 | vendredi à 03h30
2026-11-27 08:30 = Freitag gegen halb 9
2026-11-27 09:00 = Freitag, den 27. November um 9 Uhr
2026-11-27 11:00 = Friday 10:00 UTC
2026-11-27 12:00 = в пятницу в полдень | vendredi à 12h de l'après-midi | el viernes a las 12 de la mañana
2026-11-27 15:00 = Freitag um 15 Uhr | vendredi à 15h | vendredi à 3h | el viernes a las 15:00 | el viernes a las 3 de la tarde | в пятницу в 15:00 |
  в пятницу в 3 часа дня | next Friday at 3 pm
2026-11-27 15:30 = Freitag 15:30 | vendredi à 15h30
2026-11-27 17:00 = Friday 17:00 | Friday at 5 | Friday evening at 5 | EOD Friday at 5 | vendredi avant 17h
2026-11-27 20:00 = vendredi à 8h du soir
2026-11-27 20:30 = Freitag um halb 9 abends
2026-11-27 21:30 = viernes a las 9:30 de la noche
2026-11-27 22:00 = viernes a las 10 de la noche
2026-11-27 23:00 = Friday 5pm EST | Friday night at 11 | Freitag um 11 Uhr nachts | Freitag um 23 Uhr nachts
2026-11-28 = in a few days | in 3 Tagen | in ein paar Tagen | dans 3 jours | dans quelques jours | en 3 días | dentro de algunos días | через 3 дня |
  через несколько дней
2026-11-29 = this week | this weekend | до конца недели | на выходных | am Wochenende | kommendes Wochenende | à la fin de la semaine |
  fin de semana | the current week
2026-11-30 = start of next week | end of month | before the end of the month | in November | EOM | к концу месяца | before 1 December |
  kommenden Montag | naechsten Montag | bis Montag | Ende des Monats | Monatsende | Ende November | montags | lundi | fin du mois | fin novembre |
  el lunes | fin de mes | a finales de mes | до понедельника | конец месяца | перед декабрём
2026-11-30 18:00 = Monday afternoon
2026-12-01 = Tue | 2026-12-01 | 2026/12/01 | 1 December | December 1st | 1 декабря
2026-12-01 15:00 = 2026-12-01 17:00+03:00
2026-12-01 17:00 = 2026-12-01T17:00
2026-12-01 18:00 = 2026-12-01T17:00:00Z
2026-12-02 = next Wednesday | в следующую среду | within a week | в течение недели | nächsten Mittwoch | in einer Woche | mercredi prochain |
  dans une semaine | el próximo miércoles | en una semana | через неделю
2026-12-03 = 3. Dezember | am 3. Dezember | 3.12. | am 03.12. | le 3 décembre | 3 decembre | le 3/12 | el 3 de diciembre | 3 de diciembre | el 3/12 |
  en ocho días | 3 декабря | до 3 декабря | December 3 | 2026-12-03 | 3.12.2026
2026-12-03 08:00 = am 3. Dezember um 8 Uhr | le 3 décembre à 8h | el 3 de diciembre a las 8:00 | 3 декабря в 8:00
2026-12-03 15:00 = am 3.12. um 15:00 Uhr | 3 December at 15:00 | 2026-12-03 15:00
2026-12-04 = Friday next week | next week on Friday | в пятницу на следующей неделе | Freitag nächster Woche | nächste Woche Freitag |
  vendredi de la semaine prochaine | el viernes de la semana que viene
2026-12-06 = next week | by the end of next week | на следующей неделе | Ende nächster Woche | nächstes Wochenende | la semaine prochaine |
  le week-end prochain | la semana que viene
2026-12-09 = in two weeks | within the next two weeks | через две недели | in vierzehn Tagen
2026-12-10 = dans quinze jours | in fifteen days
2026-12-15 = the 15th | 15th of next month | до 15 числа | am 15. | le 15 | el día 15 | 15-го числа
2026-12-16 = three weeks from today | in drei Wochen | dans trois semaines | dentro de tres semanas | через три недели | через двадцать один день |
  in three weeks
2026-12-25 = через месяц | 25/12/2026 | до 25-го декабря | in einem Monat | dans un mois | dentro de un mes
2026-12-31 = next month | end of the quarter | end of the year | в следующем месяце | к декабрю | до конца года | 12/31 | 31.12 | 31st | Jahresende |
  nächsten Monat | le mois prochain | el próximo mes
2027-01-12 = 12.01.2027 | 12-01-2027
2027-02-25 = in 3 months
2027-03-01 = 1. März | le 1er mars | 1 de marzo
2027-03-31 = Q1 | в 1 квартале 2027
2027-04-30 = before May
2027-05-02 = 2-го мая
2027-05-31 = by May | in May | в мае | im Mai | en mai | au mois de mai | en mayo | en el mes de mayo
2027-08-03 = 3 ago
2027-09-01 = beginning of Sept. 2027
2027-09-30 = в сентябре 2027 года | в сент. 2027
2027-11-24 = 24 November
2027-11-25 = in a year
2027-11-30 = next November
2027-12-01 = on the 1st of December, 2027
2027-12-03 = den 3. Dezember 2027 | 3.12.2027 | le 3 décembre 2027 | le 3/12/2027 | el 3 de diciembre de 2027 | el 3/12/2027 | 3 декабря 2027 |
  3 декабря 2027 года
2027-12-31 = next year
2028-02-29 = end of February 2028 | 29 February
2028-12-31 = by the end of 2028
"""
NO_DATE = """
31. Februar | 30. Februar 2027 | 32. Dezember | 31.11. | 0.12. | am 3.13. | Freitag um 25 Uhr | irgendwann | bald | Weihnachten | Freitag, 3. Dezember
übernächsten Freitag | Mitte Dezember | in anderthalb Wochen | den Zahnarzt anrufen | am Freitag mit Noor
31 février | le 31 juin | le 32 décembre | vendredi à 25h | un jour | bientôt | Noël | vendredi 3 décembre | mi-décembre | appeler le dentiste
31 de febrero | el 31 de septiembre | el 32 de diciembre | el viernes a las 25:00 | algún día | pronto | Navidad | viernes 3 de diciembre
31 февраля | 31 апреля | 32 декабря | в пятницу в 25:00 | когда-нибудь | скоро | в пятницу, 3 декабря
Freitag nacht um 2 | Freitag um 2 Uhr nachts | heute nacht um 2 | vendredi à 2h de la nuit | cette nuit à 2h
viernes a las 2 de la noche | viernes a las 12:30 de la noche | viernes por la noche a las 2 | esta noche a las 2
de hoy en ocho | de mañana en ocho | el viernes en ocho | heute in acht | aujourd'hui en huit | vendredi en huit | heute 8
the next weeks | les prochaines semaines | 30 February | Friday, 3 December | 12/01/2026 | 3/12 | next never | Friday or Monday
Christmas | soon | someday | never | none | no deadline | n/a | - | now | ASAP | week | the end | hello world | a | 1 a | 5 | 10 | к лету
29 February 2027 | 0000-00-00 | 2026-13-40 | 99/99/9999 | at 25:00 | Friday night at 2 | tonight at 2 | Friday night at 0:30 | 12:00 XYZT Friday
Friday evening at 12:30 | в пятницу ночью в 2 | today in 8 | через 8 | by Friday because my boss said so
in 60 years | 10 000 days | 1 January 1950 | 2099
"""
ALL = [
    (phrase.strip(), moment)
    for line in MEANT.replace("|\n", "|").strip().splitlines()
    for moment, _, phrases in [line.partition(" = ")]
    for phrase in phrases.split("|")
]


@pytest.mark.parametrize(("phrase", "moment"), ALL)
def test_what_is_named_ends_then(phrase: str, moment: str) -> None:
    assert said(phrase) == moment
    assert said(f"  {phrase.upper()}. ") == moment


@pytest.mark.parametrize(
    "phrase", ["", " ", "Friday " * 30, *(one.strip() for one in NO_DATE.replace("\n", "|").strip("|").split("|"))]
)
def test_what_is_impossible_vague_or_too_far_is_no_date(phrase: str) -> None:
    assert said(phrase) is None


@pytest.mark.parametrize(
    ("phrase", "refusal"),
    [
        ("Friday 3/12", '"Friday 3/12" means one day in America and another in Europe.'),
        ("Montag 01/02/2050", "„Montag 01/02/2050“ ist in Amerika ein anderer Tag als in Europa."),
        ("lundi 01/02/2050", "« lundi 01/02/2050 » n'est pas le même jour en Amérique et en Europe."),
        ("lunes 01/02/2050", "«lunes 01/02/2050» no es el mismo día en América que en Europa."),
        ("в понедельник 01/02/2050", "«в понедельник 01/02/2050» — в Америке и в Европе разные дни."),
        ("Freitag nacht um 2", "„Freitag nacht um 2“ ist kein Datum, das ich verstehe."),
        ("viernes a las 2 de la noche", "«viernes a las 2 de la noche» no es una fecha que entienda."),
    ],
)
def test_a_refusal_is_in_the_language_of_the_date(phrase: str, refusal: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        deadline_of(phrase, NOW, BERLIN)
    assert str(refused.value).startswith(refusal)


@pytest.mark.parametrize("phrase", ["last Friday 12:00 XYZT", "Friday night at 2"])
def test_a_search_refuses_a_time_that_is_unclear(phrase: str) -> None:
    with pytest.raises(InvalidInput, match="I do not understand the date"):
        read_since(phrase, NOW, BERLIN)


def test_the_phrases_that_were_written_before_the_grammar() -> None:
    rows = [line.split("\t") for line in HELD_OUT.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert len(rows) == 40
    for _, phrase, meant in rows:
        assert (said(phrase) or "none").startswith(meant.replace("T", " ")), phrase


def test_the_day_is_that_of_the_zone() -> None:
    moment = datetime(2026, 11, 25, 23, 30, tzinfo=UTC).timestamp()
    for name, end in (("UTC", 26), ("Asia/Tokyo", 27), ("America/New_York", 26)):
        found, zone = resolve("tomorrow", moment, ZoneInfo(name)), ZoneInfo(name)
        assert found
        assert datetime.fromtimestamp(found.at, zone) == datetime(2026, 11, end, 23, 59, 59, tzinfo=zone)


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


ZONES = st.sampled_from(
    "UTC Europe/Berlin America/New_York America/Santiago Asia/Kolkata Pacific/Kiritimati Asia/Beirut".split()
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
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(said, [phrase for phrase, _ in ALL])) == [moment for _, moment in ALL]
