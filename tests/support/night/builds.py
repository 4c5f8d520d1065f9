"""Nights of one host up to their build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
from redis import Redis

from nightly.index import previous
from nightly.index.chunk_file import line_of, writing_chunks
from nightly.night.folder import STATE, Night
from nightly.night.lease import Lease
from nightly.night.progress import Reporter
from nightly.steps import build, note
from shared.config.kinds import place_of
from shared.config.settings import load_settings
from shared.release.chats import COUNTED
from shared.release.parts import part_files
from shared.system.files import make_dir
from shared.turns.chunk import Chunk
from shared.vectors.base import Corpus
from shared.vectors.vector_files import read_part
from tests.support.night.index_world import DIMENSIONS, IDENTITY, vector_of

VECTORS = place_of("sqlite")


def said(chat: str, number: int, text: str | None = None) -> Chunk:
    turn = f"t{number}-{chat}:user"
    return Chunk(f"{turn}#1", chat, f"t{number}", (turn,), "user", "anna", text or f"note {number} of {chat}", 1.0, 1.0)


def talk(count: int, chats: tuple[str, ...] = ("9912", "-100123")) -> list[Chunk]:
    return [said(chat, number) for chat in chats for number in range(count)]


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """A new file: the old one is a link to what a night has built."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(change(content))


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


class Said(Reporter):
    """Keeps what a person would be told."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class Nights:
    """Nights of one host up to their build: chunks and vectors are given, no Redis is asked."""

    def __init__(self, root: Path, indexes: str = "sqlite") -> None:
        self.settings = load_settings(hmem_night_dir=root / "night", night_indexes=indexes)
        self.runs, self.report = 0, Said()

    @property
    def last(self) -> Path:
        return self.settings.hmem_night_dir / "last"

    def night(
        self, chunks: list[Chunk], *, refused: dict[str, str] | None = None, rebuild: bool = False, **identity: Any
    ) -> Night:
        self.runs += 1
        folder = make_dir(self.settings.hmem_night_dir / "nights" / str(self.runs))
        (folder / STATE).write_bytes(orjson.dumps({"parent": None, "rebuild": rebuild}))
        night = Night(self.settings, folder, cast(Redis, None), cast(Lease, None), self.report)
        by_chat: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            by_chat.setdefault(chunk.chat_id, []).append(chunk)
        with writing_chunks(night.begin("chunk")) as writer:
            for chat, own in by_chat.items():
                writer.add(chat, (line_of(c, c.text) for c in own))
        chunks = [chunk for own in by_chat.values() for chunk in own]
        carried = dict.fromkeys(("chats", *COUNTED), 0)
        accounts: dict[str, Any] = {chat: {} for chat in by_chat}
        night.commit("chunk", {"everything": True, "recipe": {}, "carried": carried, "accounts": accounts})
        night.commit("note", note.run(night, night.begin("note")))
        vectors = np.array(
            [np.zeros(DIMENSIONS) if c.chunk_id in (refused or {}) else vector_of(c.text) for c in chunks], np.float32
        ).reshape(-1, DIMENSIONS)
        np.save(night.begin("embed") / "vectors.npy", vectors)
        embedding = {**IDENTITY.to_json(), "probes": [[self.runs]], **identity}
        night.commit("embed", {"embedding": embedding if embedding["family"] else None, "refused": refused or {}})
        return night

    def build(self, chunks: list[Chunk], **more: Any) -> tuple[Night, dict[str, Any]]:
        night = self.night(chunks, **more)
        result = build.run(night, night.begin("build"))
        night.commit("build", result)
        night.begin("summarise")
        night.commit("summarise", {"places": {}, "files": {}})
        return night, result

    def published(self, chunks: list[Chunk], **more: Any) -> dict[str, Any]:
        night, result = self.build(chunks, **more)
        previous.keep(night)
        return result

    @property
    def built(self) -> Path:
        """What the newest build has made."""
        return self.settings.hmem_night_dir / "nights" / str(self.runs) / "build"

    def contents(self) -> dict[str, dict[str, bytes]]:
        """Chat -> chunk id -> stored vector, of the newest build."""
        found: dict[str, dict[str, bytes]] = {}
        for part in part_files(self.built / VECTORS):
            for chat, ids, vectors in read_part(part, DIMENSIONS):
                rows = zip(ids, map(np.ndarray.tobytes, vectors), strict=True)
                found.setdefault(chat, {}).update(rows)
        return found


def of_chunks(chunks: list[Chunk], repeats: dict[str, dict[str, str]] | None = None) -> Corpus:
    """Each chunk with the vector of its text."""
    chats: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        chats.setdefault(chunk.chat_id, []).append(chunk)
    ids = {chat: [chunk.chunk_id for chunk in own] for chat, own in chats.items()}
    vectors = {chat: (ids[chat], np.array([vector_of(chunk.text) for chunk in own])) for chat, own in chats.items()}
    return Corpus(vectors, repeats or {})


INDEXED = [*talk(1100, ("9912",)), *talk(60, ("-100123",))]
