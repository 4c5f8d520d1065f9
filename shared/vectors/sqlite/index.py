"""SQLite: all vectors of a release in the files of `vectors/`; a chat's are compared one by one, so a search is exact.

The files are never written again (shared/vectors/vector_files.py says what stands in them), so they are read in place (`immutable`: no lock, no
journal, also on a read-only mount), after their hashes were verified. The connections hold them open: a release that is removed meanwhile
can still be read. A night adds a part with what is new and takes the others over as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shared.config.kinds import place_of
from shared.errors import ReleaseRefused
from shared.release.integrity import check_database, damage_named
from shared.release.manifest import prove_folder, read_manifest
from shared.release.parts import Earlier, begin, new_part, part_files
from shared.vectors.base import Builder, Checked, Corpus, VectorIndex
from shared.vectors.searching import AskingBackend, in_order
from shared.vectors.vector_files import STORED, VectorFile, chats_in, read_part, write_part

if TYPE_CHECKING:
    from shared.embedding.models import Vectors


class SqliteBuilder(Builder):
    """Builds `vectors/` for the release of this run."""

    def __init__(self, run: int) -> None:
        self._run = run

    def build(self, place: Path, corpus: Corpus, earlier: Earlier | None = None) -> None:
        """As in `Builder`. The parts of `earlier` are taken over; the corpus, which they do not hold, becomes a part of its own."""
        begin(place, earlier)
        if any(corpus.sizes().values()) or corpus.repeats or not part_files(place):
            write_part(new_part(place, self._run), corpus)

    def check(self, place: Path, scratch: Path, corpus: Corpus, earlier: Earlier | None = None) -> Checked:  # noqa: ARG002 - read in place
        """As in `Builder`. A part that was taken over was proven by the night that wrote it, and its hash is still the same."""
        new = [path for path in part_files(place) if earlier is None or path.name not in earlier.parts]
        if not new and len(corpus):
            raise ReleaseRefused(f"{place} has nothing of what was given to it. Run the night again.")
        for path in new:
            check_database(path)
            with damage_named(path):
                _check_part(path, corpus)
        return Checked(corpus.sizes())


def _check_part(path: Path, given: Corpus) -> None:
    """There are these chats, each with its rows, each with its id and its vector, byte for byte; each repeated chunk leads to its first."""
    repeats = {chat_id: again for chat_id, (_, again) in chats_in(path).items() if again}
    if repeats != {chat_id: dict(again) for chat_id, again in given.repeats.items() if again}:
        raise ReleaseRefused("SQLite repeats other chunks of a chat than were given to it. Run the night again.")
    others = {*given.chats, *given.repeats}
    for chat_id, ids, vectors in read_part(path, given.dimensions):
        others ^= {chat_id}
        wanted, exact = given.chats.get(chat_id, ((), vectors[:0]))
        if ids != list(wanted):
            raise ReleaseRefused("SQLite holds other chunks of a chat than were given to it. Run the night again.")
        if not np.array_equal(vectors, exact.astype(STORED).astype(np.float32)):
            raise ReleaseRefused("SQLite holds other vectors of a chat than were given to it. Run the night again.")
    if others:
        raise ReleaseRefused("SQLite holds other chats than were given to it. Run the night again.")


class SqliteBackend(AskingBackend):
    """Searches the vectors of one release, in place."""

    name = "sqlite"

    def _open_index(self) -> VectorFile:
        prove_folder(self._release, read_manifest(self._release), place_of("sqlite"))
        return VectorFile(self._place, self._indexed_with.dimensions if self._indexed_with else 0)

    def _close_index(self, index: VectorFile) -> None:
        index.close()

    def _compared(self, index: VectorFile, vector: Vectors, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        chat = index.chat(chat_id)
        return chat.compare(vector, chunk_ids) if chat else in_order({}, chunk_ids)


INDEX = VectorIndex(lambda _, run: SqliteBuilder(run), SqliteBackend)
