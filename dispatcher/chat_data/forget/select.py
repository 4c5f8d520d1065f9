"""Finds what a request covers in Redis, the day store, the release and the archive, and makes tombstones of it.

The archive is read if it is on this host, because turns that were forgotten in the chat are only hidden there. If it is on another host, turns
that are only in the archive are covered by a request for the whole chat, or by their ids. A text is compared with every turn: an index of words
does not find parts of words. Release and archive are read chat by chat and line by line, and only what is covered is kept.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

from redis import Redis

from dispatcher.chat_data.forget.layers.files import find_kept
from dispatcher.chat_data.forget.layers.redis import RedisLayer
from dispatcher.chat_data.forget.layers.store import Stored, StoreLayer
from dispatcher.chat_data.forget.layers.tasks import Running, TasksLayer
from dispatcher.chat_data.forget.request import ForgetRequest, Scope, erasing, erasing_each
from dispatcher.memory.store.memories import Memory
from dispatcher.memory.tombstones import Forgotten
from dispatcher.releases.night_command import archive_is_here, read_archive
from shared.config.settings import Settings
from shared.errors import HmemError, InvalidInput
from shared.release.chats import ChatTable
from shared.release.imports import only_in, released_batches
from shared.release.manifest import LEXICAL, current_release
from shared.search.lexical import LexicalIndex
from shared.turns.chunk import Chunk
from shared.turns.events import is_event_turn, turn_id_of
from shared.turns.records import ROLES, RecordRefused, Tombstone, Turn
from shared.wire import keys

RELEASE, ARCHIVE, EVENTS = "release: turns", "archive: turns", "archive: events"
FILES = "kept files of messages"


@dataclass
class Selection:
    """`turns`: (chat, turn id) → time and text of the covered turns; `texts`: everything the scan searches for; `layers`: place → count;
    `unread`: the archive or the release was not read.

    The scan does not search for summaries: they repeat the words of the turns, also of the remaining ones.
    """

    scope: Scope
    turns: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    tasks: list[Running] = field(default_factory=list)
    layers: Counter[str] = field(default_factory=Counter)
    unread: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do. Never for a whole chat whose turns may be in an archive that was not read."""
        named = self.unread if self.scope.asked.kind == "chat" else self.scope.tombstones
        return not (named or self.layers or self.tasks)


@dataclass(frozen=True)
class Known:
    """A turn as stored in one place.

    `title`: of its conversation, by which it is found, too; no scan searches for that, since turns that remain may have the same. `files`: SHA-256
    and size of the ones kept with it.
    """

    chat_id: str
    turn_id: str
    at: float
    text: str
    session: str | None
    place: str
    title: str = ""
    files: tuple[tuple[str, int], ...] = ()


