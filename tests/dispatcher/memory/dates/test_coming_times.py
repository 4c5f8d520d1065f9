"""Times to come as people type them, in seven languages, and in which time zone they are."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.memory.dates.coming_times import FARTHEST, read_coming
from dispatcher.memory.dates.user_dates import deadline_of
from shared.errors import InvalidInput
from shared.text.translations import speaking

BERLIN = ZoneInfo("Europe/Berlin")
#: A Wednesday.
NOW = datetime(2026, 11, 25, 15, tzinfo=BERLIN).timestamp()
#: Each moment, and what people call it.
MEANT = """
2026-11-25 = today | heute | hoy | aujourd'hui | сегодня
2026-11-25 15:30 = in half an hour | in einer halben Stunde | через полчаса
2026-11-25 16:00 = in 1 hour | через час | dans une heure
2026-11-25 17:30 = in 2 hours 30 minutes
2026-11-25 18:00 = heute um 18 Uhr | at 6 pm
2026-11-25 20:00 = tonight | heute Abend | ce soir | esta noche
2026-11-26 = tomorrow | morgen | demain | mañana | завтра | domani | amanhã
2026-11-26 07:00 = tomorrow at 7 | morgen um 7 | mañana por la mañana a las 7 | 7:00
2026-11-26 09:00 = tomorrow at 9 | morgen früh | demain à 9 heures | завтра в 9 утра | domani alle 9 | amanhã às 9
2026-11-26 20:00 = tomorrow evening | morgen abend | demain soir
2026-11-27 = next Friday | nächsten Freitag | el próximo viernes | vendredi prochain | в следующую пятницу | by Friday | fri | in 2 days
2026-11-27 09:00 = послезавтра в 9 утра | übermorgen um 9 Uhr | pasado mañana a las 9
2026-11-27 17:00 = by Friday 5pm | bis spätestens Freitag 17 Uhr | avant vendredi 17h | до пятницы, до 17:00
2026-11-29 = this weekend | end of the week
2026-11-30 = end of month | Ende des Monats | fin de mes | fin du mois | к концу месяца | fine mese | kommenden Montag | next Monday
2026-12-01 = 01.12.2026 | 1 December | 1.12. | 2026-12-01 | 1er décembre
2026-12-01 17:00 = 2026-12-01T17:00 | 2026-12-01T17:00+01:00 | 1. Dezember um 17 Uhr | 1 de diciembre a las 17:00
2026-12-09 = in two weeks | in zwei Wochen | через две недели | in a fortnight
2026-12-14 = the 14th | am 14.
2026-12-25 = 12/25 | 25/12
2026-12-31 = by the end of the year | Ende des Jahres | к концу года
2020-12-01 = 1 December 2020
"""
REFUSED = ["12/01/2026", "30 February", "Friday 26 November", "tomorrow 25:00", "soon", "", "a", "5", "99:99", "in 9999999999 years",
           "8 eggs"]  # fmt: skip


def said(text: str) -> str | None:
    """`2026-11-27` for the end of a day, `2026-11-27 17:00` for another moment."""
    found = read_coming(text, NOW, BERLIN, loosely=True)
    if found is None:
        return None
    moment = datetime.fromtimestamp(found.at, BERLIN)
    return moment.strftime("%Y-%m-%d" if moment.strftime("%H:%M:%S") == "23:59:59" else "%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("meant", "text"),
    [(day, text) for day, _, texts in (line.partition(" = ") for line in MEANT.strip().splitlines()) for text in texts.split(" | ")],
)  # fmt: skip
def test_what_people_type(meant: str, text: str) -> None:
    assert said(text) == meant


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_time_or_two_is_refused(text: str) -> None:
    assert said(text) is None
    with pytest.raises(InvalidInput):
        deadline_of(text, NOW, BERLIN)


def test_what_no_phrase_reads_is_left_to_dateparser_in_the_language_of_the_chat() -> None:
    assert said("heute in einer Woche") is None
    with speaking("de"):
        assert said("heute in einer Woche") == "2026-12-02"


@pytest.mark.parametrize("text", ["yesterday", "yesterday 9:00", "letzten Freitag", "3 November 2020", "2026-11-24"])
def test_a_time_that_is_over_is_refused_with_its_day(text: str) -> None:
    with pytest.raises(InvalidInput, match="is in the past"):
        deadline_of(text, NOW, BERLIN)


@settings(max_examples=100)
@given(
    st.text(max_size=120)
    | st.from_regex(r"(in|next|end of|am|le|к) [0-9]{0,4}[./:]?[0-9]{0,12} ?(day|may|h|uhr)?", fullmatch=True)
)
def test_any_text_is_read_or_not(text: str) -> None:
    found = read_coming(text, NOW, BERLIN)
    assert found is None or abs(found.at - NOW) <= FARTHEST
