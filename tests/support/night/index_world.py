"""Releases of made-up words with each of the vector indexes, and the servers that some of them need. No night, no model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shared.config.kinds import indexes, place_of
from shared.config.settings import Settings, load_settings
from shared.embedding.models import DocumentVectors, EmbeddingIdentity
from shared.errors import EmbeddingError
from shared.release.manifest import LEXICAL, Manifest, list_files, read_manifest, seal
from shared.release.parts import Earlier
from shared.search import lexical
from shared.turns.chunk import Chunk
from shared.vectors.base import Corpus, backend_of, builder_of
from shared.vectors.searching import AskingBackend
from tests.support.night.indexes.chat_tables import write_chats

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

DIMENSIONS = 32
IDENTITY = EmbeddingIdentity("made-up", DIMENSIONS, "", "", "test", "d1")
#: Chat id -> chunk id -> text.
Said = Mapping[str, Mapping[str, str]]


def vector_of(text: str) -> Vectors:
    """A unit vector that follows from the text."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    made = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return cast("Vectors", made / np.linalg.norm(made))


class MadeUp:
    """An embedder without a model."""

    identity, texts_at_once = IDENTITY, 1

    def __init__(self) -> None:
        self.asked, self.closed = list[str](), False

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        return DocumentVectors(np.array([vector_of(text) for text in texts]))

    def embed_query(self, text: str) -> Vectors:
        if text == "away":
            raise EmbeddingError("The embedder is away.")
        self.asked.append(text)
        return vector_of(text)

    def close(self) -> None:
        self.closed = True


@contextmanager
def settings_for(names: Sequence[str], root: Path) -> Iterator[Settings]:
    """Settings of a host with these indexes, and the servers that they need."""
    with ExitStack() as servers:
        overrides: dict[str, Any] = {"hmem_state_dir": root / "state"}
        if "qdrant" in names:
            from tests.servers.qdrant_api import qdrant_settings

            overrides |= servers.enter_context(qdrant_settings())
        if "redis" in names:
            from tests.servers.redis8 import redis8_settings

            overrides |= servers.enter_context(redis8_settings())
        yield load_settings(**overrides)


def corpus_of(said: Said) -> Corpus:
    """As the night makes it: each text of a chat once."""
    chats, repeats = {}, {}
    for chat, chunks in said.items():
        first: dict[str, str] = {}
        for chunk_id, text in chunks.items():
            first.setdefault(text, chunk_id)
        chats[chat] = (list(first.values()), np.array([vector_of(text) for text in first]).reshape(-1, DIMENSIONS))
        repeats[chat] = {one: first[text] for one, text in chunks.items() if first[text] != one}
    return Corpus({c: rows for c, rows in chats.items() if rows[0]}, {c: r for c, r in repeats.items() if r})


def make_release(
    settings: Settings,
    root: Path,
    names: Sequence[str],
    said: Said,
    *,
    run: int = 1,
    identity: EmbeddingIdentity | None = IDENTITY,
    earlier: tuple[Path, Said] | None = None,
) -> Path:
    """A sealed release of `said` with these indexes, each of them checked. `earlier`: a release whose parts are taken over, and what they hold."""
    path = root / "releases" / str(run)
    path.mkdir(parents=True)
    corpus = corpus_of(said)
    for name in names:
        builder, last, given = builder_of(name, settings, run), None, corpus
        if name == "sqlite" and earlier:
            place = earlier[0] / place_of(name)
            last = Earlier(place, tuple(one.name for one in place.iterdir()))
            given = _without(corpus, earlier[1])
        builder.build(path / place_of(name), given, last)
        checked = builder.check(path / place_of(name), root / f"scratch-{name}-{run}", given, last)
        assert checked.vectors == given.sizes()
        for file in list_files(path):
            assert re.fullmatch(indexes()[name].files, file) or not file.startswith(place_of(name)), (
                "it would not be received"
            )
    lexical.build(path / LEXICAL, run, _chunks(said))
    per_chat = {chat: len(chunks) for chat, chunks in said.items()}
    sums = write_chats(path, per_chat)
    seal(path, Manifest(run, None, {}, 1, 1, "UTC", list(names), identity, **sums, tombstones={}))
    return path


def _without(corpus: Corpus, held: Mapping[str, Collection[str]]) -> Corpus:
    """What no part holds."""
    chats, repeats = {}, {}
    for chat, (ids, vectors) in corpus.chats.items():
        if rows := [row for row, one in enumerate(ids) if one not in held.get(chat, ())]:
            chats[chat] = ([ids[row] for row in rows], vectors[rows])
    for chat, again in corpus.repeats.items():
        if more := {one: first for one, first in again.items() if one not in held.get(chat, ())}:
            repeats[chat] = more
    return Corpus(chats, repeats)


def _chunks(said: Said) -> Iterator[tuple[Chunk, str]]:
    for chat, chunks in said.items():
        for number, (chunk_id, text) in enumerate(chunks.items()):
            exchange = chunk_id.partition(":")[0]
            yield Chunk(chunk_id, chat, exchange, (chunk_id,), "user", "anna", text, number, number), text


def opened(settings: Settings, path: Path, name: str = "auto") -> AskingBackend:
    found = backend_of(settings.model_copy(update={"memory_backend": name}), path, read_manifest(path))
    assert isinstance(found, AskingBackend), found.why_not
    found.open()
    return found


def notes(chat: str, count: int) -> dict[str, str]:
    return {f"{chat}/{number}": f"note {number} of {chat}" for number in range(count)}


#: What is said in two chats.
SAID = {"1": notes("1", 30), "-2": notes("-2", 12)}


def nearest(found: AskingBackend, question: str, chat: str, said: Said, k: int = 1) -> list[str]:
    """The k nearest chunks of a chat, best first. It is asked for what any chat has said: nothing of another chat has a similarity."""
    every = list(dict.fromkeys(one for chunks in said.values() for one in chunks))
    scores = found.similarities(question, chat, every)
    return [every[row] for row in np.argsort(-scores)[:k] if not np.isnan(scores[row])]


def finds(found: AskingBackend) -> bool:
    """Whether it finds what was said in SAID, or in the first thirty notes of chat 1."""
    return nearest(found, "note 3 of 1", "1", SAID) == ["1/3"]
