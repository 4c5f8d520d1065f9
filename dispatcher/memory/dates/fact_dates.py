"""When a fact is over: "the engineer comes on Thursday" is news until Thursday, and history after it. Pure functions.

Only what is to happen once, on a day that deadlines.py knows: no habits ("every Thursday", "on Mondays"), no birthdays, nothing past.
A time that is missed leaves the fact as it is; one too many would tell a lasting fact as past.
"""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from shared.text.dates.calendar_words import ENGLISH, FRENCH, GERMAN, RUSSIAN, SPANISH, either

_CLOCK = (
    r"(?:,? (?:at |um |в |à |a las )?\d{1,2}[:.h]\d\d(?: ?[ap]m| uhr)?|,? at \d{1,2}(?: ?[ap]m|:\d\d)?|,? at noon"
    r"|,? um \d{1,2} uhr|,? à \d{1,2} ?h(?:eures)?|,? a las \d{1,2})?"
)
_WEEKDAYS, _WEEKDAYS_DE, _WEEKDAYS_FR, _WEEKDAYS_ES = (
    either(words.weekday_forms) for words in (ENGLISH, GERMAN, FRENCH, SPANISH)
)
_MONTH = either([*ENGLISH.month_forms, *ENGLISH.month_short])
_MONTH_DE, _MONTH_FR, _MONTH_ES = (either(words.month_forms) for words in (GERMAN, FRENCH, SPANISH))
#: "среду": the case in which something is to happen on that day.
_ON_WEEKDAY_RU = either(f"{name[:-1]}у" if name.endswith("а") else name for name in RUSSIAN.weekdays)
#: Days, weeks and months, in numbers that are said of what is to come.
_COUNT, _COUNT_DE, _COUNT_FR, _COUNT_ES = (
    f"(?:[0-9]+|{either(reversed(words.numbers))}) {either(words.units[unit] for unit in ('day', 'week', 'month'))}"
    for words in (ENGLISH, GERMAN, FRENCH, SPANISH)
)
_TODAY_OR_AFTER_FR = either(FRENCH.days[offset] for offset in (0, 1, 2))
#: "Frau Morgen", "Herr Freitag", "Domingo" after "de": names. A look back has a fixed length, so each title has its own.
_TITLES = (
    "herr|herrn|frau|familie|dr.|señor|señora|sr.|sra.|don|doña|monsieur|madame|m.|mme|mr|mr.|mrs|mrs.|ms|ms.|miss|de"
)
_NO_NAME = "".join(rf"(?<!\b{re.escape(title)} )" for title in _TITLES.split("|"))
_DATE = re.compile(
    rf"{_NO_NAME}\b(?:(?:on|until|till|for|by) )?(?P<date>"
    rf"(?:(?:this|next|coming) )?{_WEEKDAYS}(?:,? (?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}(?: \d{{4}})?)?\b(?! ?s\b)"
    rf"|(?:(?:diesen|nächsten|kommenden) )?{_WEEKDAYS_DE}(?:,? (?:den |dem )?\d{{1,2}}\. ?{_MONTH_DE}(?: \d{{4}})?)?\b"
    rf"|\d{{1,2}}\. ?{_MONTH_DE}\b(?: \d{{4}})?|(?:heute|(?<!am )morgen|übermorgen|nächste woche|am wochenende)\b"
    rf"|(?:ce )?{_WEEKDAYS_FR}\b(?: prochain\b)?(?:,? (?:le )?\d{{1,2}} {_MONTH_FR}\b(?: \d{{4}})?)?"
    rf"|(?:le )?(?:\d{{1,2}}|1er) {_MONTH_FR}\b(?: \d{{4}})?|{_TODAY_OR_AFTER_FR}|la semaine prochaine"
    rf"|(?:el )?(?:próximo |este )?{_WEEKDAYS_ES}\b(?: que viene\b)?(?:,? \d{{1,2}} de {_MONTH_ES}\b(?: de \d{{4}})?)?"
    rf"|(?:el )?\d{{1,2}} de {_MONTH_ES}\b(?: de \d{{4}})?|pasado mañana|(?<!la )mañana\b|hoy\b|la semana que viene"
    rf"|(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}\b\.?(?:,? \d{{4}})?"
    rf"|{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"
    r"|\d{4}-\d\d-\d\d|\d{1,2}\.\d{1,2}\.(?:\d{4})?|tomorrow|tonight|today|next (?:week|month|weekend)|this (?:week|weekend|month)"
    rf"|in {_COUNT}|in {_COUNT_DE}\b|dans {_COUNT_FR}\b|(?:en|dentro de) {_COUNT_ES}\b"
    rf"|(?:в|во) {_ON_WEEKDAY_RU}|завтра|сегодня|через неделю"
    rf"|\d{{1,2}} {either(RUSSIAN.months)}(?: \d{{4}})?"
    rf"){_CLOCK}",
    re.IGNORECASE,
)
#: What is to happen once. Where somebody comes from is no event, although a trip may be missed by that.
_HAPPENS = re.compile(
    r"\b(?:will|['’]ll|going to|comes?(?! from\b)|coming(?! from\b)|arrives?|arriving|visits?|visiting|fl(?:y|ies|ying)"
    r"|leaves?|leaving|travel(?:s|ling|ing)?|departs?"
    r"|moves?|moving|returns?|returning|getting married|gets married|expires?|is due|are due|takes place|starts?|begins?|ends?|opens?"
    r"|delivered|delivers?"
    r"|appointment|meeting|exam|interview|wedding|party|flight|concert|operation|surgery|deadline|delivery|inspection|visit|conference|funeral"
    r"|komm(?:t|en)(?! aus\b)|eintreffen|trifft ein|fliegt|reist|verreist|zieht um|läuft ab|ist fällig|findet statt"
    r"|beginnt|endet|eröffnet|geliefert|abgeholt"
    r"|termin|besuch|prüfung|vorstellungsgespräch|hochzeit|flug|konzert|operation|lieferung|beerdigung"
    r"|(?:vient|viennent)(?! (?:de|du|des)\b| d['’])|viendra|arrivera|arrive|part (?:en|pour|à|au)|partira|déménage|commence|se termine"
    r"|aura lieu|expire|livrée?s?"
    r"|rendez-vous|réunion|examen|entretien|mariage|vol|opération|livraison|enterrement"
    r"|vienen?(?! del?\b)|vendrá|llega|llegará|sale (?:de|para|a|el)|saldrá|se muda|empieza|termina|será|vence|caduca"
    r"|cita|reunión|entrevista|boda|vuelo|concierto|operación|entrega|funeral"
    r"|приедет|придёт|придет|приезжает|приходит|будет|встреча|экзамен|рейс|уезжает|улетает|прилетает)\b",
    re.IGNORECASE,
)
#: What comes again, stays, or has been.
_LASTS = re.compile(
    r"\b(?:every|each|always|usually|often|weekly|monthly|yearly|annual(?:ly)?|daily|since|was|were|had|did|came|went|birthday|born|anniversary"
    r"|name day|regularly|normally|(?:mon|tues|wednes|thurs|fri|satur|sun)days"
    r"|jede[nrsm]?|immer|üblicherweise|normalerweise|meistens|täglich|wöchentlich|jährlich|war|waren|hatte|kam|seit|geburtstag|geboren"
    r"|(?:mon|diens|donners|frei|sams|sonn)tags|mittwochs|sonnabends"
    r"|chaque|tous les|toutes les|toujours|d['’]habitude|était|étaient|depuis|anniversaire|née?"
    rf"|le {_WEEKDAYS_FR}(?! prochain)(?!,? (?:le )?\d)"  # "le lundi" is every Monday
    rf"|los {_WEEKDAYS_ES}|cada|todos los|todas las|siempre|normalmente|era|fue|desde|cumpleaños|nació"
    r"|каждый|каждую|каждое|обычно|всегда|был|была|было|день рождения|родился|родилась)\b",
    re.IGNORECASE,
)


def ends(text: str, now: float, zone: ZoneInfo) -> float | None:
    """The end of the time that a fact is about, seen from when it was said (POSIX seconds); None for one that lasts, or names no day ahead."""
    from dispatcher.memory.dates.deadlines import resolve

    if not _HAPPENS.search(text) or _LASTS.search(text):
        return None
    dates = list(_DATE.finditer(text))
    if len(dates) != 1:
        return None
    said = text[dates[0].start("date") : dates[0].end()]
    found = resolve(said, now, zone)
    return found.at if found and found.at > now else None
