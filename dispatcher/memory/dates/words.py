"""Dates and times of day in German, French and Spanish, put into the English that dispatcher/memory/dates/deadlines.py reads. Pure functions.

A translation counts only if nothing of the other language is left: what is not understood stays unread, and is never half of a date. Accents are
folded first, since people type with and without; numerals with slashes are day first in these languages, so they become dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from shared.text.format import one_line
from shared.text.function_words import plain
from shared.text.time_words import MONTHS, WEEKDAYS

#: The English that may come of it.
_ENGLISH = frozenset(
    """
    in at by on of the before end start next this last today tomorrow yesterday tonight day days after week weeks weekend month months quarter year
    years hour hours minute minutes ago now evening afternoon morning noon night midnight am pm st nd rd th utc gmt z msk cet cest
    """.split()
) | {*MONTHS, *WEEKDAYS}
_LETTERS = re.compile(r"[^\W\d_]+")
_CYRILLIC = re.compile("[а-яё]", re.IGNORECASE)
_UNITS = "minute hour day week month year".split()

Rewrites = Sequence[tuple[re.Pattern[str], str]]


def _rewrites(
    table: Sequence[tuple[str, str]],
    *,
    numbers: str,
    units: Sequence[str],
    weekdays: str,
    months: str,
    last: Sequence[tuple[str, str]] = (),
) -> Rewrites:
    """The rules of a language, in order; words of one kind are in the order of what they mean (numbers from 1, Monday, January)."""
    pairs: list[tuple[str, str]] = [(word, str(number)) for number, word in enumerate(numbers.split(), start=1)]
    pairs += [(word, unit) for word, unit in zip(units, _UNITS, strict=True)]
    pairs += [(word, day) for word, day in zip(weekdays.split(), WEEKDAYS, strict=True)]
    pairs += [(word, month) for word, month in zip(months.split(), MONTHS, strict=True)]
    everything = [*table, *((rf"\b(?:{word})\b", f" {meant} ") for word, meant in pairs), *last]
    return [(re.compile(pattern), plain_) for pattern, plain_ in everything]


_DE_DAY = r"(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag|heute|gestern|morgen|ubermorgen|mo|di|mi|do|fr|sa|so)"
GERMAN = _rewrites(
    [
        (r"\bue?bermorgen\b", "ubermorgen"),
        (rf"\b({_DE_DAY})s?(abend|nachmittag|vormittag|mittag|nacht)s?\b", r"\1 \2"),
        (rf"\b({_DE_DAY}) (?:fruh|morgen)\b", r"\1 morning"),
        (r"\b((?:mon|diens|donners|frei|sams|sonn)tag)(?:fruh|morgen)\b", r"\1 morning"),
        (r"\bhalb (?:eins|1)\b", "~12:30"),
        *(
            (rf"\b(?:um )?halb (?:{word}|{number})\b", f"~{number - 1}:30")
            for number, word in enumerate("zwei drei vier funf sechs sieben acht neun zehn elf zwolf".split(), start=2)
        ),
        (r"\b(?:um |gegen |bis |ab )?(\d{1,2})[:.](\d\d) ?(?:uhr|h)\b", r" \1:\2 "),
        (r"\b(?:um |gegen |bis |ab )?(\d{1,2}) ?uhr (\d\d)\b", r" ~\1:\2 "),
        (r"\b(?:um |gegen |bis |ab )?(\d{1,2}) ?uhr\b", r" ~\1:00 "),
        (r"\b(?:um|gegen) (\d{1,2})\b(?![.:]\d)", r" at \1 "),
        (r"\b(?:um|gegen) (~?\d{1,2}:\d\d)", r" \1 "),
        (r"(?<=:\d\d)  ?(?:nachmittags|am nachmittag)\b", " pm "),
        (r"(?<=:\d\d)  ?(?:morgens|vormittags|fruh|am (?:morgen|vormittag))\b", " morning "),
        (r"\bmittags?\b", " noon "),
        (r"\bmitternachts?\b", " midnight "),
        (r"\b(?:am )?(?:spaten )?nachmittags?\b", " afternoon "),
        (r"\b(?:am )?abends?\b", " evening "),
        (r"\b(?:in der )?nachts?\b", " night "),
        (r"\b(?:am )?(?:vormittags?|morgens)\b|\bam morgen\b", " morning "),
        (r"\b(?:kommende[sn]? )?wochenendes?\b", " weekend "),
        (r"\bmonatsendes?\b", " end of month "),
        (r"\bjahresendes?\b", " end of year "),
        (r"\bquartalsendes?\b", " end of quarter "),
        (r"\bende\b", " end of "),
        (r"\banfang\b", " start of "),
        (r"\bna(?:e)?chste[nrms]?\b|\bkommende[nrms]?\b|\bfolgende[nrms]?\b", " next "),
        (r"\bdiese[nrms]?\b", " this "),
        (r"\b(?:letzte|vergangene|vorige)[nrms]?\b", " last "),
        (r"\bheute in\b", " in "),
        (r"\bheute\b", " today "),
        (r"\bmorgen\b", " tomorrow "),
        (r"\bubermorgen\b", " day after tomorrow "),
        (r"\bvorgestern\b", " 2 day ago "),
        (r"\bgestern\b", " yesterday "),
        (r"\bein paar\b|\beinigen\b", " 3 "),
        (r"\binnerhalb (?:von |der nachsten )?|\bbinnen\b", " in "),
        (r"\bvor ((?:\d+|\w+) (?:tag|woche|monat|jahr|stunde)\w*)", r"\1 ago"),
        (r"\bvor(?:m| dem| der)?\b", " before "),
        (r"\b(\d{1,2})\.? (?:des|dieses) monats\b", r" \1th "),
        (r"\b(\d{1,2})\.? (?: ?next )monats\b", r" \1th of next month "),
        (r"\b(?:am|zum|den|bis) (\d{1,2})\.?(?= *$| *,? +(?:um\b|at\b|\d{1,2}:))", r" \1th "),
        (r"\b(?:bis|spatestens|zum|zur|am|an|den|dem|der|des|die|das|im|es)\b", " "),
        (r"\b(\d{1,2})\.(?= *[a-z])", r"\1 "),
        (r"\b(\d{1,2}\.\d{1,2})\.(?!\d)", r"\1 "),
    ],
    numbers="eine?[mnrs]? zwei|zwo drei vier fu(?:e)?nf sechs sieben acht neun zehn elf zwo(?:e)?lf dreizehn vierzehn fu(?:e)?nfzehn",
    units=[
        "minuten?",
        "stunden?",
        "tag(?:en?|es)?",
        "wochen?",
        "monat(?:en?|e?s)?",
        "jahr(?:en?|es)?",
    ],
    weekdays="montags?|mo dienstags?|di mittwochs?|mi donnerstags?|do freitags?|fr (?:samstag|sonnabend)s?|sa sonntags?|so",
    months="januar|janner|jan februar|feb marz|maerz|mrz april|apr mai juni|jun juli|jul august|aug september|sept?"
    " oktober|okt november|nov dezember|dez",
    last=[(r"\bquartals?\b", " quarter ")],
)

FRENCH = _rewrites(
    [
        (r"['’]", "' "),
        (r"^un jour $", "sometime "),
        (r"\baujourd' ?hui\b", " today "),
        (r"\bapres[ -]demain\b", " day after tomorrow "),
        (r"\bavant[ -]hier\b", " 2 day ago "),
        (r"\bdemain\b", " tomorrow "),
        (r"\bhier\b", " yesterday "),
        (r"\b(\d{1,2}) ?(?:h|heures?) ?(\d\d)\b", r" \1:\2 "),
        (r"\b(?:dans|d' ici|sous) (\d{1,2}|une|deux|trois) ?(?:h|heures?)\b", r" in \1 hour "),
        (r"\b(\d{1,2}) ?(?:h|heures?)\b", r" ~\1:00 "),
        (r"\b(?:a|vers|avant) +(?=~?\d{1,2}:\d\d)", " "),
        (r"(?<=:\d\d)  ?du matin\b", " am "),
        (r"(?<=:\d\d)  ?(?:de l' |du |de )apres-midi\b", " pm "),
        (r"\bcet?t?e? soir\b", " tonight "),
        (r"\bcette nuit\b", " today night "),
        (r"\b(?:de |dans )?la nuit\b", " night "),
        (r"\b(?:a )?minuit\b", " midnight "),
        (r"\b(?:a )?midi\b(?!-)", " noon "),
        (r"\bcet?t?e? (?:apres-midi)\b", " this afternoon "),
        (r"\bce matin\b", " this morning "),
        (r"\b(?:l' )?apres-midi\b", " afternoon "),
        (r"\b(?:au |le |du |dans la )?(?:soir|soiree)\b", " evening "),
        (r"\b(?:au |le |dans la )?(?:matin|matinee)\b", " morning "),
        (r"\bweek-?end\b|\bfin de (?:la )?semaine\b(?= prochaine)", " weekend "),
        (
            r"\b(lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|semaine|mois|annee|an|weekend) (?:qui vient|prochaine?)\b",
            r" next \1 ",
        ),
        (
            r"\b(lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|semaine|mois|annee|an|weekend) (?:derniere?|passee?)\b",
            r" last \1 ",
        ),
        (r"\bprochaine?\b", " next "),
        (r"\b(?:la |a la |d' ici la |d' ici )?fin (?:du |de la |de l' |de cet?t?e? |de |d' )?", " end of "),
        (r"\b(?:au )?debut (?:du |de la |de l' |de cet?t?e? |de |d' )?", " start of "),
        (r"\bil y a ((?:\d+|\w+) (?:jours?|semaines?|mois|ans?|heures?))", r"\1 ago"),
        (
            r"\b(?:dans|sous|d' ici)(?: les?)? (?=(?:une?|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|\w*ze|quelques|\d+) )",
            " in ",
        ),
        (r"\bquelques\b", " 3 "),
        (r"\bcet?t?e?\b", " this "),
        (r"\bavant\b", " before "),
        (r"\b1er\b", " 1 "),
        (r"\b(?:le|au|du) (\d{1,2})(?= *$| *,? +(?:a\b|at\b|\d{1,2}:))", r" \1th "),
        (r"\b(?:au plus tard|jusqu' ?(?:au|a)?|d' ici|pour|vers|des|le|la|les|l'|au|aux|du|de|d'|a)(?: |$)", " "),
        (r"\ben\b", " in "),
    ],
    numbers="une? deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze",
    units=["minutes?", "heures?", "jours?", "semaines?", "mois", "ans?|annees?"],
    weekdays="lundi mardi mercredi jeudi vendredi samedi dimanche",
    months="janvier|janv fevrier|fevr mars avril|avr mai juin juillet|juil aout septembre|sept octobre|oct novembre|nov decembre|dec",
    last=[(r"\btrimestre\b", " quarter ")],
)

_ES_NOUN = r"(lunes|martes|miercoles|jueves|viernes|sabado|domingo|semana|mes|ano|weekend|trimestre)"
SPANISH = _rewrites(
    [
        (r"\bpasado manana\b", " day after tomorrow "),
        (r"\bfin(?:es)? de semana\b", " weekend "),
        (r"\b(?:a |para )?las? (\d{1,2}) y media\b", r" ~\1:30 "),
        (r"\b(?:a |para )?las? (\d{1,2}) y cuarto\b", r" ~\1:15 "),
        (r"\b(\d{1,2})[:.](\d\d) ?(?:h|hs|hrs|horas?)\b", r" \1:\2 "),
        (r"\b(?:a|para|antes de|hasta|sobre) las? (\d{1,2}[:.]\d\d)\b", r" \1 "),
        (r"\b(?:a |para |antes de |hasta |sobre )las? (\d{1,2}) (?=de la (?:manana|tarde|noche))", r" \1:00 "),
        (r"\b(?:a|para|antes de|hasta|sobre) las? (\d{1,2})(?: ?h| horas?| en punto)?\b", r" at \1 "),
        (r"\b(?:en|dentro de) (\d{1,2}|una|dos|tres) (?:h|horas?)\b", r" in \1 hour "),
        (r"\b(\d{1,2}) ?(?:h|hs|horas)\b", r" ~\1:00 "),
        (r"(?<=:\d\d)  ?de la tarde\b", " pm "),
        (r"\besta noche\b", " today night "),
        (r"\besta manana\b", " this morning "),
        (r"\besta tarde\b", " this afternoon "),
        (r"\b(?:por|en|a|de) la manana\b", " morning "),
        (r"\b(?:por|en|a|de) la tarde\b", " afternoon "),
        (r"\b(?:por|en|a|de) la noche\b", " night "),
        (r"\b(?:a |al )?mediodia\b", " noon "),
        (r"\b(?:a (?:la )?)?medianoche\b", " midnight "),
        (r"\bmanana\b", " tomorrow "),
        (r"\bhoy\b", " today "),
        (r"\bante ?ayer\b|\bantes de ayer\b", " 2 day ago "),
        (r"\bayer\b", " yesterday "),
        (rf"\b{_ES_NOUN} (?:que viene|proxim[oa]|siguiente|entrante)\b", r" next \1 "),
        (rf"\b{_ES_NOUN} (?:pasad[oa])\b", r" last \1 "),
        (r"\bproxim[oa]s?\b|\bsiguiente\b", " next "),
        (r"\best[ea]\b", " this "),
        (r"\b(?:a |al |para )?(?:fin(?:al)?(?:es)?) (?:del? )?(?:la |el )?", " end of "),
        (r"\b(?:a |al )?(?:principios?|comienzos?|inicios?) (?:del? )?(?:la |el )?", " start of "),
        (r"\bhace ((?:\d+|\w+) (?:dias?|semanas?|mes(?:es)?|anos?|horas?))", r"\1 ago"),
        (
            r"\b(?:dentro de|en)(?: los?| las?)? (?=(?:una?|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|\w*ce|unos|\d+) )",
            " in ",
        ),
        (r"\bunos (?:pocos )?|\balgunos\b", " 3 "),
        (r"\bantes del?\b", " before "),
        (r"\bprimero\b|\b1[º°]|\b1ro\b", " 1 "),
        (r"\b(?:el|al|del) (?:dia )?(\d{1,2})(?= *$| *,? +(?:a\b|at\b|\d{1,2}:))", r" \1th "),
        (r"\bdia (?=\d)", " "),
        (r"\b(?:a mas tardar|como (?:muy tarde|maximo)|hasta|para|el|la|los|las|del|de|al|a|en|por)\b", " "),
    ],
    numbers="una? dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince",
    units=["minutos?", "horas?", "dias?", "semanas?", "mes(?:es)?", "anos?"],
    weekdays="lunes martes miercoles jueves viernes sabado domingo",
    months="enero|ene febrero|feb marzo|mar abril|abr mayo junio|jun julio|jul agosto|ago septiembre|setiembre|sept? octubre|oct"
    " noviembre|nov diciembre|dic",
    last=[(r"\btrimestre\b", " quarter ")],
)

#: By language. Russian is read by deadlines.py itself.
TABLES: Mapping[str, Rewrites] = {"de": GERMAN, "fr": FRENCH, "es": SPANISH}


def translations(text: str) -> Iterator[tuple[str, str]]:
    """(language, the text in English) for each language that has all of its words; lower case, single blanks."""
    folded = _folded(text)
    for language, rules in TABLES.items():
        words = one_line(_rewritten(folded, rules)).strip(" ,.")
        if words != folded.strip() and words and all(word in _ENGLISH for word in _LETTERS.findall(words)):
            yield language, _daily(words)


def language_of_date(text: str) -> str:
    """The language (en, de, fr, es, ru) in which a text is that was meant as a date: the one that leaves the fewest of its words unknown."""
    if _CYRILLIC.search(text):
        return "ru"
    unknown = {"en": _unknown(plain(one_line(text)))}
    unknown |= {language: _unknown(_rewritten(_folded(text), rules)) for language, rules in TABLES.items()}
    return min(unknown, key=lambda language: unknown[language])


def _rewritten(words: str, rules: Rewrites) -> str:
    for pattern, meant in rules:
        words = pattern.sub(meant, words)
    return words


def _unknown(words: str) -> int:
    return sum(word not in _ENGLISH for word in _LETTERS.findall(words))


def _folded(text: str) -> str:
    """Lower case, without accents and marks around, and a blank at the end, where a word may end."""
    return plain(one_line(text)).replace("ß", "ss").strip(" .,;:!?()[]\"'«»“”¡¿") + " "


def _daily(words: str) -> str:
    """Numerals day first, and no blank before a comma."""
    return re.sub(r"\b(\d{1,2})/(\d{1,2})(?=/\d|\b)", r"\1.\2", words).replace("/", ".").replace(" ,", ",")