class Selector:
    """Reads only."""

    def __init__(self, settings: Settings, client: Redis, store: StoreLayer | None, tasks: TasksLayer) -> None:
        self._settings, self._client = settings, client
        self._redis, self._store, self._tasks = RedisLayer(client), store, tasks
        self._unread = False

    def select(self, asked: ForgetRequest, forget_id: str) -> Selection:
        now = time.time()
        known = [one for one in self._known(asked) if asked.concerns(one.chat_id) and _meant(asked, one, now)]
        selection = Selection(Scope(asked, _tombstones(asked, known, forget_id, now)), unread=self._unread)
        for one in known:
            if one.place == EVENTS:
                selection.texts.append(one.text)
                continue
            selection.turns[one.chat_id, one.turn_id] = (one.at, one.text)
            selection.scope.sessions |= {one.session} if one.session else set()
            selection.scope.files |= {(one.turn_id.rpartition(":")[0], *file) for file in one.files}
        missing = set(asked.turn_ids) - {turn_id for _, turn_id in selection.turns}
        if missing and not asked.hidden:
            _refuse_unknown(asked, missing, self._settings)
        selection.layers.update(one.place for one in known if one.place in (RELEASE, ARCHIVE, EVENTS))
        self._add_layers(selection, forget_id, now)
        selection.layers[FILES] = len(selection.scope.files)
        selection.texts += [text for _, text in selection.turns.values()]
        if asked.kind == "import":  # the same words may be known from elsewhere
            selection.texts.clear()
        selection.layers = +selection.layers
        return selection

    def _add_layers(self, selection: Selection, forget_id: str, now: float) -> None:
        """Add everything but the turns. Tasks come before Redis' other keys, some of which are found by task id."""
        scope = selection.scope
        if self._store:
            stored = self._store.find(scope)
            selection.memories = stored.memories
            selection.texts += stored.texts
            selection.layers.update(stored.counts)
            scope.memory_chats |= {memory.chat_id for memory in stored.memories}
            scope.tombstones += _tombstones_of_events(scope.asked, stored, forget_id, now)
        selection.tasks = self._tasks.covered(scope)
        scope.tombstones += _tombstone_of_tasks(scope, selection.tasks)
        selection.texts += [one.text for one in selection.tasks]
        scope.tasks |= {turn_id.rpartition(":")[0] for _, turn_id in selection.turns}
        scope.tasks |= {one.task.task_id for one in selection.tasks if one.task}
        if scope.whole_chat:
            client: Any = self._client
            awaited = client.lrange(keys.pending(scope.whole_chat), 0, -1)  # of these only the id is known
            scope.tasks |= {raw.decode("utf-8", "replace") for raw in awaited}
        scope.files |= {(one.task_id, one.sha256, one.size) for one in find_kept(self._client, scope)}
        for entry in self._redis.find(scope):
            selection.layers[entry.layer] += 1
            selection.texts += entry.texts

    def _known(self, asked: ForgetRequest) -> Iterator[Known]:
        if asked.kind == "import":  # the archive says what it brought, or the release
            yield from (_archived if archive_is_here(self._settings) else _brought)(self._settings, asked)
            return
        for key, raw in self._redis.turns():
            with suppress(RecordRefused):
                yield _of_turn(Turn.parse(key, raw), "redis")
        for stored in self._store.turns.every(asked.chat_id) if self._store else ():
            yield _of_turn(stored.turn, "store")
        self._unread = not archive_is_here(self._settings)
        for read in (_released, _archived):
            try:
                yield from read(self._settings, asked)
            except (HmemError, sqlite3.Error):
                if asked.kind != "chat":  # a whole chat needs no list of its turns
                    raise
                self._unread = True


def _released(settings: Settings, asked: ForgetRequest) -> Iterator[Known]:
    yield from _released_turns(settings, asked.chat_id)
    if asked.kind == "matching" and not archive_is_here(settings):  # names of imported files
        for event in (one.event for one in released_batches(settings.hmem_memory_dir)):
            yield Known(event.chat_id, event.turn_id, event.began_at, " ".join(event.texts), None, EVENTS)


def _released_turns(settings: Settings, chat_id: str | None) -> Iterator[Known]:
    for _, passages in groupby(released_chunks(settings, chat_id), key=attrgetter("chat_id", "turn_ids")):
        first, *more = passages
        words = " ".join(one.words for one in (first, *more))
        yield Known(first.chat_id, first.turn_ids[0], first.started_at, words, None, RELEASE)


def _brought(settings: Settings, asked: ForgetRequest) -> Iterator[Known]:
    """What only this import has brought, as the release says. Turns of which it has no words (hidden ones) are named without any."""
    batches = partial(released_batches, settings.hmem_memory_dir, undone_imports(settings))
    for chat_id, left in only_in(asked.batch, batches).items():
        for one in _released_turns(settings, chat_id):
            if one.turn_id in left:
                left.remove(one.turn_id)
                yield one
        for turn_id in left:
            yield Known(chat_id, turn_id, time.time(), "", None, EVENTS if is_event_turn(turn_id) else ARCHIVE)


def _archived(settings: Settings, asked: ForgetRequest) -> Iterator[Known]:
    """Read by the night's command, because only the night reads the archive."""
    if not archive_is_here(settings):
        return
    wanted = [("chat", asked.chat_id), ("only-in", asked.batch)]
    if asked.batch:
        wanted += [("undone", one) for one in undone_imports(settings)]
    for turn in read_archive(settings, *(f"--{name}={value}" for name, value in wanted if value)):
        place, files = EVENTS if turn.get("event") else ARCHIVE, turn.get("kept", ())
        said = (turn["chat_id"], turn["turn_id"], turn["timestamp"], turn["words"])
        kept = tuple((str(sha256), int(size)) for sha256, size in files)
        yield Known(*said, None, place, turn.get("title", ""), kept)


def undone_imports(settings: Settings) -> set[str]:
    """The events of imports that are undone, as their tombstones name them."""
    stones = Forgotten(settings.hmem_state_dir).all()
    return {one for stone in stones if stone.undo for one in stone.named if is_event_turn(one)}


