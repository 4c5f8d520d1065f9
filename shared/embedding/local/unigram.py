"""The tokeniser of multilingual-e5-small: SentencePiece's Unigram (Kudo, ACL 2018) over a trie that stays on the disk.

The pieces of a text are those whose log probabilities add up to the most, found by Viterbi's algorithm. 250,000 pieces take 2 MB of memory here,
55 MB in the library `sentencepiece` and 280 MB in `tokenizers`; a chunk takes about a millisecond.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import orjson

#: Files: the pieces; beside each its id and log probability, in the trie's order; and what each character is replaced by.
TRIE, PIECES, CHARACTERS = "pieces.marisa", "pieces.npy", "characters.json"
#: What marks the beginning of a word.
WORD = "▁"
BEGIN, END, UNKNOWN = 0, 2, 3
#: No piece is longer, in characters.
LONGEST = 16
#: An unknown character is so much less likely than the rarest piece.
UNKNOWN_PENALTY = 10.0
PIECE = np.dtype([("id", "<i4"), ("score", "<f4")])


class Unigram:
    """Thread-safe. OSError, RuntimeError or ValueError if a file is missing or damaged."""

    def __init__(self, folder: Path) -> None:
        import marisa_trie

        self._trie: Any = marisa_trie.Trie()
        self._trie.mmap(str(folder / TRIE))
        pieces = np.load(folder / PIECES, mmap_mode="r")
        self._ids, self._scores = memoryview(pieces["id"].copy()), memoryview(pieces["score"].copy())
        self._unknown = float(pieces["score"].min()) - UNKNOWN_PENALTY
        replaced = orjson.loads((folder / CHARACTERS).read_bytes())
        self._characters = {int(code): text for code, text in replaced.items()}

    def token_ids(self, text: str, most: int) -> list[int]:
        """The first `most` tokens of a text, its marks of beginning and end included."""
        return [BEGIN, *self._pieces(self._normalised(text[: most * LONGEST]))[: most - 2], END]

    def _normalised(self, text: str) -> str:
        """As SentencePiece's `nmt_nfkc` does it, with every space as the mark of a word."""
        plain = unicodedata.normalize("NFC", text).translate(self._characters)
        return WORD + re.sub(" +", WORD, plain.lstrip(" "))

    def _pieces(self, text: str) -> list[int]:
        trie, ids, scores, unknown = self._trie, self._ids, self._scores, self._unknown
        best = [0.0, *[-np.inf] * len(text)]
        last = [(UNKNOWN, 0)] * (len(text) + 1)  # the last piece of the best way to here, and where it begins
        for start in range(len(text)):
            so_far = best[start]
            if so_far + unknown > best[start + 1]:
                best[start + 1], last[start + 1] = so_far + unknown, (UNKNOWN, start)
            for piece in trie.prefixes(text[start : start + LONGEST]):
                number, end = trie[piece], start + len(piece)
                if so_far + scores[number] > best[end]:
                    best[end], last[end] = so_far + scores[number], (ids[number], start)
        found, end = [], len(text)
        while end:
            token, end = last[end]
            found.append(token)
        return found[::-1]
