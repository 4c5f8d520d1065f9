"""The rows of an index in parts: what of tonight's chats the earlier parts hold, and what is written tonight, one chat at a time.

A part is taken over if each row that it has of tonight's chats is still wanted with the same content; the other chats have no news. Of a part
that is not, or that is merged, the rows of the other chats are read from the part itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from nightly.index.chunk_file import ChunkFolder
from nightly.index.rows import Rows
from shared.errors import StorageError
from shared.release.integrity import damage_named, open_closed
from shared.turns.chunk import COLUMNS, Chunk, chunk_of, turn_order
from shared.turns.chunking import indexed_text
from shared.vectors.base import Corpus

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

Value = TypeVar("Value")


class Held:
    """The ids of tonight's chats in the parts that are taken over, read again when a chat is asked for: of all chats they may be many."""

    def __init__(self, rows: PartRows | None = None, parts: Mapping[Path, Iterable[str]] | None = None) -> None:
        """`parts`: which chats have rows in each."""
        self._rows, self._parts = rows, dict[str, list[Path]]()
        for part, chats in (parts or {}).items():
            for chat_id in chats:
                self._parts.setdefault(chat_id, []).append(part)

    def of(self, chat_id: str) -> frozenset[str]:
        """StorageError if a part has changed since it was looked at."""
        found = list[str]()
        for part in self._parts.get(chat_id, ()):
            if self._rows is None or (ids := self._rows.held(part, chat_id)) is None:
                raise StorageError(f"{part} has changed while the night read it. Run the night again.")
            found += ids
        return frozenset(found)


class WordRows:
    """The rows of `lexical/` and `notes/`, as tonight's chats want them."""

    def __init__(
        self, folder: ChunkFolder, zone: ZoneInfo, *, indexed: Callable[[Chunk, ZoneInfo], str] = indexed_text
    ) -> None:
        """`indexed`: the text by which a chunk is searched."""
        self._folder, self._zone, self._indexed = folder, zone, indexed
        self._chunks = lru_cache(8)(self._read)

    @property
    def tonight(self) -> Iterable[str]:
        """Tonight's chats that have rows."""
        return self._folder.chats

    def wanted(self, chat_id: str) -> int:
        """How many rows a chat of tonight has, including ones that repeat a vector."""
        return len(self._folder.chats.get(chat_id, ()))

    def held(self, part: Path, chat_id: str) -> list[str] | None:
        """The ids of a chat's rows in a part; None if one of them is not wanted any more, or has changed."""
        wanted, chunks = self._chunks(chat_id), _chunks_in(part, chat_id)
        return [one.chunk_id for one in chunks] if all(wanted.get(one.chunk_id) == one for one in chunks) else None

    def rows(
        self, held: Held, merged: Sequence[Path], others: Iterable[str], written: Counter[str]
    ) -> Iterator[tuple[Chunk, str]]:
        """(chunk, indexed text) of what no part that is taken over has, in order of chat and time; counts them in `written`."""
        for chat_id in sorted({*self._folder.chats, *others}):
            if chat_id in self._folder.chats:
                known, rows = held.of(chat_id), self._folder.read(chat_id)
                wanted = (row for row in rows if row[0].chunk_id not in known)
            else:
                chunks = [chunk for part in merged for chunk in _chunks_in(part, chat_id)]
                chunks.sort(key=lambda chunk: (chunk.started_at, turn_order(chunk.chunk_id)))
                wanted = ((chunk, self._indexed(chunk, self._zone)) for chunk in chunks)
            for row in wanted:
                written[chat_id] += 1
                yield row

    def _read(self, chat_id: str) -> dict[str, Chunk]:
        return {chunk.chunk_id: chunk for chunk, _ in self._folder.read(chat_id)}


def own_words(chunk: Chunk, zone: ZoneInfo) -> str:  # noqa: ARG001 - as indexed_text
    """What a note is searched by."""
    return chunk.text


