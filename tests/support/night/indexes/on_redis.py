"""An index of made-up vectors on Redis."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from shared.config.settings import Settings
from shared.embedding.models import EmbeddingIdentity
from shared.release.manifest import REDIS, Manifest, seal
from shared.vectors.base import Corpus
from shared.vectors.redis.index import RedisBackend, RedisBuilder

DIMENSIONS = 8
IDENTITY = EmbeddingIdentity("made-up", DIMENSIONS, "", "", "test", "d1")


def vector_of(text: str) -> Any:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    made = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return made / np.linalg.norm(made)


def corpus_of(**counts: int) -> Corpus:
    """So many notes of each chat."""
    chats = {}
    for chat, count in counts.items():
        ids = [f"{chat}/{row}" for row in range(count)]
        chats[chat] = (ids, np.array([vector_of(one) for one in ids]))
    return Corpus(chats, {}, {chat: [1.7e9 + row for row in range(len(ids))] for chat, (ids, _) in chats.items()})


class Asked:
    """An embedder without a model."""

    identity = IDENTITY

    def embed_query(self, text: str) -> Any:
        return vector_of(text)

    def close(self) -> None:
        pass


def build(settings: Settings, root: Path, corpus: Corpus, run: int = 1) -> Path:
    """A built index, as the file that names it in a sealed release."""
    place = root / str(run) / REDIS
    place.parent.mkdir(parents=True)
    RedisBuilder(settings, run).build(place, corpus)
    seal(place.parent, Manifest(run, None, {}, 1, 1, "UTC", ["redis"], IDENTITY, 0, 0, 0, 0, {}))
    return place


def opened(settings: Settings, place: Path) -> RedisBackend:
    found = RedisBackend(settings, place.parent, IDENTITY)
    found.open()
    return found
