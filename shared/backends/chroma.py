"""Chroma: one collection per chat, cosine distance, vectors and ids only (texts stand in `lexical.sqlite`).

Measured traps this file is written around (chromadb 1.5.9): opening a directory writes to its `chroma.sqlite3`, and querying a
collection that is smaller than its sync threshold writes its vectors into the segment files (also through links to them), so a release
is read through a private copy of the whole index; the client caches by path, so every copy has a path of its own; missing or
truncated segment files give wrong answers instead of errors, so the release is verified before it is opened; a collection name
cannot hold a chat id, so it is a hash of it; `add` ignores an existing id, so building checks the count.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.embedding import Embedder, EmbeddingIdentity, open_embedder
from shared.errors import HmemError, ReleaseRefused, StorageError
from shared.files import PrivateDir, make_dir
from shared.ranking import Match
from shared.release import CHROMA, verify
from shared.settings import Settings

if TYPE_CHECKING:
    import chromadb

    from shared.embedding import Vectors

#: Every k-th vector must find itself after building.
SELF_CHECK_EVERY = 50


def collection_name(chat_id: str) -> str:
    return "chat-" + hashlib.sha256(chat_id.encode("utf-8")).hexdigest()[:48]


def _client(path: Path) -> Any:
    import chromadb
    from chromadb.config import Settings as ChromaSettings

    return chromadb.PersistentClient(path=str(path), settings=ChromaSettings(anonymized_telemetry=False))


def build(path: Path, chats: dict[str, tuple[Sequence[str], Vectors]]) -> None:
    """Write an index of (chunk ids, vectors of shape (n, dimensions)) per chat into the new directory `path`, and check it."""
    from chromadb.errors import ChromaError

    client = _client(make_dir(path))
    try:
        batch = client.get_max_batch_size()
        for chat_id, (ids, vectors) in chats.items():
            collection = client.create_collection(
                collection_name(chat_id),
                metadata={"chat_id": chat_id},
                configuration={"hnsw": {"space": "cosine"}},
                embedding_function=None,
            )
            for start in range(0, len(ids), batch):
                part = slice(start, start + batch)
                collection.add(ids=list(ids[part]), embeddings=vectors[part])
            _check(collection, ids, vectors)
    except ChromaError as error:
        raise StorageError(
            f"Chroma could not write the index in {path}: {error}. Look at the disk, then run the night again."
        ) from error
    finally:
        client.close()


def _check(collection: chromadb.Collection, ids: Sequence[str], vectors: Vectors) -> None:
    if collection.count() != len(ids):
        raise ReleaseRefused(f"Chroma holds {collection.count()} of {len(ids)} vectors of a chat. Run the night again.")
    for row in range(0, len(ids), SELF_CHECK_EVERY):
        answer = collection.query(query_embeddings=vectors[row : row + 1], n_results=1, include=["distances"])
        distances = answer["distances"]
        if not distances or not distances[0] or distances[0][0] > 1e-3:
            raise ReleaseRefused(f"Chroma does not find the vector of chunk {ids[row]}. Run the night again.")


def open_view(release: Path, views: Path) -> PrivateDir:
    """A private copy of a release's index, to be removed after use."""
    view = PrivateDir(views)
    shutil.copytree(release / CHROMA, view.path, copy_function=shutil.copyfile, dirs_exist_ok=True)
    return view


class ChromaBackend:
    """Searches the index of one release. `open` is slow (1.5 s for the import alone) and belongs in the background."""

    def __init__(self, settings: Settings, release: Path, indexed_with: EmbeddingIdentity | None, views: Path) -> None:
        self._settings, self._release, self._indexed_with, self._views = settings, release, indexed_with, views
        self._client: Any = None
        self._embedder: Embedder | None = None
        self._view: PrivateDir | None = None
        self._collections: dict[str, Any] = {}
        self._why: str | None = "the vector index is still being opened"
        self._lock = threading.Lock()

    @property
    def why_not(self) -> str | None:
        return self._why

    def is_available(self) -> bool:
        return self._why is None

    def open(self) -> None:
        with self._lock:
            if self._why is None:
                return
            try:
                self._give_back()
                self._why = self._open()
            except HmemError as error:
                self._why = str(error)
            except Exception as error:  # noqa: BLE001 - Chroma raises anything; no index is no reason to stop answering
                self._why = f"Chroma cannot open release {self._release.name}: {error!r}"

    def _open(self) -> str | None:
        from shared import probes  # numpy, late

        if not (self._release / CHROMA).is_dir() or self._indexed_with is None:
            return f"release {self._release.name} has no Chroma index"
        self._embedder = open_embedder(self._settings)
        if self._embedder is None:
            return "EMBEDDER=none: no vector of the question"
        if difference := self._embedder.identity.difference(self._indexed_with):
            return f"the release was embedded differently ({difference}); set EMBEDDER and EMBED_MODEL as on the night host"
        if difference := probes.difference(self._embedder, self._indexed_with):
            return difference
        self._embedder.embed_query("first call")
        verify(self._release)
        self._view = open_view(self._release, self._views)
        self._client = _client(self._view.path)
        return None

    def search(self, query: str, chat_id: str, k: int) -> list[Match]:
        if self._why is not None or self._embedder is None or k < 1:
            return []
        vector = self._embedder.embed_query(query)
        with self._lock:
            collection = self._collection(chat_id)
            if collection is None:
                return []
            answer = collection.query(query_embeddings=[vector], n_results=k, include=["distances"])
        ids, distances = answer["ids"][0], answer["distances"][0]
        return [Match(chunk_id, 1.0 - float(distance)) for chunk_id, distance in zip(ids, distances, strict=True)]

    def _collection(self, chat_id: str) -> Any:
        """The chat's collection, or None; its own record of the chat id is compared, whatever its name says."""
        from chromadb.errors import NotFoundError

        if self._client is None:
            return None
        name = collection_name(chat_id)
        if name not in self._collections:
            try:
                collection = self._client.get_collection(name, embedding_function=None)
            except NotFoundError:
                return None
            if (collection.metadata or {}).get("chat_id") != chat_id:
                return None
            self._collections[name] = collection
        return self._collections[name]

    def close(self) -> None:
        with self._lock:
            self._why = "closed"
            self._give_back()

    def _give_back(self) -> None:
        """Whatever has been opened so far, perhaps by an attempt that failed half-way."""
        self._collections.clear()
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._embedder is not None:
            self._embedder.close()
            self._embedder = None
        if self._view is not None:
            self._view.remove()
            self._view = None