def released_chunks(settings: Settings, chat_id: str | None = None, place: str = LEXICAL) -> Iterator[Chunk]:
    """The chunks of the release in use, of one chat or chat by chat; none if there is no release. In NOTES are the notes of turns, each as a chunk of
    its turn."""
    release = current_release(settings.hmem_memory_dir)
    if release is None or not (release / place).is_dir():
        return
    with closing(LexicalIndex(release / place)) as index:
        for one in sorted(index.chunks_per_chat()) if chat_id is None else [chat_id]:
            yield from index.chunks_of(one)


def release_summaries(settings: Settings) -> Iterator[tuple[str, str]]:
    """(chat, summary) of the release in use."""
    release = current_release(settings.hmem_memory_dir)
    if release is not None:
        with ChatTable.of(release) as chats:
            yield from chats.summaries()


def _of_turn(turn: Turn, place: str) -> Known:
    files = tuple((one.sha256, one.size) for one in turn.media if one.kept)
    return Known(turn.chat_id, turn.turn_id, turn.timestamp, turn.words, turn.session, place, turn.title, files)


def _meant(asked: ForgetRequest, one: Known, now: float) -> bool:
    if asked.kind == "chat":
        return asked.before is None or one.at < min(asked.before, now)
    if asked.kind == "turn":
        return one.turn_id in asked.turn_ids
    if asked.kind == "import":
        return True
    return asked.holds(one.text) or asked.holds(one.title)


def _tombstones(asked: ForgetRequest, known: list[Known], forget_id: str, now: float) -> list[Tombstone]:
    """One for each chat. A whole chat gets a second one if a clock was ahead: it names the turns that are dated in the future."""
    if asked.kind == "chat":
        chat_id = str(asked.chat_id)
        found = [Tombstone(f"erase-{forget_id}", chat_id, now, asked.before, erase=True)]
        late = {one.turn_id: one.at for one in known if one.at >= now}
        return [*found, erasing(f"erase-{forget_id}-late", chat_id, now, late)] if late else found
    times_by_chat: dict[str, dict[str, float | None]] = {}
    if asked.kind == "turn" and asked.chat_id:
        times_by_chat[asked.chat_id] = dict.fromkeys(asked.turn_ids)
    for one in known:
        times_by_chat.setdefault(one.chat_id, {})[one.turn_id] = one.at
    return erasing_each(f"erase-{forget_id}-", now, times_by_chat, undo=asked.kind == "import")


def _tombstones_of_events(asked: ForgetRequest, stored: Stored, forget_id: str, now: float) -> list[Tombstone]:
    """For the events of covered memories and rows of features, which may come from no covered turn."""
    by_chat: dict[str, dict[str, float | None]] = {}
    subjects: list[Any] = [*stored.memories, *(one for some in stored.of_features.values() for one in some)]
    for one in subjects:
        by_chat.setdefault(one.chat_id, {})[turn_id_of(one.uid)] = None
    return [] if asked.kind == "chat" else erasing_each(f"erase-{forget_id}-events", now, by_chat)


def _tombstone_of_tasks(scope: Scope, tasks: list[Running]) -> list[Tombstone]:
    """For the turns that running tasks of a forgotten chat may still store: their answers are dated after the other tombstones."""
    named = [one.task.task_id for one in tasks if one.task]
    if not scope.whole_chat or not named:
        return []
    first = scope.tombstones[0]
    ids = dict.fromkeys(f"{task_id}:{role}" for task_id in named for role in ROLES)
    return [erasing(f"{first.tombstone_id}-tasks", scope.whole_chat, first.created_at, ids)]


def _refuse_unknown(asked: ForgetRequest, missing: set[str], settings: Settings) -> None:
    """InvalidInput for unknown turn ids. For a task named without a role one turn is enough. If the archive is on another host, a turn of a
    named chat may be in there."""
    tasks = {turn_id.rpartition(":")[0] for turn_id in asked.turn_ids if turn_id not in missing}
    unknown = sorted(turn_id for turn_id in missing if turn_id.rpartition(":")[0] not in tasks)
    if unknown and archive_is_here(settings):
        raise InvalidInput(
            f"{unknown[0]} is not in Redis, the day store, the release or the archive, so nothing was forgotten. "
            "hmem search --json and hmem history --json show the ids."
        )
    if unknown and asked.chat_id is None:
        raise InvalidInput(
            f"{unknown[0]} is not in Redis, the day store or the release, so its chat is unknown. "
            "Give the chat too (--chat) to forget it in the archive."
        )
