"""Recall: the only access to the turns of a chat. `OpenRelease.recall(query)`, and `DayRecall.recall` before the first night, are the only
searches; a query is for one chat, and so is `turns_back`, which ranks nothing. shared/search/lookup.py does the lookup.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shared.config.settings import Settings
from shared.errors import HmemError, ReleaseRefused, without_words
from shared.ranking.tokeniser import Tokeniser
from shared.release.chats import ChatTable
from shared.release.manifest import (
    CHATS,
    LEXICAL,
    NOTE_VECTORS,
    NOTES,
    REPAIR,
    Manifest,
    prove_file,
    prove_folder,
    read_manifest,
)
from shared.release.retention import reading
from shared.search.lexical import LexicalIndex
from shared.search.lookup import Sources, look_up
from shared.search.types import EmbedQuery, Query, Recalled
from shared.text.format import in_batches
from shared.text.logs import Logger
from shared.turns.records import Turn
from shared.vectors.base import MemoryBackend, NullBackend, backend_of

if TYPE_CHECKING:
    from shared.search.day_items import DayItems, DayTurn
    from shared.search.notes import NoteIndex
    from shared.turns.chunk import Chunk
    from shared.turns.speakers import Speaker

log = Logger()

#: Turns that are read together by `turns_back`.
TURNS_AT_ONCE = 100


class OpenRelease:
    """A release opened for reading: keywords and summaries immediately, vectors after `open_vectors`. Until it is closed it is not pruned.

    Only unmodified files are read: if the keyword index is damaged, the release has summaries only, and `text_missing` says why. With
    MEMORY_BACKEND=summary its index is opened only if a caller asks for more than summaries.
    """

    def __init__(self, settings: Settings, path: Path) -> None:
        self.path = path
        with ExitStack() as stack:
            stack.enter_context(reading(path))
            self.manifest: Manifest = read_manifest(path)
            self._lexical: LexicalIndex | None = None
            self._notes: NoteIndex | None = None
            self.text_missing: str | None = None
            self._chats: ChatTable | None = None
            self._opened, self._opening = False, threading.Lock()
            self._on_purpose = settings.without_vectors
            if settings.memory_backend != "summary":
                self.open_texts()
            self._settings = settings
            self._made: MemoryBackend | None = None
            self._zone = settings.timezone
            self._pool = ThreadPoolExecutor(settings.max_concurrent_tasks, thread_name_prefix="vectors")
            self._stack = stack.pop_all()

    @property
    def run(self) -> int:
        return self.manifest.run

    @property
    def vectors_missing(self) -> str | None:
        """Why vector search is not available now, or None."""
        return None if self._backend.is_available() else self._backend.why_not

    @property
    def has_vectors(self) -> bool:
        """Whether there is anything for `open_vectors` to open."""
        return not isinstance(self._backend, NullBackend)

    def open_texts(self) -> None:
        """Open keywords and texts, once; `text_missing` says why they are not available."""
        with self._opening:
            if not self._opened:
                self._lexical, self.text_missing = _open_lexical(self.path, self.manifest)
                self._notes = _open_notes(self.path, self.manifest)
                self._opened = True

    @property
    def _backend(self) -> MemoryBackend:
        """Made when it is first used: numpy, which it needs, takes 11 MB."""
        with self._opening:
            if self._made is None:
                self._made = backend_of(self._settings, self.path, self.manifest)
            return self._made

    def open_vectors(self) -> None:
        """Slow; runs in the background by day."""
        self._backend.open()

    def without_vectors(self, why: str) -> None:
        """Never open them: from now on every lookup reports `why`."""
        with self._opening:
            replaced, self._made = self._made, NullBackend(why)
        if replaced:
            replaced.close()

    def close(self) -> None:
        with self._stack:
            self._pool.shutdown(wait=True)
            for one in (self._made, self._lexical, self._notes, self._chats):
                if one:
                    one.close()

    def summary(self, chat_id: str) -> str | None:
        """The chat's summary, if it has one; ReleaseRefused if `chats.sqlite` was modified."""
        with self._reading(CHATS):
            row = chats.row(chat_id) if (chats := self._open_chats()) else None
            return row.summary if row else None

    def has(self, chat_id: str) -> bool:
        """Whether the chat has anything to recall here; also true if that cannot be read, so that the search says why."""
        try:
            chats = self._open_chats()
            return chats is None or bool((row := chats.row(chat_id)) and row.counts["chunks"])
        except (ReleaseRefused, sqlite3.Error):
            return True

    def largest_chat(self) -> str | None:
        """A chat with the most chunks; None if there is none, or it cannot be read."""
        try:
            chats = self._open_chats()
            return chats.largest() if chats else None
        except (ReleaseRefused, sqlite3.Error):
            return None

    def chats(self) -> dict[str, int]:
        """Every chat that has something to recall → its turns there. ReleaseRefused if `chats.sqlite` was modified."""
        with self._reading(CHATS):
            rows = ((row.chat_id, row.counts) for row in self._open_chats() or ())
            return {chat_id: counts["with_chunks"] or 0 for chat_id, counts in rows if counts["chunks"]}

    def times(self, chat_id: str) -> dict[str, float]:
        """Turn id → when it was said (POSIX seconds), of all turns of the chat. ReleaseRefused if the file cannot be read."""
        with self._reading(LEXICAL):
            return self._texts().times(chat_id)

    def _open_chats(self) -> ChatTable | None:
        """Open once; None for a release without any chat. ReleaseRefused, again each time, if the file was modified."""
        with self._opening:
            if self._chats is None and CHATS in self.manifest.files:
                with self._reading(CHATS):
                    prove_file(self.path, self.manifest, CHATS)
                    self._chats = ChatTable.of(self.path)
            return self._chats

    def holds(self, chat_id: str, turn_ids: Iterable[str]) -> set[str]:
        """Which of these turns this release can recall. Turns without readable text are never among them: they have no chunk.

        ReleaseRefused if the file cannot be read.
        """
        with self._reading(LEXICAL):
            return self._texts().holding(chat_id, turn_ids)

    def turns(self, chat_id: str, turn_ids: Sequence[str]) -> dict[str, Turn]:
        """These turns of the chat, by id, assembled from their chunks; turns that the release does not contain are left out.

        ReleaseRefused if the file cannot be read.
        """
        with self._reading(LEXICAL):
            return _assembled(self._texts(), chat_id, turn_ids)

    def speakers(self, chat_id: str) -> set[Speaker]:
        """Everybody who spoke in the chat. ReleaseRefused if the file cannot be read."""
        with self._reading(LEXICAL):
            return self._texts().speakers(chat_id)

    def newest_chunk(self, chat_id: str) -> Chunk | None:
        """What was said last in the chat. ReleaseRefused if the file cannot be read."""
        with self._reading(LEXICAL):
            return self._texts().newest_chunk(chat_id)

    def turns_back(
        self,
        chat_id: str,
        since: float | None = None,
        until: float | None = None,
        leave_out: Collection[str] = (),
        *,
        with_files: bool = False,
    ) -> Iterator[Turn]:
        """The chat's turns except `leave_out` (turn ids), the newest first, as `LexicalIndex.turn_ids` finds them; `with_files`: with what is
        remembered of their files.

        ReleaseRefused if the file cannot be read.
        """
        with self._reading(LEXICAL):
            ids = (one for one in self._texts().turn_ids(chat_id, since, until) if one not in leave_out)
            for some in in_batches(ids, TURNS_AT_ONCE):
                found = _assembled(self._texts(), chat_id, some, with_files=with_files)
                yield from (found[turn_id] for turn_id in some if turn_id in found)

    def _texts(self) -> LexicalIndex:
        """The open keyword index. ReleaseRefused with the reason if it cannot be opened."""
        self.open_texts()
        if self._lexical is None:
            raise ReleaseRefused(str(self.text_missing))
        return self._lexical

    @contextmanager
    def _reading(self, place: str) -> Iterator[None]:
        """ReleaseRefused if the files cannot be read."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise ReleaseRefused(f"{self.path / place} cannot be read: {without_words(error)}. {REPAIR}") from error

    def expect(self, query: str) -> None:
        """Start to embed a question for a later `recall`, so that its vector may be ready by then."""
        if self._backend.is_available():
            self._pool.submit(self._backend.vector, query)

    def recall(self, query: Query, embed_query: EmbedQuery | None = None) -> Recalled:
        """Search the chat. `embed_query` makes the query vector for the day's turns if the release's own index is not open.

        ValueError if the query comes with another chat's day.
        """
        self.open_texts()
        sources = Sources(self._lexical, self._backend, self._pool, self._zone, embed_query, self._notes)
        found = look_up(sources, query)
        if self.text_missing:
            return replace(found, degraded=[f"no recalled text: {self.text_missing}"])
        return _as_meant(found, self._on_purpose)


def _assembled(
    lexical: LexicalIndex, chat_id: str, turn_ids: Sequence[str], *, with_files: bool = False
) -> dict[str, Turn]:
    """These turns by id, from their chunks; sqlite3.Error if the file cannot be read."""
    found: dict[str, Turn] = {}
    firsts = lexical.chunks([f"{turn_id}#1" for turn_id in turn_ids], chat_id)
    for chunk in firsts.values():
        more = [f"{chunk.turn_ids[0]}#{number}" for number in range(2, chunk.passages + 1)]
        passages = [chunk, *(lexical.chunks(more, chat_id).values() if more else ())]
        name = None if chunk.speaker in ("user", "assistant") else chunk.speaker
        said = [one for one in sorted(passages, key=lambda one: one.passage) if with_files or not one.of_a_file]
        text = "\n".join(one.text for one in said)
        found[chunk.turn_ids[0]] = Turn(
            chunk.task_id,
            chunk.role,
            chat_id,
            text,
            chunk.started_at,
            name,
            extra=chunk.origin.to_json(),
            user_id=chunk.user_id,
        )
    return found


class DayRecall:
    """Recall from the day's turns alone, while there is no release yet; also makes every chat's `DayItems`. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._zone = settings.timezone
        self._pool = ThreadPoolExecutor(settings.max_concurrent_tasks, thread_name_prefix="day-vectors")
        self._on_purpose = settings.without_vectors
        self._backend = NullBackend(self._on_purpose or "there is no release yet, and no embedder by day")
        self._tokeniser = Tokeniser()

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def items(self, chat_id: str, turns: Iterable[DayTurn]) -> DayItems:
        """One chat's turns for `recall`, as `DayItems.of` makes them."""
        from shared.search.day_items import DayItems

        return DayItems.of(chat_id, turns, self._tokeniser)

    def recall(self, query: Query, embed_query: EmbedQuery | None = None) -> Recalled:
        """As `OpenRelease.recall`."""
        sources = Sources(None, self._backend, self._pool, self._zone, embed_query)
        return _as_meant(look_up(sources, query), self._on_purpose)


