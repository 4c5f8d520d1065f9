"""The tokens of texts, as FTS5 makes them: what items and questions are compared by."""

from __future__ import annotations

import itertools
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from cachetools import LRUCache

from shared.ranking.scoring import Posting
from shared.text.format import storable
from shared.text.words.stemming import KEPT_WORDS
from shared.text.writing import MARKS, SIGNS, indexable, spaced

_TOKENISE = f"CREATE VIRTUAL TABLE texts USING fts5(body, content='', tokenize=\"porter unicode61 remove_diacritics 2 tokenchars '{SIGNS}'\")"
#: What parts tokens for unicode61: all that is no letter, no digit and no mark on one.
_NO_TOKEN = re.compile(rf"[^\w\u0300-\u036f{MARKS}]|_")
#: So few texts are put together from pieces that are known: of a day, two are new at a time.
FEW_TEXTS = 64


class Tokeniser:
    """FTS5's tokens of texts. May be used from several threads.

    A token never goes across white space, so the tokens of a text are those of its pieces; the pieces seen last are kept.
    """

    def __init__(self, *, on_disk: bool = True) -> None:
        # A nameless database lies in memory and moves to the disk if it grows large.
        name = "" if on_disk else ":memory:"
        self._connection = sqlite3.connect(name, check_same_thread=False, isolation_level=None)
        self._connection.execute(_TOKENISE)
        self._connection.execute("CREATE VIRTUAL TABLE tokens USING fts5vocab(texts, instance)")
        self._connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, row)")
        self._known: LRUCache[str, tuple[str, ...]] = LRUCache(KEPT_WORDS)
        self._lock = threading.Lock()

    def terms(self, text: str) -> list[str]:
        """The distinct tokens of one text, in their order."""
        with self._lock:
            return sorted({term for terms in self._pieces([text])[0] for term in terms})

    def in_order(self, texts: Sequence[str]) -> list[list[str]]:
        """The tokens of each text, in the order in which they stand there."""
        with self._lock:
            told = self._pieces([_NO_TOKEN.sub(" ", spaced(text)) for text in texts])
            return [list(itertools.chain.from_iterable(pieces)) for pieces in told]

    def postings(self, texts: Sequence[str]) -> Iterator[tuple[str, Posting]]:
        """Each token with the places, among these texts, where it stands."""
        with self._lock:
            if len(texts) <= FEW_TEXTS:
                yield from self._few(texts)
                return
            yield from self._many(texts)

    def _many(self, texts: Sequence[str]) -> Iterator[tuple[str, Posting]]:
        """In arrays of all terms together: the tokens lie in the order of the terms, those of a term in the order of the places."""
        self._index(texts)
        terms = self._connection.execute("SELECT term, cnt FROM terms").fetchall()
        places = np.fromiter(
            itertools.chain.from_iterable(self._connection.execute("SELECT doc FROM tokens")), np.int32
        )
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

    def _few(self, texts: Sequence[str]) -> Iterator[tuple[str, Posting]]:
        found: dict[str, Counter[int]] = {}
        for place, pieces in enumerate(self._pieces(texts)):
            for term in itertools.chain.from_iterable(pieces):
                found.setdefault(term, Counter())[place] += 1
        for term in sorted(found):
            counts = np.fromiter(found[term].values(), np.int64)
            yield term, (np.fromiter(found[term], np.int32), np.minimum(counts, 65535).astype(np.uint16))

    def _pieces(self, texts: Sequence[str]) -> list[list[tuple[str, ...]]]:
        """Of each text the tokens of each of its pieces."""
        pieces = [text.split() for text in texts]
        known = {piece: self._known.get(piece) for some in pieces for piece in some}
        new = [piece for piece, terms in known.items() if terms is None]
        made: dict[str, list[str]] = {piece: [] for piece in new}
        for term, place in self._tokens(new) if new else ():
            made[new[place]].append(term)
        tokens = {piece: tuple(made[piece]) if terms is None else terms for piece, terms in known.items()}
        self._known.update((piece, tokens[piece]) for piece in new)
        return [[tokens[piece] for piece in some] for some in pieces]

    def _tokens(self, texts: Sequence[str]) -> Iterator[tuple[str, int]]:
        """(token, place) for each token of each text; equal tokens follow each other."""
        self._index(texts)
        return self._connection.execute("SELECT term, doc FROM tokens")

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

    def close(self) -> None:
        with self._lock:
            self._known.clear()
            self._connection.close()
