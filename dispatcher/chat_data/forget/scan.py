"""The byte scan after a forgetting: searches every file and every value of every layer for pieces of the erased text.

Pieces that also occur in a remaining text are no evidence, so they are left out first. Single words are searched for only in our own files,
because other programs' files contain words anyway. Words of our own source code are left out as well.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from redis import Redis, ResponseError

from dispatcher.chat_data.forget.journal import FOLDER
from dispatcher.chat_data.forget.layers.claude import ClaudeLayer
from dispatcher.chat_data.forget.layers.redis import RedisLayer
from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.chat_data.forget.layers.tasks import TasksLayer
from dispatcher.chat_data.forget.request import Scope
from dispatcher.chat_data.forget.select import release_summaries, released_chunks
from shared.config.settings import Settings
from shared.config.values import names_a_host
from shared.errors import HmemError
from shared.release.imports import released_batches
from shared.release.manifest import NOTES, current_release, read_manifest
from shared.system.byte_scan import Needles, Scanned, own_words, scan, scan_values
from shared.system.files import sha256_file
from shared.system.privileges import as_owner_of
from shared.text.format import in_batches
from shared.turns.records import RecordRefused, Turn
from shared.wire import key_table, keys
from shared.wire.handed_over import ImportHandOver

#: Texts that are cut into words at once.
TEXTS_AT_ONCE = 2_000


@dataclass
class Proof:
    """Searches; `store` is None where there is none."""

    settings: Settings
    client: Redis
    store: StoreLayer | None
    tasks: TasksLayer
    scope: Scope

    def search(self, needles: Needles, *, archive: bool) -> dict[str, Any]:
        """The scan's part of the receipt. `archive`: also search release and archive, from which the text must be gone by now."""
        telling = needles.without(itertools.chain(self._remaining_texts(archive=archive), own_words()))
        telling = telling.apart_from(_terms(self._remaining_texts(archive=archive)))
        scanned = self.look(telling, archive=archive)
        left = sorted(self._left_files(archive=archive)) if self.scope.files else []
        return {
            "files": scanned.files,
            "bytes": scanned.bytes,
            "needles": len(telling),
            "also_said_elsewhere": telling.said_elsewhere,
            "archive": archive,
            "found": [*(asdict(one) for one in scanned.found), *({"place": place, "hits": 1} for place in left)],
            "unreadable": scanned.unreadable,
            "kept_files": len(self.scope.files),
            "copies": [copy for copy in self.scope.asked.copies if not _is_free_of(Path(copy), telling)],
        }

    def look(self, telling: Needles, *, archive: bool) -> Scanned:
        """Search every place."""
        settings, store = self.settings, self.store
        state, memory, night = settings.hmem_state_dir, settings.hmem_memory_dir, settings.hmem_night_dir
        scanned = scan([state], telling, skip=[state / FOLDER])
        for owners, places in ((memory, [memory]), (night, [night, *_mirror(settings)])) if archive else ():
            with as_owner_of(owners):  # the night writes its mirror
                scanned.add(scan(places, telling))
        scanned.add(scan(ClaudeLayer(settings).places, telling.only_windows()))
        scanned.add(scan_values(self._redis_values(), telling))
        if store and not store.database.is_sqlite:
            rows = store.database.rows_as_text()
            scanned.add(
                scan_values(((f"store: {table}", text.encode("utf-8", "replace")) for table, text in rows), telling)
            )
        return scanned

    def _left_files(self, *, archive: bool) -> Iterator[str]:
        """What is left of the covered files; with `archive`, they must be gone from archive and mirror, too."""
        scope, night = self.scope, self.settings.hmem_night_dir
        for task_id, sha256, _ in scope.files:
            if self.client.exists(keys.kept(task_id, sha256)):
                yield f"redis: {keys.KEPT}:{task_id}"
        yield from _covered_in([self.settings.hmem_state_dir, *ClaudeLayer(self.settings).places], scope)
        if archive:
            with as_owner_of(night):
                yield from list(_covered_in([night, *_mirror(self.settings)], scope))

    def _remaining_texts(self, *, archive: bool) -> Iterator[str]:
        for key, raw in RedisLayer(self.client).turns():
            with suppress(RecordRefused):
                turn = Turn.parse(key, raw)
                if not self.scope.covers(turn):
                    yield f"{turn.speaker} {turn.words}"
        covered = {one.raw for one in self.tasks.covered(self.scope)}
        yield from (one.text for one in self.tasks.all() if one.raw not in covered)
        yield from (name for one in ImportHandOver(self.client).all() for name in one.files)
        if self.store:
            yield from self.store.texts()
        with suppress(HmemError):  # a release that cannot be read has no texts
            yield from self._released(built_without=archive)

    def _released(self, *, built_without: bool) -> Iterator[str]:
        for chunk in itertools.chain(released_chunks(self.settings), released_chunks(self.settings, place=NOTES)):
            if not self.scope.covers_made(chunk.chat_id, chunk.started_at, chunk.turn_ids):
                yield f"{chunk.speaker} {chunk.words}"
        # Extracted sentences follow from the chunks, which are searched themselves; a model's summary of the chat does not count as remaining.
        left_out = self.scope.chats if self._written_by_model() or not built_without else ()
        yield from (text for chat_id, text in release_summaries(self.settings) if chat_id not in left_out)
        for batch in released_batches(self.settings.hmem_memory_dir):
            if not any(map(batch.event.is_covered_by, self.scope.tombstones)):
                yield from batch.state.files

    def _written_by_model(self) -> bool:
        release = current_release(self.settings.hmem_memory_dir)
        return release is not None and read_manifest(release).summary_model is not None

    def _redis_values(self) -> Iterator[tuple[str, bytes]]:
        client: Any = self.client
        for key in client.scan_iter(match=keys.ALL, count=1000):
            place = "redis: " + _pattern_of(key)
            yield place, key
            try:
                yield from ((place, value) for value in _parts(client, key))
            except ResponseError:  # it has gone, or has another type by now
                continue


