"""The words around a time of day: those that only lead to it (`à`, `kl.`, `um`), and those that say in which half of the day it is.

The halves are those of the Unicode CLDR (cldr.unicode.org, day periods). A word that is neither is never passed over: the time could be wrong by
twelve hours.
"""

from __future__ import annotations

from enum import Enum

#: The longest run of words that is looked at.
MOST_CHARACTERS = 40

_LEADING = frozenset(
    "à às as alas ales les las alle alleore ore orele la um at om kl klo klokken kell klukkan plkst o ob u v w в во у о pukul jam saat lúc nang "
    "στις τις ved".split()
)
#: `23:59 Uhr`
_FOLLOWING = frozenset(("uhr", "น"))


class Half(Enum):
    MORNING = "morning"
    NOON = "noon"
    AFTERNOON = "afternoon"
    EVENING = "evening"
    NIGHT = "night"


#: As `_plain` has them: without dots and blanks, in lower case.
_MORNING = (
    "am vm vorm vormittags fm fh de dop dopoledne prijepodne dopoldne priešpiet priekšp priekšpusdienā ek ap πμ öö pg sa pd eparadites paradites to "
    "damanhã manhã проб претпл преподне prepodne дп ص صباحا صباحًا قظ قبلازظهر לפנהצ पूर्वाह्न முப முற்பகல் පෙව ಪೂರ್ವಾಹ್ನ ਪੂਦੁ ก่อนเที่ยง կա үө ጥዋት "
    "上午 午前 오전 早上 清晨 凌晨"
).split()
_AFTERNOON = (
    "pm nm nachm nachmittags em eh du odp odpoledne pop popodne poslijepodne popoldne popiet pēcp pēcpusdienā pk ip μμ ös ptg ch md epasdites "
    "pasdites tk datarde tarde слоб попл поподне пп م مساء مساءً بظ بعدازظهر אחהצ अपराह्न பிப பிற்பகல் පව ಅಪರಾಹ್ನ ਬਾਦੁ หลังเที่ยง կհ үх ከሰዓት "
    "下午 午後 오후 傍晚"
).split()
_HALVES = {
    **dict.fromkeys(_MORNING, Half.MORNING),
    **dict.fromkeys(_AFTERNOON, Half.AFTERNOON),
    **dict.fromkeys(("中午", "正午"), Half.NOON),
    **dict.fromkeys(("晚上", "晚間", "晚间"), Half.EVENING),
    **dict.fromkeys(("半夜", "深夜", "午夜"), Half.NIGHT),
}
#: Signs of abbreviation and blanks, which are written or not.
_SIGNS = dict.fromkeys(map(ord, " .,،'’\"״\u05f4\u05f3\u200c"))


def half_of(words: str, *, behind: bool = False) -> Half | str | None:
    """What stands between date and time, or behind the time: a half of the day, None if it says nothing of it, or the words themselves if they are
    not known."""
    parts = words.split()
    for first in range(len(parts) + 1):
        lead, half = _plain("".join(parts[:first])), _plain("".join(parts[first:]))
        if (not lead or (lead in _LEADING and not behind)) and (not half or half in _HALVES):
            return _HALVES.get(half)
    return None if behind and _plain(words) in _FOLLOWING else words.strip()


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
