"""Text as the index has it: words that are written without blanks as pairs of characters, letters folded, words of some scripts as stems.

Pure functions, for items and questions alike; FTS5 makes tokens of what they return (shared/search/chat_items.py). ASCII comes back as it is, so
that nothing changes for English.

Chinese, Japanese, Thai, Lao, Khmer and Burmese are written without blanks between words, and Korean words carry their particles: their overlapping
pairs of characters are terms, which needs no dictionary (McNamee and Mayfield, 2004, "Character n-gram tokenization"). A character that stands
alone is a term of its own. A character has its vowel signs and tone marks with it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby, islice, pairwise
from typing import Literal

from shared.text.caches import cached
from shared.text.words.stemming import KEPT_WORDS, stem_of_script, stemmed

#: Letters by script, without digits and punctuation.
_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HANGUL = "\uac00-\ud7a3"
_THAI_AND_LAO = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
_BURMESE = "\u1000-\u103f\u1050-\u108f\u109a-\u109d"
_KHMER = "\u1780-\u17d3\u17d7\u17dc\u17dd"
UNSPACED = _HAN + _KANA + _HANGUL + _THAI_AND_LAO + _BURMESE + _KHMER


def _marks(*ranges: tuple[int, int]) -> str:
    """The signs in these ranges that belong to the letter before them."""
    letters = (chr(code) for first, last in ranges for code in range(first, last + 1))
    return "".join(one for one in letters if unicodedata.category(one).startswith("M"))


#: Vowel signs and the like, which FTS5 takes for punctuation: of India's scripts, Thai and Lao, Burmese, Khmer.
SIGNS = _marks((0x0900, 0x0DFF), (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17D3), (0x17DD, 0x17DD))

#: Signs that put the next consonant under this one.
_STACKING = "\u1039\u17d2"

_RUN = re.compile(f"[{UNSPACED}]+")
_CHARACTER = re.compile(f"[^{SIGNS}](?:[{_STACKING}].|[{SIGNS}])*|[{SIGNS}]+")
#: Combining marks in a row that no text of any language exceeds (UAX #15, stream-safe format), and what may be more of them.
MOST_MARKS = 30
_MANY_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{MOST_MARKS + 1},}}")
#: Full-width and half-width forms, ligatures.
_COMPATIBLE = re.compile("[\uff01-\uffee\ufb00-\ufb06\u3300-\u33ff]+")
#: Points, vowel signs and lengthening strokes that hardly anybody types: Hebrew, Arabic.
_POINTS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed]"
)
#: What may be a code point without a character, which FTS5 takes for a letter, and Python does not.
_NO_LETTER = re.compile(r"[^\w\s\x00-\x7f]")
#: Letters that no decomposition folds.
_FOLDED = str.maketrans(
    {"ß": "ss", "ẞ": "ss", "ı": "i", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D",
     "ł": "l", "Ł": "L", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ħ": "h", "Ħ": "H"}
)  # fmt: skip


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """unicodedata.normalize in linear time: of more than `MOST_MARKS` combining marks in a row, which it sorts in quadratic time, the first ones."""
    if len(text) > MOST_MARKS:
        text = _MANY_MARKS.sub(_fewer_marks, text)
    return unicodedata.normalize(form, text)


def _fewer_marks(run: re.Match[str]) -> str:
    groups = groupby(run[0], key=lambda one: unicodedata.combining(one) > 0)
    return "".join("".join(islice(some, MOST_MARKS) if are_marks else some) for are_marks, some in groups)


def indexable(text: str) -> str:
    """What FTS5 is given: `spaced`, letters folded, and stems of the scripts whose language is known by them."""
    if text.isascii():
        return text
    return stem_of_script(stemmed(spaced(text).translate(_FOLDED)))


def spaced(text: str) -> str:
    """The text with what is written without blanks as pairs of characters, with a blank between; the same again if it is given that.

    Characters are composed (NFC), full-width forms are ordinary ones, and Hebrew and Arabic points are left out. A code point that is not assigned,
    or for private use, is a blank.
    """
    if text.isascii():
        return text
    text = _NO_LETTER.sub(lambda found: " " if unicodedata.category(found[0]) in ("Cn", "Co") else found[0], text)
    text = _COMPATIBLE.sub(lambda found: normalized("NFKC", found[0]), normalized("NFC", text))
    return _RUN.sub(_paired, _POINTS.sub("", text))


def _paired(run: re.Match[str]) -> str:
    return f" {' '.join(pairs(run[0]))} "


def pairs(run: str) -> Iterator[str]:
    """Overlapping pairs of the characters of a run; of a single one that."""
    characters = _CHARACTER.findall(run)
    if len(characters) == 1:
        yield run
    for one, other in pairwise(characters):
        yield one + other


def is_unspaced(word: str) -> bool:
    """Whether a word is of a script that is written without blanks."""
    return not word.isascii() and _RUN.match(word) is not None


@cached(KEPT_WORDS)
def folded(word: str) -> str:
    """A word in lower case without accents, as the index folds it."""
    apart = normalized("NFKD", word.lower().translate(_FOLDED))
    return "".join(one for one in apart if not unicodedata.combining(one))