def other_chats(part: Path, tonight: Collection[str] | None) -> list[str]:
    """The chats in a part that are not tonight's, where those are not all."""
    if tonight is None:
        return []
    with damage_named(part), closing(open_closed(part)) as connection:
        found = [chat_id for (chat_id,) in connection.execute("SELECT chat_id FROM chats ORDER BY chat_no")]
    return [chat_id for chat_id in found if chat_id not in tonight]


def _chunks_in(part: Path, chat_id: str) -> list[Chunk]:
    with damage_named(part), closing(open_closed(part)) as connection:
        sql = f"SELECT {COLUMNS} FROM chunks WHERE chat_id = ?"  # noqa: S608 - constants
        return [chunk_of(row) for row in connection.execute(sql, (chat_id,))]


class VectorRows:
    """The same of `vectors/` and `note_vectors/`."""

    def __init__(self, rows: Rows, dimensions: int) -> None:
        self._rows, self._dimensions = rows, dimensions

    @property
    def tonight(self) -> Iterable[str]:
        return self._rows.chats

    def wanted(self, chat_id: str) -> int:
        counts = self._rows.counts(chat_id)
        return counts.vectors + counts.repeats

    def held(self, part: Path, chat_id: str) -> list[str] | None:
        import numpy as np

        from shared.vectors.vector_files import STORED, read_chat

        ids, vectors, repeats = read_chat(part, chat_id, self._dimensions)
        wanted = self._rows.chat(chat_id)
        numbers = {one: number for number, one in enumerate(wanted.ids)}
        if any(one not in numbers for one in ids) or any(
            wanted.repeats.get(one) != first for one, first in repeats.items()
        ):
            return None
        exact = self._rows.vectors(chat_id)[[numbers[one] for one in ids]] if ids else vectors
        if not np.array_equal(vectors, exact.astype(STORED).astype(np.float32)):
            return None
        return [*ids, *repeats]

    def corpus(self, held: Held, merged: Sequence[Path], others: Collection[str]) -> Corpus:
        """What no part that is taken over has; a chat's vectors are read when it is asked for."""
        from shared.vectors.vector_files import read_chat

        counts, repeats = dict[str, int](), dict[str, dict[str, str]]()
        for chat_id in self._rows.chats:
            rows, known = self._rows.chat(chat_id), held.of(chat_id)
            counts[chat_id] = sum(one not in known for one in rows.ids)
            if more := {one: first for one, first in rows.repeats.items() if one not in known}:
                repeats[chat_id] = more
        carried = set[str]()
        for chat_id in others:
            for part in merged:
                ids, _, again = read_chat(part, chat_id, self._dimensions)
                if ids:
                    carried.add(chat_id)
                    counts[chat_id] = counts.get(chat_id, 0) + len(ids)
                if again:
                    repeats.setdefault(chat_id, {}).update(again)

        def read(chat_id: str) -> tuple[list[str], Vectors]:
            if chat_id in carried:
                return self._merged(chat_id, merged)
            known, ids = held.of(chat_id), self._rows.chat(chat_id).ids
            vectors = self._rows.vectors(chat_id)
            if not known:
                return ids, vectors
            rows = [row for row, one in enumerate(ids) if one not in known]
            return [ids[row] for row in rows], vectors[rows]

        counts = {chat_id: count for chat_id, count in sorted(counts.items()) if count}
        return Corpus(_ReadLate(counts, read), repeats, counts=counts)

    def _merged(self, chat_id: str, merged: Sequence[Path]) -> tuple[list[str], Vectors]:
        import numpy as np

        from shared.vectors.vector_files import read_chat

        found = [read_chat(part, chat_id, self._dimensions) for part in merged]
        return [one for ids, _, _ in found for one in ids], np.concatenate([vectors for _, vectors, _ in found])


PartRows = WordRows | VectorRows


class _ReadLate(Mapping[str, Value]):
    """Values that are read when they are asked for, and not kept."""

    def __init__(self, names: Collection[str], read: Callable[[str], Value]) -> None:
        self._names, self._read = names, read

    def __getitem__(self, name: str) -> Value:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
