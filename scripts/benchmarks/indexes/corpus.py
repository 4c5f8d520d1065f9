"""What `scripts/bench indexes` measures with: vectors of made-up turns, and questions. All of it follows from the seed.

They are seeded vectors that lie as those of texts do: around centres (topics, one for about 50 rows), each with a share of its own that lies mostly
in a few directions. Random vectors without neighbourhoods would be the hardest for an approximate search and like nothing that anybody says.

The vectors are one array in a file: chat after chat, of each chat first what it had and then what is new. So an index of the old turns and one
with the new ones are both made of slices of it, which no process has to copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shared.embedding.known_models import MINILM
from shared.vectors.base import Corpus

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: Rows that are made, and written, at once.
BLOCK_ROWS = 50_000
ROWS_A_TOPIC = 50
#: What a seeded vector has of its topic, and what a question has of the turn it is about; the rest is its own. Both as cosines.
OF_ITS_TOPIC, OF_ITS_TURN = 0.7, 0.75
#: Chats that are asked: what is warm is what was asked lately, and nobody talks in all chats at the same time.
CHATS_ASKED = 4
#: POSIX seconds of the first turn of every chat, and between two turns.
BEGUN, PAUSE_SECONDS = 1_700_000_000.0, 60.0


@dataclass(frozen=True)
class Shape:
    """How many turns there are, how many come new, and in how many chats: all of one size, give or take one."""

    turns: int
    new: int
    chats: int
    dimensions: int = MINILM.dimensions

    @property
    def rows(self) -> int:
        return self.turns + self.new

    def old_rows(self, chat: int) -> range:
        """The rows of a chat without the new ones."""
        start = self._before(chat, self.turns) + self._before(chat, self.new)
        return range(start, start + self._share(chat, self.turns))

    def all_rows(self, chat: int) -> range:
        start = self.old_rows(chat).start
        return range(start, start + self._share(chat, self.turns) + self._share(chat, self.new))

    def ids(self, chat: int, *, grown: bool) -> tuple[str, ...]:
        rows = self.all_rows(chat) if grown else self.old_rows(chat)
        return tuple(f"t{chat}-{number}:user#1" for number in range(len(rows)))

    def corpus(self, vectors: Vectors, *, grown: bool) -> Corpus:
        """What an index is built from; `grown`: with the new turns."""
        chats, said_at = {}, {}
        for chat in range(self.chats):
            rows = self.all_rows(chat) if grown else self.old_rows(chat)
            chats[chat_id(chat)] = (self.ids(chat, grown=grown), vectors[rows.start : rows.stop])
            said_at[chat_id(chat)] = [BEGUN + PAUSE_SECONDS * number for number in range(len(rows))]
        return Corpus(chats, said_at=said_at)

    def _share(self, chat: int, of: int) -> int:
        return of // self.chats + (chat < of % self.chats)

    def _before(self, chat: int, of: int) -> int:
        return chat * (of // self.chats) + min(chat, of % self.chats)


def chat_id(chat: int) -> str:
    return f"chat-{chat}"


@dataclass(frozen=True)
class Questions:
    """`chats[n]` is asked for `vectors[n]`; the questions to a chat come one after the other, as in a conversation."""

    chats: list[int]
    vectors: Vectors


@dataclass(frozen=True)
class MadeUp:
    """One size of corpus, in a file."""

    shape: Shape
    path: Path

    @cached_property
    def vectors(self) -> Vectors:
        return read_vectors(self.path)

    def questions(self, count: int, seed: int) -> Questions:
        """Each is about one turn: its vector, turned away from it."""
        chance = np.random.default_rng([seed, 2])
        step = -(-self.shape.chats // CHATS_ASKED)
        asked = range(0, self.shape.chats, step)
        chats = sorted(asked[number % len(asked)] for number in range(count))
        about = np.array([self.vectors[chance.choice(self.shape.old_rows(chat))] for chat in chats])
        return Questions(chats, _between(about, _noise(chance, count, self.shape.dimensions), OF_ITS_TURN))


def read_vectors(path: Path) -> Vectors:
    """Mapped into memory: what is not looked at is not read."""
    return np.asarray(np.load(path, mmap_mode="r"))


def make(folder: Path, shape: Shape, seed: int) -> MadeUp:
    """A corpus of this shape, in a file of the folder."""
    path = folder / f"vectors-{shape.turns}.npy"
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(shape.rows, shape.dimensions))
    start = 0
    for block in clustered(shape.rows, shape.dimensions, seed):
        file[start : start + len(block)] = block
        start += len(block)
    file.flush()
    return MadeUp(shape, path)


def clustered(rows: int, dimensions: int, seed: int) -> Iterator[Vectors]:
    """Unit vectors around centres, in blocks."""
    chance = np.random.default_rng([seed, 1])
    centres = _noise(chance, max(1, rows // ROWS_A_TOPIC), dimensions)
    for start in range(0, rows, BLOCK_ROWS):
        count = min(BLOCK_ROWS, rows - start)
        topics = centres[chance.integers(len(centres), size=count)]
        yield _between(topics, _noise(chance, count, dimensions), OF_ITS_TOPIC)


def _noise(chance: np.random.Generator, rows: int, dimensions: int) -> Vectors:
    """Unit vectors whose length is mostly in the first directions, as with those of texts."""
    spread = (1 / np.sqrt(1 + np.arange(dimensions) / 16)).astype(np.float32)
    return _unit(chance.standard_normal((rows, dimensions), dtype=np.float32) * spread)


def _between(near: Vectors, other: Vectors, cosine: float) -> Vectors:
    """Unit vectors about this near to the first ones."""
    return _unit(np.float32(cosine) * near + np.float32((1 - cosine**2) ** 0.5) * other)


def _unit(vectors: Vectors) -> Vectors:
    made: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made
