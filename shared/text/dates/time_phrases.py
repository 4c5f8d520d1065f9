"""How seven languages name times: patterns over a question in lower case, in which the braces stand for calendar_words.py's words.

{day} and {year} are figures; {count} is one too, or a number in words; {month} has abbreviations too, {full_month} has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TimePhrases:
    """The patterns of one language, each kind in the order in which they are tried."""

    in_year: str  # after a month
    dates: Sequence[str]
    months: Sequence[str]
    years: Sequence[str]
    ago: Sequence[str]
    recent: Sequence[str]  # so many days, weeks, …, today with them
    days_back: Mapping[int, str]  # from two days before today to today
    last: Sequence[str]  # the week, weekend, month, … before
    this: Sequence[str]
    ahead: Sequence[str]  # no time past: taken, so that its weekday is not read as the latest
    weekday: str


ENGLISH = TimePhrases(
    in_year=",? (?:of )?{year}",
    dates=["{day}(?:st|nd|rd|th)? (?:of )?{month}(?:{in_year})?", "{month} {day}(?:st|nd|rd|th)?(?:{in_year})?"],
    months=[
        "{month}{in_year}",
        "(?:in|since|during|last|this|of|early|late|mid)[ -]{month}",
        "(?!march|may){full_month}",  # words too: months only beside a number or "in"
    ],
    years=["(?:in|since|during|of|back in) {year}"],
    ago=["{count} {unit} (?:ago|back|earlier)"],
    recent=["(?:the )?{last} {count} {unit}", "(?:the|this) past {unit}"],
    days_back={
        2: "{before_yesterday}",
        1: "{yesterday}|last night",
        0: "{today}|tonight|this (?:morning|afternoon|evening)",
    },
    last=["{last} {period}(?<!s)", "(?:on|over|at) the {weekend}"],
    this=["{this} {period}(?<!s)"],
    ahead=["(?:{following}|every|each|coming) {weekday}"],
    weekday="(?:{last} )?{weekday}",
)
GERMAN = TimePhrases(
    in_year=",? {year}",
    dates=[r"{day}\.? ?{month}(?:{in_year})?"],
    months=["(?:im|seit|{last}) {full_month}(?:{in_year})?", "{full_month}{in_year}"],
    years=["(?:im jahre?|seit) {year}"],
    ago=["vor {count} {unit}"],
    recent=["(?:(?:in|während) )?(?:den |der )?{last} {count} {unit}"],
    days_back={
        2: "{before_yesterday}",
        1: "{yesterday}(?: (?:früh|morgen|mittag|nachmittag|abend|nacht))?|letzte nacht",
        0: "{today}(?: (?:früh|morgen|mittag|nachmittag|abend))?",
    },
    last=["{last} {period}", "am {weekend}"],
    this=["{this} {period}"],
    ahead=["(?:{following}|jede[mnrs]?) {weekday}(?:abend|morgen|mittag|nachmittag)?"],
    weekday="(?:{last} )?{weekday}(?:abend|morgen|mittag|nachmittag)?",
)
FRENCH = TimePhrases(
    in_year=",? (?:de |d['’])?{year}",
    dates=["{day}(?:er)? {month}(?:{in_year})?"],
    months=["(?:en|depuis|au mois d[e'’]) ?{full_month}(?:{in_year})?", "{full_month}{in_year}"],
    years=["(?:en|depuis) {year}"],
    ago=["il y a {count} {unit}"],
    recent=["(?:ces |les )?{count} {last}s {unit}"],
    days_back={
        2: "{before_yesterday}",
        1: "{yesterday}(?: (?:soir|matin|après-midi))?|la nuit dernière",
        0: "{today}|ce (?:matin|soir)|cet après-midi",
    },
    last=["(?:l[ae'’] ?)?{period} {last}"],
    this=["{this} {period}"],
    ahead=["{weekday} {following}", "chaque {weekday}"],
    weekday="{weekday}(?: {last})?",
)
SPANISH = TimePhrases(
    in_year=",? (?:del? )?{year}",
    dates=["{day} de {month}(?:{in_year})?"],
    months=["en (?:el mes de )?{full_month}(?:{in_year})?", "{full_month}{in_year}"],
    years=["(?:en|desde) {year}"],
    ago=["hace {count} {unit}"],
    recent=["(?:l[oa]s )?últim[oa]s {count} {unit}"],
    days_back={
        2: "{before_yesterday}",
        1: "{yesterday}(?: por la (?:mañana|tarde|noche))?|anoche",
        0: "{today}|esta (?:mañana|tarde|noche)",
    },
    last=["(?:(?:el|la) )?{period} {last}", "el {weekend}(?! {following})"],
    this=["{this} {period}"],
    ahead=["{weekday} {following}", "(?:{following}|cada) {weekday}"],
    weekday="{weekday}(?: {last})?",
)
RUSSIAN = TimePhrases(
    in_year=",? {year}(?: года?)?",
    dates=["{day}(?:-го)? {month}(?:{in_year})?"],
    months=["в(?: {last})? {full_month}(?:{in_year})?", "{full_month}{in_year}"],
    years=["(?:в|с) {year} году?"],
    ago=["(?:{count} )?{unit} назад"],
    recent=[r"(?:за |в )?последн\w{2,3} {count} {unit}"],
    days_back={
        2: "{before_yesterday}",
        1: "{yesterday}(?: утром| днём| вечером)?|прошлой ночью",
        0: "{today}(?: утром| днём| вечером)?",
    },
    last=["(?:(?:на|в) )?{last} {period}", "(?:на|в) {weekend}"],
    this=["(?:(?:на|в) )?{this} {period}"],
    ahead=[r"(?:{following}|кажд\w{2}) {weekday}"],
    weekday="(?:{last} )?{weekday}",
)
ITALIAN = TimePhrases(
    in_year=",? (?:del? )?{year}",
    dates=["{day}[°º]? {month}(?:{in_year})?"],
    months=["(?:ad?|in|da|nel mese d[i'’]) ?{full_month}(?:{in_year})?", "{full_month}{in_year}"],
    years=["(?:nel|dal) {year}"],
    ago=["{count} {unit} fa"],
    recent=["(?:nell[ei] |negli |gli |le |i )?ultim[ie] {count} {unit}"],
    days_back={
        2: "{before_yesterday}",
        1: "{yesterday}(?: (?:sera|mattina|pomeriggio|notte))?|stanotte|la notte scorsa",
        0: "{today}|stamattina|stasera|questa (?:mattina|sera)|questo pomeriggio",
    },
    last=["(?:(?:il|la|lo|l['’]) ?)?{period} {last}", "nel {weekend}(?! {following})"],
    this=["{this} {period}"],
    ahead=["{weekday} {following}", "(?:{following}|ogni) {weekday}"],
    weekday="{weekday}(?: {last})?",
)
PORTUGUESE = TimePhrases(
    in_year=",? (?:de )?{year}",
    dates=["{day}[°º]? de {month}(?:{in_year})?"],
    months=["em (?:o mês de )?{full_month}(?:{in_year})?", "desde {full_month}(?:{in_year})?", "{full_month}{in_year}"],
    years=["(?:em|desde) {year}"],
    ago=["há {count} {unit}(?: atrás)?", "{count} {unit} atrás", "faz {count} {unit}"],
    recent=["(?:n?[oa]s )?últim[oa]s {count} {unit}"],
    days_back={
        2: "{before_yesterday}",
        1: "{yesterday}(?: (?:à|de|a) (?:noite|tarde|manhã))?|noite passada",
        0: "{today}|esta (?:manhã|tarde|noite)|hoje (?:de manhã|à tarde|à noite)",
    },
    last=["(?:n?[oa] )?{period} {last}", "n?o {weekend}(?! {following})"],
    this=["{this} {period}"],
    ahead=["{weekday} {following}", "(?:{following}|toda|todo|cada) {weekday}"],
    weekday="{weekday}(?: {last})?",
)
#: The morning, in languages whose word for it is also "tomorrow".
MORNINGS = {"de": "(?:guten|am|jeden|der|den|zum|nächsten) morgen", "es": "(?:por|de|en|a) la mañana"}
#: By language (ISO 639-1).
PHRASES: Mapping[str, TimePhrases] = {
    "en": ENGLISH,
    "de": GERMAN,
    "fr": FRENCH,
    "es": SPANISH,
    "it": ITALIAN,
    "pt": PORTUGUESE,
    "ru": RUSSIAN,
}
