"""Words to their stems, by Snowball (Porter, 2001). FTS5's own stemmer (porter) knows English only. Pure functions.

Where the script shows the language (Cyrillic: Russian, Greek, Arabic, Devanagari: Hindi, Armenian, Tamil), items and questions are stemmed ahead
of FTS5, by the same functions; words of other languages in these scripts (Ukrainian, Persian) lose the same endings on both sides, which finds
more than whole words would. These stems are in a release: they hold for one major version of the library. In Latin letters the same word may be
of several languages, so the index has the English form, and a question's word is met by the chat's words that have its stem in the question's
language (shared/search/word_lookup.py).
"""

from __future__ import annotations

import re
import unicodedata
from importlib import import_module

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
    return stem_in("russian", _MARKS.sub("", unicodedata.normalize("NFC", word)).lower().replace("ё", "е"))


#: A run of letters of a script, with the name of its stemmer: the name of the module and its class, as snowballstemmer has them.
_OF_SCRIPT = re.compile(
    "(?P<greek>[\u0370-\u03ff\u1f00-\u1fff]+)|(?P<arabic>[\u0620-\u064a\u066e-\u06d3\u06fa-\u06ff]+)|(?P<hindi>[\u0900-\u0963\u0971-\u097f]+)"
    "|(?P<armenian>[\u0531-\u0587]+)|(?P<tamil>[\u0b80-\u0be3]+)"
)


def stem_of_script(text: str) -> str:
    """The text with each word of another script whose language it shows as its stem; other characters stay as they are."""
    return _OF_SCRIPT.sub(lambda word: stem_in(str(word.lastgroup), word[0].lower()), text)


@cached(KEPT_WORDS)
def stem_in(language: str, word: str) -> str:
    """The stem of a word in lower case, in a language as snowballstemmer names it ("german"); the word if nothing would be left of it."""
    # The class itself: PyStemmer, which the library prefers where it is installed, may have other stems.
    module = import_module(f"snowballstemmer.{language}_stemmer")
    found: str = getattr(module, f"{language.title()}Stemmer")().stemWord(word)
    return found or word
