"""The rules of time_words.py for German, French, Spanish and Russian: patterns over a question in lower case, the longest phrase first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from shared.text.time_words import Days, Reader, ago, calendar, day_of, latest_weekday, month_of


@dataclass(frozen=True)
class Phrases:
    """How a language names times. Weekdays (Monday first) and months are patterns; `numbers` are words, by value from 1."""

    weekdays: Sequence[str]
    months: Sequence[str]
    numbers: Sequence[str]
    units: Mapping[str, str]
    days_back: Sequence[str]  # today, yesterday, the day before
    ago: str  # with {count} and {unit}
    this: str  # with {unit}
    last: str
    next_day: str  # with {day}: taken, so that it is not read as the last one
    date: str  # with {day} and {month}
    in_month: str  # with {month}
    weekend: str = r"(?!)"


GERMAN = Phrases(
    weekdays=[
        f"{name}(?:s|abend|morgen|mittag|nachmittag)?" for name in "montag dienstag mittwoch donnerstag freitag".split()
    ]
    + [r"(?:samstag|sonnabend)(?:s|abend|morgen|mittag|nachmittag)?", r"sonntag(?:s|abend|morgen|mittag|nachmittag)?"],
    months="januar|jänner februar märz|maerz april mai juni juli august september oktober november dezember".split(),
    numbers="eine?[mnr]? zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split(),
    units={"day": "tag(?:en?)?", "week": "wochen?", "month": "monat(?:en?)?", "year": "jahr(?:en?)?"},
    days_back=[
        "heute(?: (?:früh|morgen|mittag|nachmittag|abend))?",
        "gestern(?: (?:früh|morgen|mittag|nachmittag|abend|nacht))?|letzte nacht",
        "vorgestern",
    ],
    ago="vor {count} {unit}",
    this="diese[mnrs]? {unit}",
    last="(?:letzte|vergangene|vorige)[mnrs]? {unit}",
    next_day="(?:nächste|kommende|jede)[mnrs]? {day}",
    date=r"{day}\.? ?{month}",
    in_month="(?:im|seit|letzten) {month}",
    weekend="wochenendes?",
)
FRENCH = Phrases(
    weekdays="lundi mardi mercredi jeudi vendredi samedi dimanche".split(),
    months="janvier février|fevrier mars avril mai juin juillet août|aout septembre octobre novembre décembre|decembre".split(),
    numbers="une? deux trois quatre cinq six sept huit neuf dix onze douze".split(),
    units={"day": "jours?", "week": "semaines?", "month": "mois", "year": "ans?|année|annee"},
    days_back=[
        "aujourd['’]hui|ce (?:matin|soir)|cet après-midi",
        "hier(?: (?:soir|matin|après-midi))?|la nuit dernière",
        "avant[- ]hier",
    ],
    ago="il y a {count} {unit}",
    this="cet?t?e? {unit}",
    last="l[ae'’] ?{unit} (?:derni[eè]re?|pass[eé]e?)",
    next_day="{day} prochain|chaque {day}",
    date="{day}(?:er)? {month}",
    in_month="(?:en|depuis|au mois d[e'’]) ?{month}",
    weekend="week-?end",
)
SPANISH = Phrases(
    weekdays="lunes martes miércoles|miercoles jueves viernes sábado|sabado domingo".split(),
    months="enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre noviembre diciembre".split(),
    numbers="una? dos tres cuatro cinco seis siete ocho nueve diez once doce".split(),
    units={"day": "días?|dias?", "week": "semanas?", "month": "mes(?:es)?", "year": "años?|anos?"},
    days_back=[
        "hoy|esta (?:mañana|tarde|noche)",
        "ayer(?: por la (?:mañana|tarde|noche))?|anoche",
        "anteayer|antes de ayer|antier",
    ],
    ago="hace {count} {unit}",
    this="est[ea] {unit}",
    last="(?:el|la) {unit} (?:pasad[oa]|anterior)",
    next_day="(?:próximo|proximo|cada) {day}|{day} que viene|{day} próximo",
    date="{day} de {month}",
    in_month="en {month}",
    weekend="fin de semana",
)
RUSSIAN = Phrases(
    weekdays="""
        понедельник(?:а|у|ом)? вторник(?:а|у|ом)? сред(?:а|у|ы|е|ой) четверг(?:а|у|ом)? пятниц(?:а|у|ы|е|ей) суббот(?:а|у|ы|е|ой)
        воскресень(?:е|я|ю|ем)
    """.split(),
    months="""
        январ[яьеё] феврал[яье] март[ае]? апрел[яье] ма[йяе] июн[яье] июл[яье] август[ае]? сентябр[яье] октябр[яье] ноябр[яье] декабр[яье]
    """.split(),
    numbers="од(?:ин|ну|на) дв[ае] три четыре пять шесть семь восемь девять десять одиннадцать двенадцать".split(),
    units={"day": "день|дня|дней", "week": "недел[юиья]?", "month": "месяц(?:а|ев)?", "year": "год(?:а|у)?|лет"},
    days_back=["сегодня(?: утром| днём| вечером)?", "вчера(?: утром| днём| вечером)?|прошлой ночью", "позавчера"],
    ago="(?:{count} )?{unit} назад",
    this="(?:на|в) (?:этой|этом) {unit}",
    last="(?:на|в) прошл(?:ой|ом|ую|ый) {unit}",
    next_day="следующ(?:ую|ий|ее|ая) {day}|кажд(?:ую|ый|ое) {day}",
    date="{day}(?:-го)? {month}",
    in_month="в {month}",
    weekend="выходн(?:ые|ых)",
)
#: "Last week", "last year": cases that do not follow a number.
_RUSSIAN_CASES = {"week": "недел[еию]", "month": "месяц[еа]?", "year": "году?"}
#: Readers of dates and months.
ABSOLUTE: set[Reader] = set()


def _back(days: int) -> Reader:
    return lambda _, today: (today - timedelta(days), today - timedelta(days - 1))


def _weekday(number: int) -> Reader:
    return lambda _, today: latest_weekday(number, today)


def _ago(unit: str, numbers: Sequence[str]) -> Reader:
    def read(match: re.Match[str], today: date) -> Days:
        said = match["count"] or "1"
        found = (value for value, name in enumerate(numbers, start=1) if re.fullmatch(name, said))
        return ago(int(said) if said.isdigit() else next(found, 1), unit, today)

    return read


def _calendar(back: int, unit: str) -> Reader:
    return lambda _, today: calendar(back, unit, today)


def _day_of(month: int) -> Reader:
    def read(match: re.Match[str], today: date) -> Days:
        return day_of(month, int(match["day"]), match["year"], today)

    ABSOLUTE.add(read)
    return read


def _month_of(month: int) -> Reader:
    def read(match: re.Match[str], today: date) -> Days:
        return month_of(month, match["year"], today)

    ABSOLUTE.add(read)
    return read


def _table(own: Phrases, cases: Mapping[str, str] | None = None) -> list[tuple[str, Reader]]:
    """The patterns of one language with their readers, in the order in which they are tried."""
    year = r"(?:,? (?:de |d['’])?(?P<year>(?:19|20)\d\d))?"
    count = rf"(?P<count>\d{{1,3}}|{'|'.join(own.numbers)})"
    table: list[tuple[str, Reader]] = []
    for number, month in enumerate(own.months, start=1):
        dated = own.date.replace("{day}", r"(?P<day>\d{1,2})").replace("{month}", f"(?:{month})")
        table.append((f"{dated}{year}", _day_of(number)))
        table.append((own.in_month.replace("{month}", f"(?:{month})") + year, _month_of(number)))
    for unit, pattern in own.units.items():
        table.append((own.ago.replace("{count}", count).replace("{unit}", f"(?:{pattern})"), _ago(unit, own.numbers)))
    calendars = {unit: pattern for unit, pattern in (cases or own.units).items() if unit != "day"}
    for unit, pattern in (calendars | {"weekend": own.weekend}).items():
        table.append((own.last.replace("{unit}", f"(?:{pattern})"), _calendar(1, unit)))
        table.append((own.this.replace("{unit}", f"(?:{pattern})"), _calendar(0, unit)))
    table += [(pattern, _back(days)) for days, pattern in reversed(list(enumerate(own.days_back)))]
    any_day = "|".join(own.weekdays)
    table.append((own.next_day.replace("{day}", f"(?:{any_day})"), lambda *_: None))
    table += [(day, _weekday(number)) for number, day in enumerate(own.weekdays)]
    return table


TABLES: Mapping[str, list[tuple[str, Reader]]] = {
    "de": _table(GERMAN),
    "fr": _table(FRENCH),
    "es": _table(SPANISH),
    "ru": _table(RUSSIAN, _RUSSIAN_CASES),
}
