"""Embed: one vector a chunk of tonight's chats, and one a note, in their order. Only text that the cache does not know is embedded.

First the embedder is verified to be the expected model; export and archive are done by then, so no turn is lost if it is wrong. A text
that it refuses has no vector (its row is zeros, `build` leaves it out): it is found by keyword, reported in the result with the reason,
and tried again at the next build. The vectors are then without what those of their chat have in common (shared/embedding/centring.py); the cache
has them as the embedder made them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nightly.index.chunk_file import ChunkFolder
from nightly.index.recipe import comparable, night_embedder
from nightly.index.rows import AT_ONCE, CENTRES, MappedRows, write_zeros
from nightly.night.folder import CACHE, Night, damaged_removed
from shared.embedding.centring import centre_of, centred
from shared.embedding.models import Embedder
from shared.errors import EmbeddingError, StorageError
from shared.system.faults import crash_point
from shared.turns.chunk import Chunk
from shared.turns.chunking import embedded_text

if TYPE_CHECKING:
    from nightly.index.vector_cache import VectorCache
    from shared.embedding.models import Vectors

VECTORS, NOTE_VECTORS = "vectors.npy", "note_vectors.npy"
#: Texts between two commits of the cache, unless the embedder takes more at once.
BATCH_TEXTS = 256
#: Above this share of refused texts (of at least FEWEST_TEXTS) the model is at fault, not the texts.
REFUSED_SHARE, FEWEST_TEXTS = 0.1, 20


def run(night: Night, out: Path) -> dict[str, Any]:
    with night_embedder(night.settings) as embedder:
        if embedder is None:
            return {"embedding": None, "embedded": 0, "cached": 0, "not_embedded": 0, "refused": {}}
        return _embed(night, out, embedder)


def _embed(night: Night, out: Path, embedder: Embedder) -> dict[str, Any]:
    from shared.embedding.probes import prove

    identity = replace(embedder.identity, probes=prove(embedder))
    chunked = night.result("chunk")
    if not chunked["everything"] and comparable(identity.to_json()) != chunked["recipe"]["embedding"]:
        raise EmbeddingError(
            "The embedding model was replaced while the night ran, so that vectors of all chats are needed. Run the night again."
        )
    carried = chunked["carried"]["chunks"]
    of_chunks = _embed_folder(night, embedder, night.output("chunk"), out / VECTORS, carried)
    centres = _centre(ChunkFolder(night.output("chunk")), out / VECTORS)
    np.save(out / CENTRES, np.array([*centres.values()], np.float32))
    of_notes = _embed_folder(night, embedder, night.output("note"), out / NOTE_VECTORS, 0, kind="notes")
    _centre(ChunkFolder(night.output("note")), out / NOTE_VECTORS, centres)
    return {
        "embedding": identity.to_json(),
        **of_chunks,
        "note_vectors": of_notes["vectors"],
        "notes_refused": of_notes["refused"],
    }


def _embed_folder(
    night: Night, embedder: Embedder, step: Path, out: Path, carried: int, kind: Literal["chunks", "notes"] = "chunks"
) -> dict[str, Any]:
    """Write the vectors of the chunks in a step's folder; their counts. `carried`: chunks of other chats, which have their vectors."""
    from nightly.index.vector_cache import VectorCache

    folder, path = ChunkFolder(step), night.settings.hmem_night_dir / CACHE
    with (
        damaged_removed(path) as damage,
        closing(VectorCache(path, embedder.identity, night.report.say, kind)) as cache,
    ):
        vectors = write_zeros(out, len(folder), embedder.identity.dimensions)
        filler = _Filler(embedder, cache, vectors, len(folder) + carried)
        chats = night.report.track(folder, len(folder.chats), "embed")
        for chat_id, chunks in chats:
            filler.fill(folder.chats[chat_id], _texts(chunks, kind))
        filler.embed()
        return filler.counts()
    raise StorageError(
        f"{path} is damaged ({damage[0]}) and was removed. Run the night again: it embeds the texts again."
    ) from damage[0]


