"""What a text is found by: its distinct words, folded and stemmed, the same on every engine.

SQLite's and PostgreSQL's own tokenisers disagree (accents, stems, what a word is), so the words are made here, stored beside the text,
and both engines index them as they are. The first of them is the chat's mark: a search asks for it together with the words, so that no engine
walks through what other chats said. Isolation does not rest on it: every query names the chat id too.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from shared.text.caches import cached
from shared.text.stemming import KEPT_WORDS, stem

#: Longest word that is told apart, in characters, and the most characters of words that a text is found by
#: (PostgreSQL takes 1 MB of them, and a character has up to 4 bytes).
_WORD_LENGTH = 64
_TEXT_LENGTH = 100_000
#: Words of a question that are looked up.
_QUERY_WORDS = 32

#: Letters and digits, with the marks that stand on them.
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """The text as every engine takes it: NUL and lone surrogates become U+FFFD. (The archive keeps what was really said.)"""
    return _UNSTORABLE.sub("\ufffd", text)


def chat_mark(chat_id: str) -> str:
    """A word of 16 hex digits that stands for the chat."""
    return hashlib.sha256(chat_id.encode("utf-8")).hexdigest()[:16]


def words_of(text: str) -> list[str]:
    """The distinct words in order of appearance: case and accents folded, English and Russian ones stemmed."""
    folded = unicodedata.normalize("NFKC", text[:_TEXT_LENGTH]).casefold()
    return list(dict.fromkeys(filter(None, map(_form, _WORD.findall(folded)))))


def query_words(text: str) -> list[str]:
    """The words of a question that are looked up: the first 32."""
    return words_of(text)[:_QUERY_WORDS]


def indexed_words(chat_id: str, text: str) -> str:
    """What the `words` column holds: the chat's mark and the text's words, one space between."""
    words, left = [chat_mark(chat_id)], _TEXT_LENGTH
    for word in words_of(text):
        left -= len(word) + 1
        if left < 0:
            break
        words.append(word)
    return " ".join(words)


@cached(KEPT_WORDS)
def _form(word: str) -> str:
    """What a word is found by. May be called from several threads: each call has its own stemmer."""
    from snowballstemmer.english_stemmer import EnglishStemmer

    word = word[:_WORD_LENGTH]
    if _CYRILLIC.match(word):
        return stem(word)
    plain = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    return str(EnglishStemmer().stemWord(plain)) or plain
