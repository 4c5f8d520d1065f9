"""What `scripts/bench indexes` measures with: made-up turns, their vectors, and questions. All of it follows from the seed.

Few turns are sentences in words, embedded as real ones are. Embedding many would take hours and tell nothing about an index, so these are
seeded vectors that lie as those of texts do: around centres (topics, one for about 50 rows), each with a share of its own that lies mostly in
a few directions. Random vectors without neighbourhoods would be the hardest for an approximate search and like nothing that anybody says.

The vectors are one array in a file: chat after chat, of each chat first what it had and then what is new. So an index of the old turns and one
with the new ones are both made of slices of it, which no process has to copy.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shared.embedding.known_models import MINILM
from shared.embedding.models import Embedder
from shared.errors import EmbeddingError
from shared.vectors.base import Corpus

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: From so many rows on (old and new ones) vectors are seeded instead of embedded: 11,000 texts take about 75 s.
MOST_EMBEDDED = 11_000
EMBEDDED_AT_ONCE = 500
#: Rows that are made, and written, at once.
BLOCK_ROWS = 50_000
ROWS_A_TOPIC = 50
#: What a seeded vector has of its topic, and what a question has of the turn it is about; the rest is its own. Both as cosines.
OF_ITS_TOPIC, OF_ITS_TURN = 0.7, 0.75
#: Chats that are asked: what is warm is what was asked lately, and nobody talks in all chats at the same time.
CHATS_ASKED = 4
#: POSIX seconds of the first turn of every chat, and between two turns.
BEGUN, PAUSE_SECONDS = 1_700_000_000.0, 60.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Shape:
    """How many turns there are, how many come new, and in how many chats: all of one size, give or take one."""

    turns: int
    new: int
    chats: int
    dimensions: int

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
    kind: str  # "embedded" or "seeded"
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


class CorpusMaker:
    """Makes corpora of several sizes; texts of a smaller one are not embedded again for a larger one."""

    def __init__(self, folder: Path, embedder: Embedder | None, seed: int, say: Say) -> None:
        self._folder, self._embedder, self._seed, self._say = folder, embedder, seed, say
        self._sentences = sentences(seed)
        self.dimensions = embedder.identity.dimensions if embedder else MINILM.dimensions
        self._known: Vectors = np.empty((0, self.dimensions), np.float32)

    def make(self, turns: int, new: int, chats: int) -> MadeUp:
        shape = Shape(turns, new, chats, self.dimensions)
        if self._embedder is not None and shape.rows <= MOST_EMBEDDED:
            return self._embedded(shape, self._embedder)
        return self._seeded(shape)

    def _embedded(self, shape: Shape, embedder: Embedder) -> MadeUp:
        while len(self._known) < shape.rows:
            self._say(f"{shape.turns:,} turns: {len(self._known):,} of {shape.rows:,} sentences are embedded")
            count = min(EMBEDDED_AT_ONCE, shape.rows - len(self._known))
            made = embedder.embed_documents([next(self._sentences) for _ in range(count)])
            if made.refused:
                raise EmbeddingError(
                    f"The embedder refuses a sentence of the measurement: {next(iter(made.refused.values()))}. "
                    "Set EMBEDDER=local for the measurement."
                )
            self._known = np.concatenate([self._known, made.vectors])
        path = self._path(shape)
        np.save(path, self._known[: shape.rows])
        return MadeUp(shape, "embedded", path)

    def _seeded(self, shape: Shape) -> MadeUp:
        self._say(f"{shape.turns:,} turns: making {shape.rows:,} vectors")
        path = self._path(shape)
        file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(shape.rows, shape.dimensions))
        start = 0
        for block in clustered(shape.rows, shape.dimensions, self._seed):
            file[start : start + len(block)] = block
            start += len(block)
        file.flush()
        return MadeUp(shape, "seeded", path)

    def _path(self, shape: Shape) -> Path:
        return self._folder / f"vectors-{shape.turns}.npy"


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


NAMES = "Anna Ben Carla David Elif Farid Greta Hugo Ines Jonas Katya Leila Marco Nora Omar Petra Quentin Rosa Sami Tilda".split()
THINGS = """
    the boiler|a second-hand bicycle|the blue suitcase|two concert tickets|the tax papers|a birthday cake|the spare key|the old laptop|
    a pot of basil|the washing machine|the garden fence|a box of photographs|the train tickets|the electricity bill|a pair of hiking boots|
    the coffee grinder|the car insurance|a jar of honey|the router|a library book|the guitar strings|the vaccination card|a new mattress
"""
PLACES = """
    at the market|in the cellar|near the station|at grandmother's|in Lisbon|at the office|behind the school|by the lake|at the dentist's|
    in the kitchen|at the airport|in the new flat|next to the pharmacy|in the mountains|at the swimming pool|on the balcony|in the workshop
"""
TIMES = """
    yesterday|on Monday|last weekend|before breakfast|in the afternoon|next Thursday|at half past seven|since the holidays|on the 14th|
    after work|tonight|in early spring|every second Friday|in October|at the end of the month|during the storm|this morning
"""
PATTERNS = """
    {name} found {thing} {place} {time}.|I have to pick up {thing} {place} {time}, please remind me.|
    Why did {name} leave {thing} {place} {time}?|{thing} cost {number} euros {place}, {name} told me {time}.|
    {name} and {other} want to look at {thing} {place} {time}.|Do you remember who brought {thing} {place}? It was {time}, I think {name}.|
    {time} it rained so much that {name} forgot {thing} {place}.|Put {thing} on the list: {name} needs it {time} {place}.|
    {name} called {time}: {thing} is broken again and {other} will repair it {place} for {number} euros.|
    Room {number} {place} was too small for {name}, so {other} took {thing} home {time}.
"""


def sentences(seed: int) -> Iterator[str]:
    """Everyday sentences without end, no two the same."""
    chance, said = random.Random(seed), set[str]()
    things, places, times, patterns = (
        [one.strip() for one in words.split("|")] for words in (THINGS, PLACES, TIMES, PATTERNS)
    )
    while True:
        name, other = chance.sample(NAMES, 2)
        parts = {"thing": chance.choice(things), "place": chance.choice(places), "time": chance.choice(times)}
        text = chance.choice(patterns).format(name=name, other=other, number=chance.randrange(2, 400), **parts)
        if text not in said:
            said.add(text)
            yield text[0].upper() + text[1:]
