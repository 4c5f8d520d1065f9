"""A forgetting that is under way: `<HMEM_STATE_DIR>/forgetting/<id>.json`, mode 0600, durable before anything is touched.

It holds pieces of the words (for the proof at the end), so it goes as soon as the receipt is there; until then a resumed command needs no more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from dispatcher.forget.scope import Asked, Scope
from shared.byte_scan import Needles
from shared.errors import InvalidInput, StorageError
from shared.files import fsync_dir, locked_file, make_dir, read_own, write_atomic
from shared.records import Tombstone, dumps, loads_object

FOLDER, LOCK = "forgetting", "lock"


@dataclass
class Journal:
    """`layers`: place → what was done → how often, of all attempts. `later`: the archive's part is left to the next night."""

    scope: Scope
    needles: Needles
    forget_id: str = field(default_factory=lambda: f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid4().hex[:8]}")
    started_at: float = field(default_factory=time.time)
    later: bool = False
    layers: dict[str, dict[str, int]] = field(default_factory=dict)

    def count(self, layer: str, **numbers: int) -> None:
        """Add to what was done in a layer."""
        counts = self.layers.setdefault(layer, {})
        for name, number in numbers.items():
            counts[name] = counts.get(name, 0) + number

    def to_json(self) -> bytes:
        scope = self.scope
        return dumps(
            {
                "id": self.forget_id,
                "started_at": self.started_at,
                "later": self.later,
                "asked": scope.asked.to_json(),
                "stones": [orjson.loads(stone.to_json()) for stone in scope.stones],
                "memory_chats": sorted(scope.memory_chats),
                "tasks": sorted(scope.tasks),
                "sessions": sorted(scope.sessions),
                "windows": [piece.encode("utf-8", "replace").decode() for piece in self.needles.windows],
                "words": [piece.encode("utf-8", "replace").decode() for piece in self.needles.words],
                "layers": self.layers,
            }
        )

    @classmethod
    def from_json(cls, raw: bytes) -> Journal:
        record: dict[str, Any] = loads_object(raw)
        asked = record["asked"] | {"turn_ids": tuple(record["asked"].get("turn_ids", ()))}
        stones = [Tombstone.parse(orjson.dumps(one)) for one in record["stones"]]
        chats, tasks, sessions = (set[str](record[name]) for name in ("memory_chats", "tasks", "sessions"))
        scope = Scope(Asked(**asked), stones, chats, tasks, sessions, chosen=True)
        needles = Needles(tuple(record["windows"]), tuple(record["words"]))
        return cls(scope, needles, record["id"], record["started_at"], record["later"], record["layers"])


class Journals:
    """All of them, in a state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / FOLDER

    def unfinished(self) -> list[Journal]:
        """Oldest first."""
        found = []
        for path in sorted(self.folder.glob("[!.]*.json")) if self.folder.is_dir() else []:
            try:
                found.append(Journal.from_json(read_own(path)))
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError) as error:
                raise StorageError(
                    f"{path} cannot be read ({error!r}), so what it was to forget is not known. Remove it, then give hmem forget again."
                ) from error
        return found

    def names(self) -> list[str]:
        """Ids of the unfinished ones, readable or not."""
        return sorted(path.stem for path in self.folder.glob("[!.]*.json")) if self.folder.is_dir() else []

    def write(self, journal: Journal) -> None:
        write_atomic(make_dir(self.folder) / f"{journal.forget_id}.json", journal.to_json())

    def remove(self, journal: Journal) -> None:
        (self.folder / f"{journal.forget_id}.json").unlink(missing_ok=True)
        fsync_dir(self.folder)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One forgetting at a time on this host; halves that a crash has left in the directory go."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked_file(make_dir(self.folder) / LOCK, wait=False))
            except BlockingIOError as error:
                raise InvalidInput(
                    "Another hmem forget is at work on this host. Wait until it has ended, then run it again."
                ) from error
            for left in self.folder.glob(".*.tmp"):
                left.unlink(missing_ok=True)
            yield
