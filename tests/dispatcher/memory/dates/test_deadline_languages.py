"""Dates as people write them in German, French, Spanish, Russian and English: which day is meant, what is no date, and what they are told then."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from dispatcher.memory.dates.deadlines import resolve
from dispatcher.memory.dates.user_dates import deadline_of, since
from shared.errors import InvalidInput
from tests.support.world import REPOSITORY

BERLIN = ZoneInfo("Europe/Berlin")
#: A Wednesday.
NOW = datetime(2026, 11, 25, 14, 30, tzinfo=BERLIN).timestamp()
HELD_OUT = REPOSITORY / "tests" / "data" / "deadlines_held_out.tsv"


def said(text: str) -> str | None:
    """`2026-11-27` for the end of a day, `2026-11-27T17:00` for another moment."""
    found = resolve(text, NOW, BERLIN)
    if found is None:
        return None
    moment = datetime.fromtimestamp(found.at, BERLIN)
    return moment.strftime("%Y-%m-%d" if moment.strftime("%H:%M:%S") == "23:59:59" else "%Y-%m-%dT%H:%M")


GERMAN = """
nächsten Freitag = 2026-11-27
Freitag = 2026-11-27
am Freitag = 2026-11-27
diesen Freitag = 2026-11-27
kommenden Montag = 2026-11-30
naechsten Montag = 2026-11-30
nächsten Mittwoch = 2026-12-02
bis Montag = 2026-11-30
vor Freitag = 2026-11-26
Freitag nächster Woche = 2026-12-04
nächste Woche Freitag = 2026-12-04
heute = 2026-11-25
morgen = 2026-11-26
übermorgen = 2026-11-27
uebermorgen = 2026-11-27
in 3 Tagen = 2026-11-28
in drei Wochen = 2026-12-16
in einer Woche = 2026-12-02
in einem Monat = 2026-12-25
in zwei Stunden = 2026-11-25T16:30
3. Dezember = 2026-12-03
am 3. Dezember = 2026-12-03
den 3. Dezember 2027 = 2027-12-03
1. März = 2027-03-01
3.12. = 2026-12-03
am 03.12. = 2026-12-03
3.12.2027 = 2027-12-03
am 15. = 2026-12-15
Ende des Monats = 2026-11-30
Monatsende = 2026-11-30
Ende November = 2026-11-30
Ende nächster Woche = 2026-12-06
Jahresende = 2026-12-31
am Wochenende = 2026-11-29
kommendes Wochenende = 2026-11-29
nächstes Wochenende = 2026-12-06
im Mai = 2027-05-31
nächsten Monat = 2026-12-31
Freitag um 15 Uhr = 2026-11-27T15:00
Freitag 15:30 = 2026-11-27T15:30
Freitag, den 27. November um 9 Uhr = 2026-11-27T09:00
morgen früh um 9 Uhr = 2026-11-26T09:00
morgen abend = 2026-11-26
heute um 18 Uhr = 2026-11-25T18:00
am 3. Dezember um 8 Uhr = 2026-12-03T08:00
am 3.12. um 15:00 Uhr = 2026-12-03T15:00
morgen um 3 = 2026-11-26T15:00
Freitag gegen halb 9 = 2026-11-27T08:30
morgen um 3 Uhr = 2026-11-26T15:00
morgen um halb 4 = 2026-11-26T15:30
morgen um 3 Uhr 30 = 2026-11-26T15:30
morgen um 7 Uhr = 2026-11-26T19:00
morgen um 8 Uhr = 2026-11-26T08:00
morgen um 03:30 Uhr = 2026-11-26T03:30
morgen um 03 Uhr = 2026-11-26T03:00
morgen um 3 Uhr früh = 2026-11-26T03:00
morgen früh um halb 4 = 2026-11-26T03:30
um 3 Uhr morgens = 2026-11-26T03:00
um 2 Uhr nachts = 2026-11-26T02:00
Freitag um 11 Uhr nachts = 2026-11-27T23:00
Freitag um 23 Uhr nachts = 2026-11-27T23:00
Freitag um 12 Uhr nachts = 2026-11-27
Freitag um 12 Uhr abends = 2026-11-27
Freitag um halb 9 abends = 2026-11-27T20:30
montags = 2026-11-30
in ein paar Tagen = 2026-11-28
in vierzehn Tagen = 2026-12-09
vor ein paar Tagen = 2026-11-22
vor drei Wochen = 2026-11-04
vor 5 Minuten = 2026-11-25T14:25
letztes Wochenende = 2026-11-22
letztes Quartal = 2026-09-30
"""
FRENCH = """
vendredi prochain = 2026-11-27
vendredi = 2026-11-27
ce vendredi = 2026-11-27
lundi = 2026-11-30
mercredi prochain = 2026-12-02
avant vendredi = 2026-11-26
vendredi de la semaine prochaine = 2026-12-04
aujourd'hui = 2026-11-25
demain = 2026-11-26
après-demain = 2026-11-27
apres demain = 2026-11-27
dans 3 jours = 2026-11-28
dans trois semaines = 2026-12-16
dans une semaine = 2026-12-02
dans un mois = 2026-12-25
dans deux heures = 2026-11-25T16:30
le 3 décembre = 2026-12-03
3 decembre = 2026-12-03
le 3 décembre 2027 = 2027-12-03
le 1er mars = 2027-03-01
le 3/12 = 2026-12-03
le 3/12/2027 = 2027-12-03
le 15 = 2026-12-15
fin du mois = 2026-11-30
à la fin de la semaine = 2026-11-29
fin novembre = 2026-11-30
la semaine prochaine = 2026-12-06
le mois prochain = 2026-12-31
en mai = 2027-05-31
vendredi à 15h = 2026-11-27T15:00
vendredi à 15h30 = 2026-11-27T15:30
demain à 9 heures = 2026-11-26T09:00
demain à midi = 2026-11-26T12:00
demain soir = 2026-11-26
le 3 décembre à 8h = 2026-12-03T08:00
vendredi à 3h = 2026-11-27T15:00
vendredi avant 17h = 2026-11-27T17:00
vendredi à 3h30 = 2026-11-27T03:30
vendredi à 03h30 = 2026-11-27T03:30
vendredi à 3h du matin = 2026-11-27T03:00
vendredi à 12h du soir = 2026-11-27
vendredi à 8h du soir = 2026-11-27T20:00
vendredi à 12h de l'après-midi = 2026-11-27T12:00
dans quelques jours = 2026-11-28
dans quinze jours = 2026-12-10
il y a deux semaines = 2026-11-11
il y a une année = 2025-11-25
au mois de mai = 2027-05-31
le week-end prochain = 2026-12-06
le trimestre dernier = 2026-09-30
"""
SPANISH = """
próximo viernes = 2026-11-27
el próximo viernes = 2026-11-27
el viernes que viene = 2026-11-27
el viernes = 2026-11-27
este viernes = 2026-11-27
el lunes = 2026-11-30
el próximo miércoles = 2026-12-02
antes del viernes = 2026-11-26
el viernes de la semana que viene = 2026-12-04
hoy = 2026-11-25
mañana = 2026-11-26
pasado mañana = 2026-11-27
en 3 días = 2026-11-28
dentro de tres semanas = 2026-12-16
en una semana = 2026-12-02
dentro de un mes = 2026-12-25
en dos horas = 2026-11-25T16:30
el 3 de diciembre = 2026-12-03
3 de diciembre = 2026-12-03
el 3 de diciembre de 2027 = 2027-12-03
1 de marzo = 2027-03-01
el 3/12 = 2026-12-03
el 3/12/2027 = 2027-12-03
el día 15 = 2026-12-15
fin de mes = 2026-11-30
a finales de mes = 2026-11-30
fin de semana = 2026-11-29
la semana que viene = 2026-12-06
el próximo mes = 2026-12-31
en mayo = 2027-05-31
el viernes a las 15:00 = 2026-11-27T15:00
el viernes a las 3 de la tarde = 2026-11-27T15:00
mañana a las 9 de la mañana = 2026-11-26T09:00
mañana a mediodía = 2026-11-26T12:00
mañana por la noche = 2026-11-26
el 3 de diciembre a las 8:00 = 2026-12-03T08:00
mañana a las 3 = 2026-11-26T15:00
mañana a las 3 y media = 2026-11-26T15:30
mañana a las 3 y cuarto = 2026-11-26T15:15
mañana a las 03:30 = 2026-11-26T03:30
mañana a las 3 y media de la mañana = 2026-11-26T03:30
mañana por la mañana a las 7 = 2026-11-26T07:00
el viernes a las 12 de la mañana = 2026-11-27T12:00
viernes a las 12 de la noche = 2026-11-27
viernes a las 10 de la noche = 2026-11-27T22:00
viernes a las 9:30 de la noche = 2026-11-27T21:30
en ocho días = 2026-12-03
dentro de algunos días = 2026-11-28
hace dos años = 2024-11-25
hace tres horas = 2026-11-25T11:30
anteayer = 2026-11-23
antier = 2026-11-23
3 ago = 2027-08-03
en el mes de mayo = 2027-05-31
el mes anterior = 2026-10-31
el fin de semana pasado = 2026-11-22
"""
RUSSIAN = """
в следующую пятницу = 2026-11-27
в пятницу = 2026-11-27
до понедельника = 2026-11-30
перед пятницей = 2026-11-26
сегодня = 2026-11-25
завтра = 2026-11-26
послезавтра = 2026-11-27
через 3 дня = 2026-11-28
через три недели = 2026-12-16
через неделю = 2026-12-02
через месяц = 2026-12-25
через два часа = 2026-11-25T16:30
3 декабря = 2026-12-03
до 3 декабря = 2026-12-03
3 декабря 2027 = 2027-12-03
3 декабря 2027 года = 2027-12-03
3.12. = 2026-12-03
15-го числа = 2026-12-15
конец месяца = 2026-11-30
к концу месяца = 2026-11-30
на следующей неделе = 2026-12-06
в мае = 2027-05-31
в пятницу в 15:00 = 2026-11-27T15:00
в пятницу в 3 часа дня = 2026-11-27T15:00
завтра в 9 утра = 2026-11-26T09:00
завтра в полдень = 2026-11-26T12:00
завтра вечером = 2026-11-26
3 декабря в 8:00 = 2026-12-03T08:00
завтра в два часа дня = 2026-11-26T14:00
через пару дней = 2026-11-27
через несколько дней = 2026-11-28
через двадцать один день = 2026-12-16
несколько дней назад = 2026-11-22
перед декабрём = 2026-11-30
в пт = 2026-11-27
в сент. 2027 = 2027-09-30
"""
ENGLISH = """
this Friday = 2026-11-27
next Friday at 3 pm = 2026-11-27T15:00
the day after tomorrow = 2026-11-27
in three weeks = 2026-12-16
December 3 = 2026-12-03
3 December at 15:00 = 2026-12-03T15:00
end of month = 2026-11-30
2026-12-03 = 2026-12-03
2026-12-03 15:00 = 2026-12-03T15:00
in fifteen days = 2026-12-10
the current week = 2026-11-29
3.12.2026 = 2026-12-03
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
"""


def table(text: str) -> list[tuple[str, str]]:
    return [(phrase, when) for phrase, _, when in (line.partition(" = ") for line in text.strip().splitlines())]


ALL = [row for text in (GERMAN, FRENCH, SPANISH, RUSSIAN, ENGLISH) for row in table(text)]


@pytest.mark.parametrize(("phrase", "when"), ALL)
def test_a_date_is_understood_as_it_is_written_in_five_languages(phrase: str, when: str) -> None:
    assert said(phrase) == when
    assert said(f" {phrase.upper()}. ") == when


@pytest.mark.parametrize("phrase", [one.strip() for line in NO_DATE.strip().splitlines() for one in line.split("|")])
def test_what_is_impossible_vague_or_ambiguous_is_no_date(phrase: str) -> None:
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
        since(phrase, NOW, BERLIN)


def test_the_phrases_that_were_written_before_the_grammar() -> None:
    rows = [line.split("\t") for line in HELD_OUT.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert len(rows) == 40
    wrong = [
        (phrase, meant, found) for _, phrase, meant in rows if not (found := said(phrase) or "none").startswith(meant)
    ]
    assert not wrong
