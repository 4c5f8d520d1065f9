"""An index of made-up vectors on Redis."""

from __future__ import annotations

from pathlib import Path

from shared.config.kinds import place_of
from shared.config.settings import Settings
from shared.release.manifest import Manifest, seal
from shared.vectors.base import Corpus
from shared.vectors.redis.index import RedisBackend, RedisBuilder
from tests.support.night import index_world
from tests.support.night.index_world import IDENTITY, notes

REDIS = place_of("redis")


def corpus_of(**counts: int) -> Corpus:
    """So many notes of each chat."""
    return index_world.corpus_of({chat: notes(chat, count) for chat, count in counts.items()})


def build(settings: Settings, root: Path, corpus: Corpus, run: int = 1) -> Path:
    """A built index, as the file that names it in a sealed release."""
    place = root / str(run) / REDIS
    place.parent.mkdir(parents=True)
    RedisBuilder(settings, run).build(place, corpus)
    return sealed(place, run)


def sealed(place: Path, run: int = 1) -> Path:
    """The release that this file is in gets its manifest."""
    seal(place.parent, Manifest(run, None, {}, 1, 1, "UTC", ["redis"], IDENTITY, 0, 0, 0, 0, {}))
    return place


def opened(settings: Settings, place: Path) -> RedisBackend:
    found = RedisBackend(settings, place.parent, IDENTITY)
    found.open()
    return found