def _texts(chunks: list[tuple[Chunk, str]], kind: Literal["chunks", "notes"]) -> list[tuple[Chunk, str]]:
    """What is embedded of each; of a note the words that it is found by."""
    return chunks if kind == "notes" else [(chunk, embedded_text(chunk)) for chunk, _ in chunks]


def _centre(folder: ChunkFolder, path: Path, centres: Mapping[str, Vectors] | None = None) -> dict[str, Vectors]:
    """Take from each vector in a file what those of its chat have in common; the centre of each chat, unless they are given."""
    found: dict[str, Vectors] = {}
    mapped = MappedRows(path, write=True)
    for chat_id, rows in folder.chats.items():
        vectors = mapped.looking_at(len(rows))[rows.start : rows.stop]
        centre = found[chat_id] = centre_of(vectors) if centres is None else centres[chat_id]
        for start in range(0, len(rows), AT_ONCE):
            vectors[start : start + AT_ONCE] = centred(vectors[start : start + AT_ONCE], centre)
    return found


class _Filler:
    """Fills in the rows of all texts, chat by chat: from the cache, else a batch at a time from the embedder."""

    def __init__(self, embedder: Embedder, cache: VectorCache, vectors: MappedRows, total: int) -> None:
        self._embedder, self._cache, self._vectors, self._total = embedder, cache, vectors, total
        self._at_once = max(BATCH_TEXTS, embedder.texts_at_once)
        self._missing: dict[str, list[tuple[int, str]]] = {}  # text -> row and id of its chunks, until it is embedded
        self._refused: dict[str, str] = {}  # text -> reason
        self._reasons: dict[str, str] = {}  # chunk id -> reason
        self._embedded = self._cached = 0

    def fill(self, rows: range, chunks: list[tuple[Chunk, str]]) -> None:
        """The chunks of one chat; what the cache does not have waits for a whole batch, or for `embed`."""
        known, vectors = set[str](), self._vectors.looking_at(len(rows))
        cached = self._cache.get_many([text for _, text in chunks])
        for row, (chunk, text), vector in zip(rows, chunks, cached, strict=True):
            if text in self._refused:
                self._reasons[chunk.chunk_id] = self._refused[text]
            elif vector is None:
                self._missing.setdefault(text, []).append((row, chunk.chunk_id))
            else:
                vectors[row] = vector
                known.add(text)
        self._cached += len(known)
        self.embed(least=self._at_once)

    def embed(self, least: int = 1) -> None:
        """A batch after the other, while so many texts are missing; EmbeddingError if the model refuses too much."""
        while len(self._missing) >= least:
            self._embed(list(islice(self._missing, self._at_once)))

    def _embed(self, batch: list[str]) -> None:
        answer = self._embedder.embed_documents(batch)
        refused, made = answer.refused, answer.vectors
        good = [row for row in range(len(batch)) if row not in refused]
        self._cache.put([batch[row] for row in good], made[good])
        self._embedded += len(good)
        vectors = self._vectors.looking_at(len(batch))
        for at, text in enumerate(batch):
            rows = self._missing.pop(text)
            if (reason := refused.get(at)) is None:
                vectors[[row for row, _ in rows]] = made[at]
            else:
                self._refused[text] = reason
                self._reasons |= dict.fromkeys((chunk_id for _, chunk_id in rows), reason)
        crash_point("embed:batch-cached")
        if self._total >= FEWEST_TEXTS and len(self._refused) > REFUSED_SHARE * self._total:
            reason, _ = Counter(self._refused.values()).most_common(1)[0]
            raise EmbeddingError(
                f"The model refused {len(self._refused)} of {self._total} texts ({reason}), which is too many. "
                "Choose a model that accepts them (EMBED_MODEL=nomic-embed-text accepts longer texts), or EMBEDDER=local."
            )

    def counts(self) -> dict[str, Any]:
        return {
            "embedded": self._embedded,
            "cached": self._cached,
            "vectors": len(self._vectors) - len(self._reasons),
            "not_embedded": len(self._reasons),
            "refused": self._reasons,
        }
