"""An index on Qdrant, and what harms it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shared.config.settings import Settings
from shared.vectors.on_server import Served, read_served
from shared.vectors.qdrant import index as qdrant
from shared.vectors.qdrant import server as qdrant_server
from shared.vectors.qdrant.index import QdrantBuilder, ensure
from tests.support.night.index_world import DIMENSIONS, corpus_of, notes

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

KEY = "s3cret-key"
SAID = {"1": notes("1", 120), "-100": notes("-100", 60), "anna": notes("anna", 3)}
CORPUS = corpus_of(SAID)
FAULTS = ["drop", "lost", "hang", "500", "429", "html", "redirect", "nothing"]


@contextmanager
def looking(settings: Settings) -> Iterator[QdrantClient]:
    """A client of a test's own."""
    with closing(qdrant_server.client_of(settings, 60)) as client:
        yield client


def built(settings: Settings, place: Path, run: int = 1) -> Served:
    builder = QdrantBuilder(settings, run)
    builder.build(place, CORPUS)
    return read_served(place)


def lose(client: QdrantClient, name: str) -> None:
    """A collection of the same name without one of the points."""
    client.delete_collection(name)
    ensure(client, name, DIMENSIONS)
    chats = {**CORPUS.chats, "1": (CORPUS.chats["1"][0][1:], CORPUS.chats["1"][1][1:])}
    for batch in qdrant._batches(replace(CORPUS, chats=chats)):
        client.upsert(name, batch, wait=True)


def delete(client: QdrantClient, name: str) -> None:
    client.delete_collection(name)
