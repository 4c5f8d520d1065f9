"""Dates and times of day in German, French and Spanish, put into the English that dispatcher/memory/dates/deadlines.py reads. Pure functions.

A translation counts only if nothing of the other language is left: what is not understood stays unread, and is never half of a date. Accents are
folded first, since people type with and without; numerals with slashes are day first in these languages, so they become dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from shared.text.dates import calendar_words
from shared.text.dates.calendar_words import ENGLISH, CalendarWords, either
from shared.text.format import one_line
from shared.text.words.function_words import plain

#: The English that may come of it.
_ENGLISH = frozenset(
    """
    in at by on of the before end start next this last today tomorrow yesterday tonight day days after week weeks weekend month months quarter year
    years hour hours minute minutes ago now evening afternoon morning noon night midnight am pm st nd rd th utc gmt z msk cet cest
    """.split()
) | {*ENGLISH.month_forms, *ENGLISH.weekday_forms}
_LETTERS = re.compile(r"[^\W\d_]+")
_CYRILLIC = re.compile("[а-яё]", re.IGNORECASE)
#: "AGO" is in capitals until all is translated: "ago" is August in Spanish.
_DAYS = {-2: "2 day AGO", -1: "yesterday", 0: "today", 1: "tomorrow", 2: "day after tomorrow"}
_DE, _FR, _ES = calendar_words.GERMAN, calendar_words.FRENCH, calendar_words.SPANISH

Rewrites = Sequence[tuple[re.Pattern[str], str]]


def _word(form: str, meant: str) -> tuple[str, str]:
    return rf"\b{either([form])}(?!\w)", f" {meant} "


def _days(words: CalendarWords, *offsets: int) -> list[tuple[str, str]]:
    return [_word(words.days[offset], _DAYS[offset]) for offset in offsets]


def _roughly(words: CalendarWords) -> list[tuple[str, str]]:
    return [_word(form, str(number)) for number, form in words.roughly.items()]


def _rewrites(table: Sequence[tuple[str, str]], words: CalendarWords) -> Rewrites:
    """The rules of a language, in order: its own table, then its numbers, units, weekdays and months."""
    pairs = [_word(form, str(number)) for number, form in reversed(list(enumerate(words.numbers, start=1)))]
    pairs += [_word(form, unit) for unit, form in words.units.items() if unit != "weekend"]
    for tables, english in (
        ((words.weekday_forms, words.weekday_short), ENGLISH.weekday_forms),
        ((words.month_forms, words.month_short), ENGLISH.month_forms),
    ):
        pairs += [_word(form, meant) for forms in tables for form, meant in zip(forms, english, strict=False)]
    return [(re.compile(pattern), meant) for pattern, meant in [*table, *pairs]]


_DE_DAY = either([*_DE.weekday_forms, *_DE.weekday_short, *(_DE.days[offset] for offset in (-1, 0, 1, 2))])
GERMAN = _rewrites(
    [
        (rf"\b({_DE_DAY})s?(abend|nachmittag|vormittag|mittag|nacht)s?\b", r"\1 \2"),
        (rf"\b({_DE_DAY}) (?:fruh|morgen)\b", r"\1 morning"),
        (rf"\b({either(_DE.weekday_forms)})(?:fruh|morgen)\b", r"\1 morning"),
        (r"\bhalb (?:eins|1)\b", "~12:30"),
        *(
            (rf"\b(?:um )?halb {either([word, str(number)])}(?!\w)", f"~{number - 1}:30")
            for number, word in enumerate(_DE.numbers[1:12], start=2)
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
        _word(f"(?:kommende[sn]? )?{_DE.units['weekend']}", "weekend"),
        (r"\bmonatsendes?\b", " end of month "),
        (r"\bjahresendes?\b", " end of year "),
        (r"\bquartalsendes?\b", " end of quarter "),
        (r"\bende\b", " end of "),
        (r"\banfang\b", " start of "),
        _word(_DE.following, "next"),
        _word(_DE.this, "this"),
        _word(_DE.last, "last"),
        (r"\bheute in\b", " in "),
        *_days(_DE, 0, 1, 2, -2, -1),
        *_roughly(_DE),
        (r"\binnerhalb (?:von |der nachsten )?|\bbinnen\b", " in "),
        (rf"\bvor +((?:\d+|\w+) +{either(_DE.units.values())})(?!\w)", r"\1 AGO"),
        (r"\bvor(?:m| dem| der)?\b", " before "),
        (r"\b(\d{1,2})\.? (?:des|dieses) monats\b", r" \1th "),
        (r"\b(\d{1,2})\.? (?: ?next )monats\b", r" \1th of next month "),
        (r"\b(?:am|zum|den|bis) (\d{1,2})\.?(?= *$| *,? +(?:um\b|at\b|\d{1,2}:))", r" \1th "),
        (r"\b(?:bis|spatestens|zum|zur|am|an|den|dem|der|des|die|das|im|es)\b", " "),
        (r"\b(\d{1,2})\.(?= *[a-z])", r"\1 "),
        (r"\b(\d{1,2}\.\d{1,2})\.(?!\d)", r"\1 "),
    ],
    _DE,
)

_FR_NOUN = (
    f"({either([*_FR.weekday_forms, *(_FR.units[unit] for unit in ('week', 'month', 'quarter', 'year')), 'weekend'])})"
)
FRENCH = _rewrites(
    [
        (r"['’]", "' "),
        (r"^un jour $", "sometime "),
        *_days(_FR, 0, 2, -2, 1, -1),
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
        _word(f"{_FR.units['weekend']}|fin de (?:la )?semaine(?= prochaine)", "weekend"),
        (rf"\b{_FR_NOUN} +{either([_FR.following])}(?!\w)", r" next \1 "),
        (rf"\b{_FR_NOUN} +{either([_FR.last])}(?!\w)", r" last \1 "),
        _word(_FR.following, "next"),
        (r"\b(?:la |a la |d' ici la |d' ici )?fin (?:du |de la |de l' |de cet?t?e? |de |d' )?", " end of "),
        (r"\b(?:au )?debut (?:du |de la |de l' |de cet?t?e? |de |d' )?", " start of "),
        *_roughly(_FR),
        (rf"\bil y a +((?:\d+|\w+) +{either(_FR.units.values())})(?!\w)", r"\1 AGO"),
        (rf"\b(?:dans|sous|d' ici)(?: les?)? +(?={either([*_FR.numbers, '[0-9]+'])} )", " in "),
        _word(_FR.this, "this"),
        (r"\bau mois d(?:e |' )", " in "),
        (r"\bavant\b", " before "),
        (r"\b1er\b", " 1 "),
        (r"\b(?:le|au|du) (\d{1,2})(?= *$| *,? +(?:a\b|at\b|\d{1,2}:))", r" \1th "),
        (r"\b(?:au plus tard|jusqu' ?(?:au|a)?|d' ici|pour|vers|des|le|la|les|l'|au|aux|du|de|d'|a)(?: |$)", " "),
        (r"\ben\b", " in "),
    ],
    _FR,
)

_ES_NOUN = (
    f"({either([*_ES.weekday_forms, *(_ES.units[unit] for unit in ('week', 'month', 'quarter', 'year')), 'weekend'])})"
)
SPANISH = _rewrites(
    [
        *_days(_ES, 2),
        _word(_ES.units["weekend"], "weekend"),
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
        *_days(_ES, 1, 0, -2, -1),
        (rf"\b{_ES_NOUN} +{either([_ES.following])}(?!\w)", r" next \1 "),
        (rf"\b{_ES_NOUN} +{either([_ES.last])}(?!\w)", r" last \1 "),
        _word(_ES.following, "next"),
        _word(_ES.this, "this"),
        (r"\b(?:a |al |para )?(?:fin(?:al)?(?:es)?) (?:del? )?(?:la |el )?", " end of "),
        (r"\b(?:a |al )?(?:principios?|comienzos?|inicios?) (?:del? )?(?:la |el )?", " start of "),
        *_roughly(_ES),
        (rf"\bhace +((?:\d+|\w+) +{either(_ES.units.values())})(?!\w)", r"\1 AGO"),
        (rf"\b(?:dentro de|en)(?: los?| las?)? +(?={either([*_ES.numbers, '[0-9]+'])} )", " in "),
        (r"\ben el mes de\b", " in "),
        (r"\bantes del?\b", " before "),
        (r"\bprimero\b|\b1[º°]|\b1ro\b", " 1 "),
        (r"\b(?:el|al|del) (?:dia )?(\d{1,2})(?= *$| *,? +(?:a\b|at\b|\d{1,2}:))", r" \1th "),
        (r"\bdia (?=\d)", " "),
        (r"\b(?:a mas tardar|como (?:muy tarde|maximo)|hasta|para|el|la|los|las|del|de|al|a|en|por)\b", " "),
    ],
    _ES,
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
    return words.lower()


def _unknown(words: str) -> int:
    return sum(word not in _ENGLISH for word in _LETTERS.findall(words))


def _folded(text: str) -> str:
    """Lower case, without accents and marks around, and a blank at the end, where a word may end."""
    return plain(one_line(text)).replace("ß", "ss").strip(" .,;:!?()[]\"'«»“”¡¿") + " "


def _daily(words: str) -> str:
    """Numerals day first, and no blank before a comma."""
    return re.sub(r"\b(\d{1,2})/(\d{1,2})(?=/\d|\b)", r"\1.\2", words).replace("/", ".").replace(" ,", ",")
