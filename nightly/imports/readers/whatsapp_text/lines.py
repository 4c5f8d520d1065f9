"""The lines of a WhatsApp export: which of them begin a message, and when that was."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

WORDS = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))
#: Marks of the direction of writing, which WhatsApp puts around dates, names, numbers and notices.
MARKS = "\u200e\u200f\u061c\u202a\u202b\u202c\u2066\u2067\u2068\u2069\ufeff"
#: The first year of WhatsApp. An earlier one is of another calendar.
_FIRST_YEAR = 2009
#: Thailand writes the years of the Buddhist era.
BUDDHIST_YEARS, _BUDDHIST_AHEAD = range(2400, 2701), 543

_DATE = r"(?P<date>\d{1,4}(?:[-/.][ ]?|年[ ]?|년[ ]?)\d{1,2}(?:[-/.][ ]?|月[ ]?|월[ ]?)\d{1,4})(?:[日일]|\.(?=[ ]))?"
#: The longest run of words around a time that is looked at.
MOST_CHARACTERS = 40
#: Words with neither digits nor what separates a name.
_WORDS = rf"[^\d:\[\]\n]{{0,{MOST_CHARACTERS}}}?"
_TIME = rf"(?P<ahead>{_WORDS})[ ]?(?P<time>\d{{1,2}}[:.]\d{{2}}(?:[:.]\d{{2}})?)(?P<behind>{_WORDS})"
_HEAD, _WEB_HEAD = re.compile(rf"{_DATE}[,،]?[ ]?{_TIME}"), re.compile(rf"{_TIME}[,،][ ]?{_DATE}")
#: What ends a head, and how far from its beginning that may be.
_ANDROID_END, _MOST_HEAD = re.compile(r" [-–] "), 120
_SENDER = re.compile(r"(?P<sender>[^:\n]{1,120}?)[ ]?:(?:[ ](?P<text>.*)|\Z)", re.DOTALL)
#: WhatsApp puts a group's new name between two of them, in whatever language.
QUOTE = re.compile('["“”„‟«»‹›「」『』״\uff02]')
_BLANKS = str.maketrans({"\u202f": " ", "\u00a0": " "})
_UNMARKED = str.maketrans(dict.fromkeys(MARKS))
_APART = re.compile(r"[-/.年月년월 ]+")


@dataclass(frozen=True)
class Head:
    """The first line of a message. `numbers`: of its date, as they are written; `dotted`: with dots between; `clock`: None if there is no such time;
    `sender`: None for a notice; `ios`: whether an iPhone wrote it; `web`: whether its time stands first, as in what is copied from WhatsApp Web;
    `cut`: whether the colon behind the sender stands in a quote, as in a notice of a name: `Ann changed the subject to "A: b"`."""

    numbers: tuple[str, str, str]
    dotted: bool
    clock: tuple[int, int, int] | None
    sender: str | None
    text: str
    ios: bool
    web: bool
    cut: bool

    def moment(self, order: tuple[int, int, int]) -> datetime | None:
        """The local time, if year, month and day stand in this order; None if they cannot."""
        year, month, day = (self.numbers[at] for at in order)
        if self.clock is None or len(year) not in (2, 4) or len(month) > 2 or len(day) > 2:
            return None
        whole = int(year) + (2000 if len(year) == 2 else 0)
        whole -= _BUDDHIST_AHEAD if whole in BUDDHIST_YEARS else 0
        try:
            local = datetime(whole, int(month), int(day), *self.clock)  # noqa: DTZ001 - local: the file names no zone
        except ValueError:
            return None
        return local if whole >= _FIRST_YEAR else None

    @property
    def buddhist(self) -> bool:
        return any(len(number) == 4 and int(number) in BUDDHIST_YEARS for number in self.numbers)


@dataclass(frozen=True)
class UnknownWords:
    """Of a line that would be a head, if it were known what these words between date and time mean, or behind the time."""

    words: str
    web: bool


def head_of(line: str) -> Head | UnknownWords | None:
    """The head of a message; None for a line that goes on with one."""
    split = _split(line)
    if split is None:
        return None
    found, web = _HEAD.fullmatch(split[0]), None
    if found is None and split[2]:
        found = web = _WEB_HEAD.fullmatch(split[0])
    if found is None:
        return None
    halves = [half_of(found["ahead"]), half_of(found["behind"], behind=True)]
    unknown = next((half for half in halves if isinstance(half, str)), None)
    said = _SENDER.match(split[1].lstrip(MARKS))
    if unknown is not None:
        return UnknownWords(unknown, web is not None) if said else None
    first, second, third = _APART.split(found["date"])
    sender = said["sender"].strip(MARKS + "~ ") if said else ""
    text = (said["text"] or "") if said else split[1]
    half = next((half for half in halves if isinstance(half, Half)), None)
    dotted, clock = "." in found["date"], _clock(found["time"], half)
    cut = all(sum(1 for _ in QUOTE.finditer(part)) % 2 for part in (sender, text))
    return Head((first, second, third), dotted, clock, sender or None, text, split[2], web is not None, cut)


def _split(line: str) -> tuple[str, str, bool] | None:
    """(date and time without marks, what follows, whether it is as an iPhone writes it), if the line may begin a message."""
    bare = line.lstrip(MARKS)
    if bare.startswith("["):
        end = bare.find("]", 0, _MOST_HEAD)
        rest = bare[end + 1 :].translate(_BLANKS).lstrip(MARKS)
        return (_unmarked(bare[1:end]), rest[1:], True) if end > 0 and rest.startswith(" ") else None
    if not bare[:1].isdigit():
        return None
    begun = bare[:_MOST_HEAD].translate(_BLANKS)
    ends = _ANDROID_END.search(begun)
    return (_unmarked(begun[: ends.start()]), bare[ends.end() :].translate(_BLANKS), False) if ends else None


def _unmarked(head: str) -> str:
    return head.translate(_BLANKS).translate(_UNMARKED).strip()


def _clock(written: str, half: Half | None) -> tuple[int, int, int] | None:
    hour, minute, *rest = (int(number) for number in re.split("[:.]", written))
    whole, second = hour_of(hour, half), rest[0] if rest else 0
    return None if whole is None or minute > 59 or second > 59 else (whole, minute, second)


# ── The words around a time of day.


Half = Enum("Half", "MORNING NOON AFTERNOON EVENING NIGHT")
_HALVES = {word: Half[half.upper()] for half, words in WORDS["halves"].items() for word in words}
#: Signs of abbreviation and blanks, which are written or not.
_SIGNS = dict.fromkeys(map(ord, " .,،'’\"״\u05f4\u05f3\u200c"))


def half_of(words: str, *, behind: bool = False) -> Half | str | None:
    """What stands between date and time, or behind the time: a half of the day, None if it says nothing of it, or the words themselves if they are
    not known."""
    parts = words.split()
    for first in range(len(parts) + 1):
        lead, half = _plain("".join(parts[:first])), _plain("".join(parts[first:]))
        if (not lead or (lead in WORDS["leading"] and not behind)) and (not half or half in _HALVES):
            return _HALVES.get(half)
    return None if behind and _plain(words) in WORDS["following"] else words.strip()


def hour_of(hour: int, half: Half | None) -> int | None:
    """Of 24; None if there is no such hour in that half of the day. Japanese counts a half from 0, the others from 12."""
    if half is None:
        return hour if hour < 24 else None
    if hour > 12 or (half is Half.EVENING and hour == 12):  # whether that is noon or midnight
        return None
    if half is Half.NOON:
        return hour if hour > 9 else hour + 12
    if half is Half.NIGHT:
        return hour % 12 if hour % 12 < 6 else hour + 12
    return hour % 12 if half is Half.MORNING else hour % 12 + 12


def _plain(words: str) -> str:
    return words.casefold().translate(_SIGNS)
