"""Chroma: one collection per chat, cosine distance, vectors and ids only (texts are in `lexical/`).

Measured traps this file is written around (chromadb 1.5.9): opening a directory writes to its `chroma.sqlite3`, and querying a
collection that is smaller than its sync threshold writes its vectors into the segment files (also through links to them), so a release
is read, and a new index is checked, through a private copy of the whole index; the client caches by path, so every copy has a path of its
own; missing or truncated segment files give wrong answers instead of errors, so the release is verified before it is opened; a collection
name cannot hold a chat id, so it is a hash of it; `add` ignores an existing id, so the check counts; some hundred equal vectors in a
collection cut others off from every search, so equal ones are given once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.errors import ReleaseRefused, StorageError
from shared.release.integrity import check_database, damage_named, open_closed, private_copy, refuse_leftovers
from shared.release.manifest import verify
from shared.release.parts import Earlier
from shared.system.files import make_dir
from shared.vectors.base import SAME, Builder, Checked, Corpus, Rows, VectorIndex, unreached
from shared.vectors.searching import MOST_COMPARED, AskingBackend, in_order

if TYPE_CHECKING:
    import chromadb

    from shared.embedding.models import Vectors

DATABASE = "chroma.sqlite3"
#: Where the header of a segment says how many vectors it holds, and the bytes of each (hnswlib's saveIndex, as Chroma has it).
HEADER_COUNT = 20
#: Chroma's own defaults: vectors of a collection that wait until they are written to its files, or are searched one by one.
SYNC_THRESHOLD, BATCH_SIZE = 1000, 100


def collection_name(chat_id: str) -> str:
    return "chat-" + hashlib.sha256(chat_id.encode("utf-8")).hexdigest()[:48]


def _client(path: Path) -> Any:
    import chromadb
    from chromadb.config import Settings as ChromaSettings

    return chromadb.PersistentClient(path=str(path), settings=ChromaSettings(anonymized_telemetry=False))


@contextmanager
def _opened(path: Path, doing: str) -> Iterator[Any]:
    """A client on a directory of our own; whatever Chroma raises (also a panic of its Rust part) as a StorageError."""
    from chromadb.errors import ChromaError

    client = None
    try:
        client = _client(path)
        yield client
    except BaseException as error:
        # A panic is no Exception; a client that cannot open its database may say so with a ValueError.
        panicked = type(error).__name__ == "PanicException"
        if not (panicked or isinstance(error, ChromaError) or (client is None and isinstance(error, ValueError))):
            raise
        raise StorageError(
            f"Chroma could not {doing} the index in {path}: {error}. Check the disk, then run the night again."
        ) from error
    finally:
        if client is not None:
            client.close()


class ChromaBuilder(Builder):
    """Builds `chroma/`."""

    def build(self, place: Path, corpus: Corpus, earlier: Earlier | None = None) -> None:  # noqa: ARG002 - it is not in parts
        """As in `Builder`."""
        make_dir(place)
        with _opened(place, "write") as client:
            for chat_id, (ids, vectors) in corpus.chats.items():
                collection = _new_collection(client, chat_id, len(ids))
                for start in range(0, len(ids), batch := client.get_max_batch_size()):
                    collection.add(ids=list(ids[start : start + batch]), embeddings=vectors[start : start + batch])
        _blank_unused(place)

    def check(self, place: Path, scratch: Path, corpus: Corpus, earlier: Earlier | None = None) -> Checked:  # noqa: ARG002 - all is asked again
        """As in `Builder`. Opening writes, so Chroma is asked on a copy in `scratch`."""
        _check_files(place)
        private_copy(place, scratch)
        chats = corpus.chats
        with _opened(scratch, "read") as client:
            names, wanted = sorted(one.name for one in client.list_collections()), sorted(map(collection_name, chats))
            if names != wanted:
                raise ReleaseRefused(
                    f"The index has {len(set(wanted) - set(names))} chats too few and {len(set(names) - set(wanted))} collections that belong "
                    "to no chat. Run the night again."
                )
            found = {chat_id: _check_chat(client, chat_id, ids, vectors) for chat_id, (ids, vectors) in chats.items()}
        unreached = sum(missed for _, missed in found.values())
        return Checked({chat: count for chat, (count, _) in found.items()}, unreached)


def _new_collection(client: Any, chat_id: str, size: int) -> chromadb.Collection:
    # Written to the index files at once: else a small chat's vectors stay in a queue that every first touch of a chat reads through
    # (500 chats of 40: 14 ms a chat against 3, 129 MB against 90, and twice the time to build).
    threshold = max(2, min(size, SYNC_THRESHOLD))
    hnsw = {"space": "cosine", "sync_threshold": threshold, "batch_size": min(threshold, BATCH_SIZE)}
    made: chromadb.Collection = client.create_collection(
        collection_name(chat_id), metadata={"chat_id": chat_id}, configuration={"hnsw": hnsw}, embedding_function=None
    )
    return made


def _blank_unused(path: Path) -> None:
    """Zeros where no vector stands: hnswlib saves all the memory that it has reserved, with whatever this process had in it before (seen: ids
    that the night had just erased)."""
    for header in path.glob("*/header.bin"):
        count, size = struct.unpack_from("<QQ", header.read_bytes(), HEADER_COUNT)
        for name, used in (("data_level0.bin", count * size), ("length.bin", 4 * count)):
            with (header.parent / name).open("r+b") as file:
                unused = file.seek(0, 2) - used
                file.seek(used)
                file.write(bytes(max(0, unused)))


def _check_files(path: Path) -> None:
    """Check that the database is intact and closed, and that every directory next to it is a known, complete segment."""
    refuse_leftovers(path)
    check_database(path / DATABASE)
    with damage_named(path / DATABASE), closing(open_closed(path / DATABASE)) as connection:
        segments = {str(segment) for (segment,) in connection.execute("SELECT id FROM segments")}
    for entry in path.iterdir():
        if entry.name != DATABASE and entry.name not in segments:
            raise ReleaseRefused(f"{entry} belongs to no collection of the index. Run the night again.")
        if entry.is_dir() and not _is_whole(entry):
            raise ReleaseRefused(f"{entry} was not written completely. Check the disk, then run the night again.")


def _is_whole(segment: Path) -> bool:
    """Whether the files have room for as many vectors as their header counts.

    Of a file that was cut short Chroma reads the rest from memory that was never written: by chance (here, where the same vectors were
    written a moment ago) the right ones, or it dies.
    """
    try:
        count, size = struct.unpack_from("<QQ", (segment / "header.bin").read_bytes(), HEADER_COUNT)
        least = {"data_level0.bin": count * size, "length.bin": 4 * count, "link_lists.bin": 4 * count}
        return all((segment / name).stat().st_size >= bytes_ for name, bytes_ in least.items())
    except (OSError, struct.error):
        return False


def _check_chat(client: Any, chat_id: str, ids: Sequence[str], vectors: Vectors) -> tuple[int, int]:
    """How many vectors the chat's collection holds, and how many of those asked for are not reached."""
    collection = client.get_collection(collection_name(chat_id), embedding_function=None)
    count = collection.count()
    if (collection.metadata or {}).get("chat_id") != chat_id or count != len(ids):
        raise ReleaseRefused(f"Chroma holds {count} of {len(ids)} vectors of a chat. Run the night again.")

    def missed(rows: Rows) -> Rows:
        answer = collection.query(query_embeddings=vectors[list(rows)], n_results=1)
        nearest = zip(rows, answer["ids"], answer["distances"], strict=True)
        return [row for row, found, distances in nearest if not found or distances[0] > SAME]

    def lost(rows: Rows) -> Rows:
        return [row for row in rows if not _is_stored(collection, ids[row], vectors[row])]

    return count, unreached("Chroma", ids, missed, lost)


