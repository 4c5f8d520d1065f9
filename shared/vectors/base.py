"""What a vector index must do: by night a `Builder` builds and verifies it, by day a `MemoryBackend` searches it.

Each index is a folder beside this module, which is imported when it is used, and nowhere else by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shared.config.kinds import indexes
from shared.config.packages import how_to_add, missing_package
from shared.config.settings import Settings
from shared.errors import ReleaseRefused, SettingsError
from shared.release.manifest import Manifest

if TYPE_CHECKING:
    from shared.config.settings import Settings
    from shared.embedding.models import EmbeddingIdentity, Vectors
    from shared.release.parts import Earlier


class MemoryBackend:
    """Vector search in one release. The chat id is required: every search is limited to one chat. This one has no vectors; `why` says why."""

    def __init__(self, why: str) -> None:
        self._why: str | None = why

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:  # noqa: ARG002 - the interface's signature
        """Cosine similarity of each of these chunks, shape (n,); NaN if the chat's index has no vector for it, or cannot compare it."""
        import numpy as np  # late: a day without vectors does without it

        return np.full(len(chunk_ids), np.nan, dtype=np.float32)

    def vector(self, query: str) -> Vectors | None:  # noqa: ARG002
        """The question's unit vector, shape (dimensions,), embedded like the release, once for all methods; None if no index is open."""
        return None

    def centre(self, chat_id: str) -> Vectors | None:  # noqa: ARG002
        """What the vectors of a chat in this release, and questions to it, are without (shared/embedding/centring.py); None if it has none here."""
        return None

    def is_available(self) -> bool:
        """Whether a search is possible; `why_not` says what is missing."""
        return self._why is None

    @property
    def why_not(self) -> str | None:
        return self._why

    def open(self) -> None:
        """Do the slow work (imports, loading a model, opening files) before the first search. Never raises: see `why_not`."""

    def close(self) -> None:
        """Give back what was opened."""


class NullBackend(MemoryBackend):
    """No vectors: keyword search and summaries still work."""


@dataclass(frozen=True)
class Corpus:
    """What an index is built from: of each chat the distinct vectors, each under the id of the first chunk that has it.

    The ids of a chat are distinct, and so are its vectors (float32, unit length, shape (n, dimensions)). Two chats may have equal ids.
    """

    chats: Mapping[str, tuple[Sequence[str], Vectors]]  # chat id -> (chunk ids, their vectors)
    repeats: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # chat -> chunk -> the one with that vector
    counts: Mapping[str, int] | None = None  # chat -> its ids, if they are known without reading them

    @property
    def dimensions(self) -> int:
        """0 for a corpus of nothing."""
        return next((int(vectors.shape[1]) for _, vectors in self.chats.values()), 0)

    def __len__(self) -> int:
        return sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        """Vectors by chat."""
        if self.counts is not None:
            return dict(self.counts)
        return {chat_id: len(ids) for chat_id, (ids, _) in self.chats.items()}


@dataclass(frozen=True)
class Checked:
    """The contents of a closed index: vectors by chat, and how many of the probed vectors are stored but not reached by a search."""

    vectors: dict[str, int]
    unreached: int = 0


#: Every so many vectors of a chat one is asked for after building, and the cosine distance up to which two are the same.
SELF_CHECK_EVERY, SAME = 50, 1e-3

Rows = Sequence[int]


def unreached(index: str, ids: Sequence[str], missed: Callable[[Rows], Rows], lost: Callable[[Rows], Rows]) -> int:
    """How many of a chat's vectors that are asked for a search does not find (`missed`), though they are stored (`lost`: the ones that are not).

    HNSW is approximate: in a crowd of nearly equal vectors (thousands of status lines) it misses a few in a thousand. One in twenty asked
    is forgiven, if there are ten or more and the vector itself is there: a night must not fail for ever because of what somebody says.
    ReleaseRefused for more.
    """
    asked = range(0, len(ids), SELF_CHECK_EVERY)
    gone = lost(not_found := missed(asked))
    if gone or len(not_found) > (len(asked) + 10) // 20:
        raise ReleaseRefused(
            f"{index} does not find the vector of chunk {ids[(gone or not_found)[0]]}. Run the night again."
        )
    return len(not_found)


class Builder(Protocol):
    """The night's side of one index of one release. `place` is its path, which does not exist yet: a file or a directory."""

    def refuse_unless_usable(self) -> None:
        """SettingsError if a setting is missing, IndexServerUnavailable if a server does not answer. Cheap: asked before all else."""
        return  # files need neither

    def build(self, place: Path, corpus: Corpus, earlier: Earlier | None = None) -> None:
        """Write the index and close it; `check` verifies it. StorageError if it cannot be written. A crash discards all of it.

        `earlier`: the parts that are taken over, of an index in parts only.
        """
        ...

    def check(self, place: Path, scratch: Path, corpus: Corpus, earlier: Earlier | None = None) -> Checked:
        """Verify the closed index, without changing its files: it must contain exactly the given chats, each with its rows.

        `scratch` is a directory that does not exist yet, for builders that need a copy. ReleaseRefused if something is missing or extra,
        StorageError if a file is damaged.
        """
        ...


def how_to_install(index: str) -> str | None:
    """What to do where the library of this index is missing; None where it is there, or none is needed."""
    part = indexes()[index].part
    return how_to_add(part) if part and missing_package(part) else None


@dataclass(frozen=True)
class VectorIndex:
    """What `shared/vectors/<name>/index.py` defines as INDEX: the builder for the release of a run, and the backend of a release."""

    builder: Callable[[Settings, int], Builder]
    backend: Callable[[Settings, Path, EmbeddingIdentity | None], MemoryBackend]


def builder_of(name: str, settings: Settings, run: int) -> Builder:
    """The builder of one of the indexes, for the release of this run. SettingsError if its library is missing."""
    if how := how_to_install(name):
        raise SettingsError(f"NIGHT_INDEXES names {name}, which is not installed. Change it, or {how}.")
    return _index(name).builder(settings, run)


def backend_of(settings: Settings, path: Path, manifest: Manifest) -> MemoryBackend:
    """The backend for a release, not opened yet: the one that MEMORY_BACKEND names, for `auto` the first that is there."""
    if settings.without_vectors:
        return NullBackend(settings.without_vectors)
    if why := misfit(settings, manifest):
        return NullBackend(why)
    if not manifest.indexes:
        return NullBackend(f"release {manifest.run} was built without a vector index")
    wanted = [*indexes()] if settings.memory_backend == "auto" else [settings.memory_backend]
    chosen = next(name for name in wanted if name in manifest.indexes)
    return _index(chosen).backend(settings, path, manifest.embedding)


def misfit(settings: Settings, manifest: Manifest) -> str | None:
    """Why the index that MEMORY_BACKEND names is not in the release that NIGHT_INDEXES has made, or None."""
    named = settings.memory_backend
    if settings.without_vectors or named in manifest.indexes:
        return None
    if named == "auto" and (not manifest.indexes or not indexes().keys().isdisjoint(manifest.indexes)):
        return None
    there = (
        f"has its vectors in {', '.join(manifest.indexes)}" if manifest.indexes else "was built without a vector index"
    )
    return (
        f"release {manifest.run} {there}, but MEMORY_BACKEND={named} requires another index; change NIGHT_INDEXES on the night host "
        "or MEMORY_BACKEND here"
    )


def _index(name: str) -> VectorIndex:
    found: VectorIndex = import_module(f"shared.vectors.{name}.index").INDEX
    return found
