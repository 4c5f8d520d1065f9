"""Dates that a person gives to a command: read (future: deadlines.py, past: named_times.py), or refused in the person's language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.deadlines import Deadline, ambiguous, plain_words, resolve
from dispatcher.memory.dates.reminders import when_text
from dispatcher.memory.dates.times_of_day import split
from dispatcher.memory.dates.translations import language_of_date, translations
from shared.errors import InvalidInput
from shared.text.dates.calendar_days import instant, latest_date, midnight
from shared.text.dates.named_times import Times, read_times
from shared.text.format import one_line, shorten
from shared.text.times import moment
from shared.text.translations import ENGLISH, later, tr
from shared.text.translations.dates import day_shown

#: The longest that a date is quoted.
QUOTED = 60
#: Messages by the language of the date: not a date, in the past, ambiguous, a goal stored without a date, and which forms to write instead. The
#: English ones are shown in the chat's language.
_UNKNOWN: Mapping[str, str] = {
    "en": later('I do not understand the date "{text}". Write it like this: {forms}.'),
    "de": "„{text}“ ist kein Datum, das ich verstehe. Schreiben Sie es so: {forms}.",
    "fr": "« {text} » n'est pas une date que je comprends. Écrivez-la ainsi : {forms}.",
    "es": "«{text}» no es una fecha que entienda. Escríbala así: {forms}.",
    "ru": "«{text}» — не та дата, которую я понимаю. Напишите так: {forms}.",
}
_PAST: Mapping[str, str] = {
    "en": later('"{text}" is in the past ({day}). Name a date in the future, for example: {forms}.'),
    "de": "„{text}“ ist schon vorbei ({day}). Nennen Sie eine Zeit, die noch kommt, etwa: {forms}.",
    "fr": "« {text} » est déjà passé ({day}). Donnez un moment à venir, par exemple : {forms}.",
    "es": "«{text}» ya ha pasado ({day}). Indique un momento futuro, por ejemplo: {forms}.",
    "ru": "«{text}» уже в прошлом ({day}). Назовите время, которое ещё наступит, например: {forms}.",
}
_AMBIGUOUS: Mapping[str, str] = {
    "en": later(
        '"{text}" means one day in America and another in Europe. Write the month as a word, or the year first: 3 December, 2026-12-03.'
    ),
    "de": "„{text}“ ist in Amerika ein anderer Tag als in Europa. Schreiben Sie den Monat als Wort oder das Jahr zuerst: 3. Dezember, 2026-12-03.",
    "fr": "« {text} » n'est pas le même jour en Amérique et en Europe. Écrivez le mois en lettres ou l'année d'abord : 3 décembre, 2026-12-03.",
    "es": "«{text}» no es el mismo día en América que en Europa. Escriba el mes con letras o primero el año: 3 de diciembre, 2026-12-03.",
    "ru": "«{text}» — в Америке и в Европе разные дни. Напишите месяц словом или год в начале: 3 декабря, 2026-12-03.",
}
_UNDATED: Mapping[str, str] = {
    "en": later("I saved the goal without a date: {why}"),
    "de": "Ich habe das Ziel ohne Datum gespeichert: {why}",
    "fr": "J'ai enregistré l'objectif sans date : {why}",
    "es": "He guardado el objetivo sin fecha: {why}",
    "ru": "Цель сохранена без срока: {why}",
}
_AHEAD: Mapping[str, str] = {
    # translators: examples that the program has to read: in a language other than de, es, fr and ru, leave them in English
    "en": later("tomorrow, next Friday, in 3 days, 3 December, 3 December 15:00, end of month, 2026-12-03"),
    "de": "morgen, nächsten Freitag, in 3 Tagen, 3. Dezember, 3.12. um 15 Uhr, Ende des Monats, 2026-12-03",
    "fr": "demain, vendredi prochain, dans 3 jours, le 3 décembre, le 3 décembre à 15h, fin du mois, 2026-12-03",
    "es": "mañana, el próximo viernes, en 3 días, el 3 de diciembre, el 3 de diciembre a las 15:00, fin de mes, 2026-12-03",
    "ru": "завтра, в следующую пятницу, через 3 дня, 3 декабря, 3 декабря в 15:00, конец месяца, 2026-12-03",
}
_BACK: Mapping[str, str] = {
    # translators: examples that the program has to read: in a language other than de, es, fr and ru, leave them in English
    "en": later("yesterday, last Friday, 3 days ago, 3 November, 2026-11-03, 2026-11-03T14:00"),
    "de": "gestern, letzten Freitag, vor 3 Tagen, 3. November, 2026-11-03, 2026-11-03T14:00",
    "fr": "hier, vendredi dernier, il y a 3 jours, 3 novembre, 2026-11-03, 2026-11-03T14:00",
    "es": "ayer, el viernes pasado, hace 3 días, 3 de noviembre, 2026-11-03, 2026-11-03T14:00",
    "ru": "вчера, в прошлую пятницу, 3 дня назад, 3 ноября, 2026-11-03, 2026-11-03T14:00",
}
_DAY = re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.?")
_LETTERS = re.compile(r"\w")
#: Words that may precede a time: "since last Friday".
_BESIDE = re.compile(r"\b(?:since|from|until|till|by|on|in|the|at|last|past|previous|с|со|до|по|в|во|от|прошл\w+)\b")


def deadline_of(text: str, now: float, zone: ZoneInfo) -> Deadline:
    """The future moment that a text names; InvalidInput, in the language of the text, if it is not a date, ambiguous or in the past."""
    found = resolve(text, now, zone)
    if found is not None and found.at > now:
        return found
    language, quoted = language_of_date(text), shorten(one_line(text), QUOTED)
    if found is not None:
        english = language == ENGLISH
        day = day_shown(found.at, now, zone) if english else when_text(found.at, now, zone, language)
        raise InvalidInput(_said(_PAST, language).format(text=quoted, day=day, forms=_said(_AHEAD, language)))
    if ambiguous(text):
        raise InvalidInput(_said(_AMBIGUOUS, language).format(text=quoted))
    raise InvalidInput(_said(_UNKNOWN, language).format(text=quoted, forms=_said(_AHEAD, language)))


def _said(texts: Mapping[str, str], language: str) -> str:
    """A date in figures only has no language, so it counts as English: then the chat's language is right."""
    return tr(texts[ENGLISH]) if language == ENGLISH else texts[language]