def _mirror(settings: Settings) -> list[Path]:
    """The archive's, if it is on this host."""
    mirror = settings.archive_mirror
    return [Path(mirror)] if mirror and not names_a_host(mirror) else []


def _is_free_of(copy: Path, telling: Needles) -> bool:
    """Whether a copy of the archive was read, and has none of it."""
    scanned = scan([copy], telling)
    return bool(scanned.files) and not scanned.found and not scanned.unreadable


def _terms(texts: Iterable[str]) -> Iterator[str]:
    """The words of these texts in the form of an index, some of them more than once: "striving" is indexed as "strive"."""
    from shared.ranking.tokeniser import Tokeniser

    tokeniser = Tokeniser()
    for some in in_batches(texts, TEXTS_AT_ONCE):
        yield from (term for term, _ in tokeniser.postings(some))


def _parts(client: Any, key: bytes) -> list[bytes]:
    """All values of a key, of whatever type."""
    kind = client.type(key)
    if kind == b"string":
        return [value for value in (client.get(key),) if value is not None]
    if kind == b"hash":
        return [part for pair in client.hgetall(key).items() for part in pair]
    if kind in (b"list", b"zset"):
        return list((client.lrange if kind == b"list" else client.zrange)(key, 0, -1))
    return list(client.smembers(key)) if kind == b"set" else []


def _pattern_of(key: bytes) -> str:
    """The key's pattern; its name itself may contain words."""
    text = key.decode("utf-8", "replace")
    fixed = (known.pattern.split("{")[0] for known in key_table.KEYS)
    return max((one for one in fixed if text.startswith(one)), key=len, default="other")


# ── files of messages: by name, wherever files are named after their messages, and by their bytes anywhere ─────────────
# A file that a message which stays has, too, is no evidence: in archive and mirror it has that message's name.


def _covered_in(places: list[Path], scope: Scope) -> Iterator[str]:
    """Files below these places that have such a name, or such bytes."""
    names = {f"{task_id}.{sha256}" for task_id, sha256, _ in scope.files}
    sizes = {size for _, _, size in scope.files if size}
    hashes = {f"sha256:{sha256}" for _, sha256, _ in scope.files}
    for path in (Path(folder) / name for place in places for folder, _, files in os.walk(place) for name in files):
        with suppress(OSError):  # it has gone
            size = path.lstat().st_size
            named = path.name in names and size > 0  # a mirror's key that may not delete leaves the name
            if named or (size in sizes and not _is_anothers_file(path) and sha256_file(path) in hashes):
                yield str(path)


def _is_anothers_file(path: Path) -> bool:
    """Whether it is the file of a message in the archive or its mirror; `named` has decided whether of a forgotten one. Links are not followed."""
    return path.is_symlink() or path.parent.parent.name == "media"
