"""An archive that is embedded again, with one of two models, and what its releases answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nightly.backfill.rebuild import rebuild_archive
from nightly.night.progress import Reporter
from shared.embedding.known_models import known_model
from shared.embedding.models import EmbeddingIdentity
from shared.embedding.probes import PROBE_TEXTS
from shared.release.manifest import Manifest, read_manifest, verify
from shared.search.recall import OpenRelease
from shared.search.types import Query, Recalled
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.world import World

NOMIC, OTHER_DIGEST = "nomic-embed-text", "2" * 64


class TwoModels(OllamaApi):
    """All-minilm and a second family: its vectors are twice as wide, so that a mixture would be noticed."""

    def __init__(self) -> None:
        super().__init__({"all-minilm:latest": DIGEST, f"{NOMIC}:latest": OTHER_DIGEST})
        self._asked = threading.local()

    def next_fault(self, body: dict[str, Any]) -> str:
        self._asked.model = body.get("model")  # each request has a thread of its own
        return super().next_fault(body)

    def embed(self, texts: list[str], fault: str) -> dict[str, Any]:
        answer = super().embed(texts, fault)
        if self._asked.model == NOMIC:
            answer["embeddings"] = [[*row, *row[::-1]] for row in answer["embeddings"]]
        return answer

    def documents(self) -> list[str]:
        """Every text that was embedded to be stored, in order; the probes are asked anew by each process."""
        prefix = known_model(NOMIC, "ollama").document_prefix
        texts = [text.removeprefix(prefix) for batch in self.embedded() for text in batch]
        return [text for text in texts if text not in PROBE_TEXTS and not text.startswith("search_query: ")]


def talk(world: World, count: int = 12) -> None:
    for number in range(count):
        world.say(f"t{number}", f"note {number}: the heron stood at the pond, day {number * 7}")


def lower(variables: dict[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in variables.items()}


def reembed(world: World, **more: Any) -> list[dict[str, Any]]:
    """`hmem-night backfill archive --reembed`, in this process."""
    return rebuild_archive(world.settings(**more), Reporter(quiet=True), reembed=True)


def current(world: World) -> Manifest:
    return read_manifest((world.memory_dir / "current").resolve())


def embedding(world: World) -> EmbeddingIdentity:
    found = verify((world.memory_dir / "current").resolve()).embedding
    assert found is not None
    return found


@contextmanager
def opened(world: World, **more: Any) -> Iterator[OpenRelease]:
    """The release in use, as a dispatcher with these settings opens it."""
    release = OpenRelease(world.settings(**more), (world.memory_dir / "current").resolve())
    try:
        release.open_vectors()
        yield release
    finally:
        release.close()


def ask(world: World, **more: Any) -> Recalled:
    with opened(world, **more) as release:
        return release.recall(Query("9912", "which bird was at the water?", 5))


def by_vector(recalled: Recalled) -> bool:
    return bool(recalled.hits) and recalled.hits[0].meaning is not None and not recalled.degraded


def by_words_alone(world: World, **more: Any) -> bool:
    with opened(world, **more) as release:
        recalled = release.recall(Query("9912", "heron", 5))
    assert recalled.degraded
    return bool(recalled.hits) and all(hit.meaning is None for hit in recalled.hits)
