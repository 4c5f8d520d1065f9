"""What backends with vectors share: the vector of a question, and being opened late, in the background, without ever raising."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast
from weakref import WeakKeyDictionary, ref

from cachetools import LRUCache, cached

from shared.config.kinds import place_of
from shared.config.settings import Settings
from shared.embedding.centring import centred
from shared.embedding.models import Embedder, EmbeddingIdentity
from shared.embedding.open import open_embedder
from shared.errors import HmemError
from shared.system.files import PrivateDir
from shared.vectors.base import MemoryBackend, how_to_install

if TYPE_CHECKING:
    from shared.embedding.models import Vectors
    from shared.release.chats import ChatTable

#: Questions whose vectors are kept: one lookup asks for its vector more than once, and as many lookups as that run at the same time.
KEPT = 64
#: Chunks of a chat that an index which only finds the nearest is asked for: more would take longer than a lookup may.
MOST_COMPARED = 1000
#: In HMEM_STATE_DIR: the private directories of readers.
VIEWS = "views"


#: By embedder: a release and the day ask the shipped one, which the process has once, the same question.
_KNOWN: WeakKeyDictionary[Embedder, Callable[[str], Vectors]] = WeakKeyDictionary()
_KNOWN_LOCK = threading.Lock()


class Asker:
    """Embeds questions as a release's texts were embedded, once each: who asks while it is being done waits for it. Threads may share it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, alive = embedder, ref(embedder)

        def embed(query: str) -> Vectors:
            return cast(Embedder, alive()).embed_query(query)

        with _KNOWN_LOCK:
            if embedder not in _KNOWN:
                _KNOWN[embedder] = cached(LRUCache(KEPT), condition=threading.Condition())(embed)
            #: Unit vector of a question, shape (dimensions,), float32; EmbeddingError if the embedder is not available.
            self.vector = _KNOWN[embedder]

    def close(self) -> None:
        self._embedder.close()


def forget_questions() -> None:
    """New askers do not know earlier questions."""
    with _KNOWN_LOCK:
        _KNOWN.clear()


def open_asker(settings: Settings, release: str, indexed_with: EmbeddingIdentity | None) -> Asker | str:
    """The asker for a release of this name, or why its vectors may not be compared with any of ours. HmemError if the embedder is not available."""
    from shared.embedding import probes  # numpy, late

    if indexed_with is None:
        return f"release {release} does not record how it was embedded"
    embedder = open_embedder(settings)
    if embedder is None:
        return "EMBEDDER=none: no vector of the question"
    try:
        why = _why_not(embedder, indexed_with) or probes.difference(embedder, indexed_with)
        if why is None:
            embedder.embed_query("first call")
            return Asker(embedder)
    except BaseException:
        embedder.close()
        raise
    embedder.close()
    return why


def _why_not(embedder: Embedder, indexed_with: EmbeddingIdentity) -> str | None:
    if difference := embedder.identity.difference(indexed_with):
        return f"the release was embedded differently ({difference}); set EMBEDDER and EMBED_MODEL as on the night host"
    return None


def in_order(found: Mapping[str, float], chunk_ids: Sequence[str]) -> Vectors:
    """The similarities that were found, in the order of these chunks, shape (n,); NaN for a chunk that was not."""
    import numpy as np

    return np.array([found.get(chunk_id, np.nan) for chunk_id in chunk_ids], dtype=np.float32)


class AskingBackend(MemoryBackend, ABC):
    """A backend of one release that embeds questions. `open` is slow and belongs in the background.

    What `_open_index` returns is given to all that asks the index, so that a question ends with the index that it began with.
    """

    name: ClassVar[str]

    def __init__(self, settings: Settings, release: Path, indexed_with: EmbeddingIdentity | None) -> None:
        super().__init__("the vector index is still being opened")
        self._settings, self._release, self._indexed_with = settings, release, indexed_with
        self._asker: Asker | None = None
        self._index: Any = None
        self._lock = threading.Lock()
        self._chats: ChatTable | None = None
        self._private: PrivateDir | None = None

    @property
    def _place(self) -> Path:
        """Where the release has what this backend reads, if it has it."""
        return self._release / place_of(self.name)

    def _private_dir(self) -> Path:
        """For a backend that cannot read a release in place: a directory of this reader alone, gone when the index is closed."""
        self._private = PrivateDir(self._settings.hmem_state_dir / VIEWS)
        return self._private.path

    @abstractmethod
    def _open_index(self) -> Any:
        """Open the files after verifying them; any exception is the reason why search is not available."""

    def _close_index(self, index: Any) -> None:
        """Close it, if it does not close itself with its last user."""

    @abstractmethod
    def _compared(self, index: Any, vector: Vectors, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        """`similarities` of an open index, each proven to be of this chat; NaN once it is closed."""

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        """As in `MemoryBackend`."""
        index, asker = self._index, self._asker
        if self._why is not None or index is None or asker is None:
            return super().similarities(query, chat_id, chunk_ids)
        return self._compared(index, centred(asker.vector(query), self.centre(chat_id)), chat_id, chunk_ids)

    def vector(self, query: str) -> Vectors | None:
        """As in `MemoryBackend`."""
        asker = self._asker
        return asker.vector(query) if asker else None

    def centre(self, chat_id: str) -> Vectors | None:
        """As in `MemoryBackend`."""
        row = self._chats.row(chat_id) if self._chats else None
        if row is None or row.centre is None:
            return None
        import numpy as np

        return np.frombuffer(row.centre, "<f4")

    def open(self) -> None:
        with self._lock:
            if self._why is None:
                return
            try:
                self._give_back()
                self._why = self._open()
            except HmemError as error:
                self._why = str(error)
            except Exception as error:  # noqa: BLE001 - a library raises anything; no index is no reason to stop answering
                self._why = f"the {self.name} index of release {self._release.name} cannot be opened: {error!r}"

    def open_with(self, embedder: Embedder) -> None:
        """As `open`, with an embedder that needs no proof, for measurements; it raises what is wrong."""
        with self._lock:
            self._asker, self._index = Asker(embedder), self._open_index()
            self._why = None

    def _open(self) -> str | None:
        if not self._place.exists():
            return f"release {self._release.name} has no {self.name} index"
        if how := how_to_install(self.name):
            return f"the {self.name} index needs a package that is not installed; {how}"
        asker = open_asker(self._settings, self._release.name, self._indexed_with)
        if isinstance(asker, str):
            return asker
        from shared.release.chats import ChatTable  # sqlite3, late: `hmem status` opens nothing

        self._asker = asker
        self._index = self._open_index()
        self._chats = ChatTable.of(self._release)
        return None

    def close(self) -> None:
        with self._lock:
            self._why = "closed"
            self._give_back()

    def _give_back(self) -> None:
        if self._index is not None:
            self._close_index(self._index)
        if self._private is not None:
            self._private.remove()
        for one in (self._chats, self._asker):
            if one is not None:
                one.close()
        self._index = self._private = self._chats = self._asker = None
