"""The tokens of texts, as FTS5 makes them: what items and questions are compared by."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from shared.ranking.question import query_terms
from shared.text.caches import cached
from shared.text.format import storable
from shared.text.writing import SIGNS, indexable

if TYPE_CHECKING:
    from shared.ranking.scoring import Posting

_TABLES = f"""
CREATE VIRTUAL TABLE texts USING fts5(body, content='', tokenize="porter unicode61 remove_diacritics 2 tokenchars '{SIGNS}'");
CREATE VIRTUAL TABLE tokens USING fts5vocab(texts, instance);
CREATE VIRTUAL TABLE terms USING fts5vocab(texts, row);
"""


class Tokeniser:
    """FTS5's tokens of texts. May be used from several threads; closed when nobody holds it any more."""

    def __init__(self) -> None:
        # A nameless database lies in memory and moves to the disk if it grows large.
        self._connection = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._connection.executescript(_TABLES)
        self._lock = threading.Lock()
        weakref.finalize(self, self._connection.close)

    def terms(self, text: str) -> list[str]:
        """The distinct tokens of one text, in their order."""
        with self._lock:
            self._index([text])
            return [term for (term,) in self._connection.execute("SELECT term FROM terms")]

    def in_order(self, texts: Sequence[str]) -> list[list[str]]:
        """The tokens of each text, in the order in which they stand there."""
        found: list[list[str]] = [[] for _ in texts]
        with self._lock:
            self._index(texts)
            for term, place in self._connection.execute("SELECT term, doc FROM tokens ORDER BY doc, offset"):
                found[place].append(term)
        return found

    def postings(self, texts: Sequence[str]) -> Iterator[tuple[str, Posting]]:
        """Each token with the places, among these texts, where it stands.

        In arrays of all terms together: the tokens lie in the order of the terms, those of a term in the order of the places.
        """
        import numpy as np  # late: it is slow to load

        with self._lock:
            self._index(texts)
            terms = self._connection.execute("SELECT term, cnt FROM terms").fetchall()
            tokens = self._connection.execute("SELECT doc FROM tokens")
            places = np.fromiter(itertools.chain.from_iterable(tokens), np.int32)
        ends = np.cumsum([count for _, count in terms], dtype=np.intp)
        first = np.ones(len(places), bool)  # of a place that a term stands in
        first[1:] = places[1:] != places[:-1]
        first[ends[:-1]] = True
        starts = np.flatnonzero(first)
        ordinals = places[starts]
        counts = np.minimum(np.diff(starts, append=len(places)), 65535).astype(np.uint16)
        start = 0
        for (term, _), end in zip(terms, np.searchsorted(starts, ends).tolist(), strict=True):
            yield term, (ordinals[start:end], counts[start:end])
            start = end

    def _index(self, texts: Sequence[str]) -> None:
        """Have these texts, and no others, in the table of tokens."""
        self._connection.execute("INSERT INTO texts (texts) VALUES ('delete-all')")
        bodies = (indexable(storable(text)) for text in texts)
        self._connection.execute("BEGIN")
        try:
            self._connection.executemany("INSERT INTO texts (rowid, body) VALUES (?,?)", enumerate(bodies))
        except BaseException:
            self._connection.execute("ROLLBACK")  # else no later text could be read
            raise
        self._connection.execute("COMMIT")


@cached(1)
def _of_questions() -> Tokeniser:
    """One for all questions: it holds the last one, so a forgetting drops it."""
    return Tokeniser()


def question_terms(words: Iterable[str]) -> list[str]:
    """What is looked for, given the words of a question: tokenised like the items."""
    return _of_questions().terms(" ".join(query_terms(words)))