def undated_text(text: str, refusal: InvalidInput) -> str:
    """A sentence that a goal was stored without the date `text`, with the refusal of deadline_of(), in one language."""
    return _said(_UNDATED, language_of_date(text)).format(why=refusal)


def read_since(text: str, now: float, zone: ZoneInfo) -> float:
    """POSIX seconds from which a search looks: the beginning of a day, week, …. InvalidInput if it is not a time."""
    return _span(text, now, zone, "--since")[0]


def read_until(text: str, now: float, zone: ZoneInfo) -> float:
    """POSIX seconds before which a search looks: the end of a day, week, …. InvalidInput if it is not a time."""
    return _span(text, now, zone, "--until")[1]


def _span(text: str, now: float, zone: ZoneInfo, option: str) -> tuple[float, float]:
    try:
        day = date.fromisoformat(text.strip())
    except ValueError:
        day = None
    try:
        exact = moment(text, zone) if day is None else None
    except ValueError:
        exact = None
    found = (exact, exact) if exact is not None else _named(day.isoformat() if day else text, now, zone)
    if found is None:
        language = language_of_date(text)
        quoted = shorten(one_line(text), QUOTED)
        raise InvalidInput(f"{option}: {_said(_UNKNOWN, language).format(text=quoted, forms=_said(_BACK, language))}")
    return found


def _named(text: str, now: float, zone: ZoneInfo) -> tuple[float, float] | None:
    """The time, today or earlier, if the words name exactly one and nothing else."""
    for phrase in (*(english for _, english in translations(text)), text):
        try:
            words, clock = split(plain_words(phrase))
        except ValueError:  # an ambiguous hour, or an unknown time zone
            continue
        times = _figures(words, now, zone) or read_times(words, now, zone)
        if len(times.spans) != 1 or _LETTERS.search(_BESIDE.sub("", times.beside)):
            continue
        if clock is None or clock.at is None:
            return times.spans[0]
        at = instant(datetime.fromtimestamp(times.spans[0][0], zone).date(), clock.at, clock.zone or zone)
        return at, at
    return None


def _figures(words: str, now: float, zone: ZoneInfo) -> Times | None:
    """`3.11.`, the latest that is not after today."""
    match = _DAY.fullmatch(words)
    try:
        today = datetime.fromtimestamp(now, zone).date()
        days = match and latest_date(int(match["month"]), int(match["day"]), 0, today)
    except ValueError:
        return None
    return Times([(midnight(days[0], zone), midnight(days[1], zone))], False, "") if days else None
