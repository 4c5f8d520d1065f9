"""Russian words to their stems, ahead of FTS5, whose own stemmer (porter) knows English only. Pure functions.

Items and questions go through the same function. A text without Cyrillic letters comes back as it is, so that nothing changes for English.
Words of other languages in Cyrillic (Ukrainian, Bulgarian) lose the same endings on both sides: that finds more than whole words would.
The stems are those of Snowball (Porter, 2001); they hold for one major version of the library, and a release is built by one.
"""

from __future__ import annotations

import re
import unicodedata

from shared.text.caches import cached

#: Words whose stems are kept, 6 MB at most: a known one takes half a microsecond, a new one 20 to 60.
KEPT_WORDS = 20_000

#: A run of Cyrillic letters, with the marks that may stand on them: a stress mark, or the breve of a decomposed й.
_WORD = re.compile(r"[\u0400-\u04ff][\u0300-\u036f\u0400-\u04ff]*")
_MARKS = re.compile(r"[\u0300-\u036f]")


def stemmed(text: str) -> str:
    """The text with each Cyrillic word as its Russian stem, in lower case and with е for ё; other characters stay as they are."""
    return _WORD.sub(lambda word: stem(word[0]), text)


@cached(KEPT_WORDS)
def stem(word: str) -> str:
    """The Russian stem of one word in Cyrillic. May be called from several threads: the library's stemmers hold a word, so each call has its own."""
    # The class itself: PyStemmer, which the library prefers where it is installed, may have other stems.
    from snowballstemmer.russian_stemmer import RussianStemmer

    plain = _MARKS.sub("", unicodedata.normalize("NFC", word)).lower().replace("ё", "е")
    found: str = RussianStemmer().stemWord(plain)
    return found or plain


#: Letters that two words must begin with to pass for forms of one word where only English and Russian are stemmed, and their share of the shorter:
#: "alergia" and "alergico", "Zahnarzt" and "Zahnarzttermin", not "Gewicht" and "Gewinn".
COMMON_LETTERS, COMMON_SHARE, LONG_BEGINNING = 5, 0.7, 7


def alike(one: str, other: str) -> bool:
    """Whether two terms may be forms of one word: a common beginning that is most of the shorter."""
    shorter = min(len(one), len(other))
    common = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    return common >= min(LONG_BEGINNING, max(COMMON_LETTERS, COMMON_SHARE * shorter))