def _as_meant(found: Recalled, on_purpose: str | None) -> Recalled:
    """Remove the reason that is only a setting, not a failure."""
    if on_purpose is None:
        return found
    return replace(found, degraded=[why for why in found.degraded if why != f"no vector search: {on_purpose}"])


def _open_notes(path: Path, manifest: Manifest) -> NoteIndex | None:
    """The notes of a release, if it has any and the files are unmodified: they only help to find, so the search works without them."""
    if not any(name.startswith(f"{NOTES}/") for name in manifest.files):
        return None
    from shared.search.notes import NoteIndex  # numpy, late

    try:
        prove_folder(path, manifest, NOTES)
        if has_vectors := any(name.startswith(f"{NOTE_VECTORS}/") for name in manifest.files):
            prove_folder(path, manifest, NOTE_VECTORS)
        dimensions = manifest.embedding.dimensions if manifest.embedding and has_vectors else None
        return NoteIndex(path / NOTES, path / NOTE_VECTORS, dimensions)
    except (HmemError, OSError, sqlite3.Error) as error:
        log.warning("the notes of the turns are not used", release=manifest.run, error=str(error))
        return None


def _open_lexical(path: Path, manifest: Manifest) -> tuple[LexicalIndex | None, str | None]:
    """The keywords and texts of a release, if the files are unmodified; or None and why."""
    try:
        prove_folder(path, manifest, LEXICAL)
        return LexicalIndex(path / LEXICAL), None
    except ReleaseRefused as error:
        return None, str(error)
    except (OSError, sqlite3.Error) as error:
        return (None, f"{path / LEXICAL} cannot be opened: {without_words(error)}. {REPAIR}")
