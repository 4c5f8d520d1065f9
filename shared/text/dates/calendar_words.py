"""What seven languages call days, months, numbers and units of time. Every other table of such words is made from these.

Names are as they are written. Forms are regular expressions over lower case; `either` joins them, and lets a word with an accent match without it,
and ä, ö and ü as ae, oe and ue.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class CalendarWords:
    """The words of one language. Weekdays start on Monday, months in January, numbers with 1.

    `*_forms` are whole words in every case and spelling. `*_short` are abbreviations ("mar", "do", "so"), which are words of their own in a sentence:
    they count only where nothing but a date is expected. `last`, `this` and `following` are what stands beside a weekday or unit.
    """

    weekdays: Sequence[str]
    months: Sequence[str]
    weekday_forms: Sequence[str]
    month_forms: Sequence[str]
    numbers: Sequence[str]
    roughly: Mapping[int, str]  # "a few", which counts as 3
    units: Mapping[str, str]  # minute, hour, day, week, weekend, month, quarter, year
    days: Mapping[int, str]  # from -2 (the day before yesterday) to 2
    last: str
    this: str
    following: str
    weekday_short: Sequence[str] = ()
    month_short: Sequence[str] = ()

    def counts(self) -> Iterator[tuple[str, int]]:
        """All numbers with what they mean; a longer one ("ein paar") comes before the one that it begins with."""
        yield from ((form, number) for number, form in self.roughly.items())
        yield from reversed([(form, number) for number, form in enumerate(self.numbers, start=1)])


def with_or_without_accents(pattern: str) -> str:
    """A pattern that also matches words typed without their accents, or with accents as characters of their own (NFD).

    Accented letters must not be in brackets; й is a letter of its own.
    """
    return "".join(_letter(one) for one in pattern)


def _letter(letter: str) -> str:
    apart = unicodedata.normalize("NFD", letter)
    if len(apart) == 1 or letter == "й":
        return letter
    spelled = f"|{apart[0]}e" if letter in "äöü" else ""
    return f"(?:{letter}{spelled}|{apart}?)"


def either(patterns: Iterable[str]) -> str:
    """One group that matches any of them, without accents too."""
    return f"(?:{with_or_without_accents('|'.join(patterns))})"


def index_of(said: str, *tables: Iterable[str]) -> int:
    """The place, from 0, that a word has in the first of the tables of forms that know it. ValueError if none does."""
    for table in tables:
        for index, form in enumerate(table):
            if _whole(form).fullmatch(said):
                return index
    raise ValueError(said)


def number_of(said: str, *languages: CalendarWords) -> int:
    """What a number means, in figures or in the words of the first of the languages that knows it. ValueError if none does."""
    if said.isdigit():
        return int(said)
    counts = [count for words in languages for count in words.counts()]
    return counts[index_of(said, [form for form, _ in counts])][1]


@cache
def _whole(form: str) -> re.Pattern[str]:
    return re.compile(with_or_without_accents(form))


_MONDAY_TO_SUNDAY = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_JANUARY_TO_DECEMBER = "January February March April May June July August September October November December".split()
ENGLISH = CalendarWords(
    weekdays=_MONDAY_TO_SUNDAY,
    months=_JANUARY_TO_DECEMBER,
    weekday_forms=[name.lower() for name in _MONDAY_TO_SUNDAY],
    month_forms=[name.lower() for name in _JANUARY_TO_DECEMBER],
    weekday_short="mon tues? wed(?:nes)? thu(?:rs?)? fri sat sun".split(),
    month_short="jan feb mar apr may jun jul aug sept? oct nov dec".split(),
    numbers=[
        *("one|an?", "two", "three", "four"),
        *"five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split(),
    ],
    roughly={2: "(?:a )?couple of", 3: "(?:a )?few", 4: "several"},
    units={
        "minute": "minutes?",
        "hour": "hours?",
        "day": "days?",
        "week": "weeks?",
        "weekend": "weekend",
        "month": "months?",
        "quarter": "quarters?",
        "year": "years?",
    },
    days={-2: "the day before yesterday", -1: "yesterday", 0: "today", 1: "tomorrow", 2: "(?:the )?day after tomorrow"},
    last="last|past|previous",
    this="this|current",
    following="next|following",
)
GERMAN = CalendarWords(
    weekdays="Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split(),
    months="Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
    weekday_forms="montags? dienstags? mittwochs? donnerstags? freitags? (?:samstag|sonnabend)s? sonntags?".split(),
    month_forms="januar|jänner februar märz april mai juni juli august september oktober november dezember".split(),
    weekday_short="mo di mi do fr sa so".split(),
    month_short="jan feb mrz apr mai jun jul aug sept? okt nov dez".split(),
    numbers=[
        *("eine?[mnrs]?", "zwei|zwo", "drei"),
        *"vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn".split(),
    ],
    roughly={3: "ein paar|einige[nr]?"},
    units={
        "minute": "minuten?",
        "hour": "stunden?",
        "day": "tag(?:en?|es)?",
        "week": "wochen?",
        "weekend": "wochenendes?",
        "month": "monat(?:en?|e?s)?",
        "quarter": "quartals?",
        "year": "jahr(?:en?|es)?",
    },
    days={-2: "vorgestern", -1: "gestern", 0: "heute", 1: "morgen", 2: "übermorgen"},
    last="(?:letzte|vergangene|vorige)[mnrs]?",
    this="diese[mnrs]?",
    following="(?:nächste|kommende|folgende)[mnrs]?",
)
FRENCH = CalendarWords(
    weekdays="lundi mardi mercredi jeudi vendredi samedi dimanche".split(),
    months="janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
    weekday_forms="lundi mardi mercredi jeudi vendredi samedi dimanche".split(),
    month_forms="janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
    month_short="janv févr mars avr mai juin juil août sept oct nov déc".split(),
    numbers=[
        *("une?", "deux", "trois"),
        *"quatre cinq six sept huit neuf dix onze douze treize quatorze quinze".split(),
    ],
    roughly={3: "quelques"},
    units={
        "minute": "minutes?",
        "hour": "heures?",
        "day": "jours?",
        "week": "semaines?",
        "weekend": "week-?end",
        "month": "mois",
        "quarter": "trimestres?",
        "year": "ans?|années?",
    },
    days={-2: "avant[ -]hier", -1: "hier", 0: "aujourd['’] ?hui", 1: "demain", 2: "après[ -]demain"},
    last="dernière?|passée?",
    this="cet?t?e?",
    following="prochaine?|qui vient",
)
SPANISH = CalendarWords(
    weekdays="lunes martes miércoles jueves viernes sábado domingo".split(),
    months="enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split(),
    weekday_forms="lunes martes miércoles jueves viernes sábado domingo".split(),
    month_forms="enero febrero marzo abril mayo junio julio agosto sep?tiembre octubre noviembre diciembre".split(),
    month_short="ene feb mar abr may jun jul ago sept? oct nov dic".split(),
    numbers=[
        *("una?", "dos", "tres"),
        *"cuatro cinco seis siete ocho nueve diez once doce trece catorce quince".split(),
    ],
    roughly={3: "un[oa]s(?: poc[oa]s)?|algun[oa]s"},
    units={
        "minute": "minutos?",
        "hour": "horas?",
        "day": "días?",
        "week": "semanas?",
        "weekend": "fin(?:es)? de semana",
        "month": "mes(?:es)?",
        "quarter": "trimestres?",
        "year": "años?",
    },
    days={-2: "ante ?ayer|antes de ayer|antier", -1: "ayer", 0: "hoy", 1: "mañana", 2: "pasado mañana"},
    last="pasad[oa]|anterior",
    this="est[ea]",
    following="próxim[oa]s?|siguiente|entrante|que viene",
)
RUSSIAN = CalendarWords(
    weekdays="понедельник вторник среда четверг пятница суббота воскресенье".split(),
    months="января февраля марта апреля мая июня июля августа сентября октября ноября декабря".split(),
    weekday_forms=[
        *("понедельник(?:ом|[ауе])?", "вторник(?:ом|[ауе])?", "сред(?:ой|[аеуы])", "четверг(?:ом|[ауе])?"),
        *("пятниц(?:ей|[аеуы])", "суббот(?:ой|[аеуы])", "воскресень(?:ем|[еяю])"),
    ],
    month_forms=[
        *("январ(?:ём|[ьяюе])", "феврал(?:ём|[ьяюе])", "март(?:ом|[ауе])?", "апрел(?:ем|[ьяюе])", "ма(?:ем|[йяюе])"),
        *("июн(?:ем|[ьяюе])", "июл(?:ем|[ьяюе])", "август(?:ом|[ауе])?", "сентябр(?:ём|[ьяюе])"),
        *("октябр(?:ём|[ьяюе])", "ноябр(?:ём|[ьяюе])", "декабр(?:ём|[ьяюе])"),
    ],
    weekday_short="пн вт ср чт пт сб вс".split(),
    month_short="янв фев мар апр май июн июл авг сент? окт ноя дек".split(),
    numbers=[
        *("од(?:ин|ну|на|ного|ной)", "дв[ае]|двух", "три|трёх", "четыре"),
        *"пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать пятнадцать".split(),
    ],
    roughly={2: "пар[уы]", 3: "несколько"},
    units={
        "minute": "минут[ауы]?",
        "hour": "час(?:а|ов)?",
        "day": "день|дня|дней",
        "week": "недел(?:ей|[юиьяе])",
        "weekend": "выходн(?:ые|ых)",
        "month": "месяц(?:ем|ев|[ауе])?",
        "quarter": "квартал(?:ом|ов|[ауе])?",
        "year": "год(?:ом|[ауе])?|лет",
    },
    days={-2: "позавчера", -1: "вчера", 0: "сегодня", 1: "завтра", 2: "послезавтра"},
    last=r"прошл\w{2,3}",
    this=r"эт(?:ой|ом|ого|от|[аоуи]|их)|текущ\w{2,3}",
    following=r"(?:следующ|будущ)\w{2,3}",
)
ITALIAN = CalendarWords(
    weekdays="lunedì martedì mercoledì giovedì venerdì sabato domenica".split(),
    months="gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre".split(),
    weekday_forms="lunedì martedì mercoledì giovedì venerdì sabato domenica".split(),
    month_forms="gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre".split(),
    month_short="gen feb mar apr mag giu lug ago sett? ott nov dic".split(),
    numbers=[
        *("un[oa]?", "due", "tre"),
        *"quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici".split(),
    ],
    roughly={2: "un paio di", 3: "qualche|alcun[ie]"},
    units={
        "minute": "minut[oi]",
        "hour": "or[ae]",
        "day": "giorn[oi]",
        "week": "settiman[ae]",
        "weekend": "fine settimana|week-?end",
        "month": "mes[ei]",
        "quarter": "trimestr[ei]",
        "year": "ann[oi]",
    },
    days={-2: "l['’]altro ?ieri|avantieri", -1: "ieri", 0: "oggi", 1: "domani", 2: "dopodomani"},
    last="scors[oa]|passat[oa]",
    this="quest[oa]",
    following="prossim[oaie]|che viene",
)
PORTUGUESE = CalendarWords(
    weekdays="segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo".split(),
    months="janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro".split(),
    weekday_forms=[
        *("segunda(?:-feira)?", "terça(?:-feira)?", "quarta(?:-feira)?", "quinta(?:-feira)?", "sexta(?:-feira)?"),
        *("sábado", "domingo"),
    ],
    month_forms="janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro".split(),
    month_short="jan fev mar abr mai jun jul ago set out nov dez".split(),
    numbers=[
        *("uma?", "dois|duas", "três"),
        *"quatro cinco seis sete oito nove dez onze doze treze (?:c|qu)atorze quinze".split(),
    ],
    roughly={2: "um par de", 3: "alguns|algumas|uns|umas"},
    units={
        "minute": "minutos?",
        "hour": "horas?",
        "day": "dias?",
        "week": "semanas?",
        "weekend": "fi(?:m|ns) de semana",
        "month": "m(?:ês|eses)",
        "quarter": "trimestres?",
        "year": "anos?",
    },
    days={-2: "anteontem", -1: "ontem", 0: "hoje", 1: "amanhã", 2: "depois de amanhã"},
    last="passad[oa]|anterior",
    this="(?:n?est|n?ess)[ea]",
    following="próxim[oa]s?|seguinte|que vem",
)
#: By language (ISO 639-1).
WORDS: Mapping[str, CalendarWords] = {
    "en": ENGLISH,
    "de": GERMAN,
    "fr": FRENCH,
    "es": SPANISH,
    "it": ITALIAN,
    "pt": PORTUGUESE,
    "ru": RUSSIAN,
}