def _is_stored(collection: chromadb.Collection, chunk_id: str, vector: Vectors) -> bool:
    stored = collection.get(ids=[chunk_id], include=["embeddings"])["embeddings"]
    return stored is not None and len(stored) == 1 and bool(1.0 - float(stored[0] @ vector) <= SAME)


class ChromaBackend(AskingBackend):
    """Searches the index of one release. The import alone takes 1.5 s."""

    name = "chroma"
    _collections: dict[str, Any]  # that were asked

    def _open_index(self) -> Any:
        verify(self._release)
        copied = self._private_dir()
        private_copy(self._place, copied)
        self._collections = {}
        return _client(copied)

    def _compared(self, index: Any, vector: Vectors, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        """Of the nearest MOST_COMPARED, and of no repeated chunk."""
        with self._lock:
            collection = self._collection(index, chat_id)
            if collection is None:
                return in_order({}, chunk_ids)
            answer = collection.query(query_embeddings=[vector], n_results=MOST_COMPARED, include=["distances"])
        distances = dict(zip(answer["ids"][0], answer["distances"][0], strict=True))
        return in_order({one: 1.0 - float(distance) for one, distance in distances.items()}, chunk_ids)

    def _collection(self, index: Any, chat_id: str) -> Any:
        """The chat's collection, or None; its own record of the chat id is compared, whatever its name says."""
        from chromadb.errors import NotFoundError

        if index is not self._index:  # closed meanwhile
            return None
        name = collection_name(chat_id)
        if name not in self._collections:
            try:
                collection = index.get_collection(name, embedding_function=None)
            except NotFoundError:
                return None
            if (collection.metadata or {}).get("chat_id") != chat_id:
                return None
            self._collections[name] = collection
        return self._collections[name]

    def _close_index(self, index: Any) -> None:
        self._collections.clear()
        index.close()


INDEX = VectorIndex(lambda _, __: ChromaBuilder(), ChromaBackend)
