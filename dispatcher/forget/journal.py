"""A forgetting that is under way: `<HMEM_STATE_DIR>/forgetting/<id>.json`, mode 0600, durable before anything is touched.

It holds pieces of the words (for the proof at the end), so it goes as soon as the receipt is there; until then a resumed command needs no more.

The directory is the dispatcher's, and a journal says what the owner's key is to sign. So each is signed with that key itself, and one that is
not (somebody else wrote it, or it was begun without the key) is carried out only after the owner has seen what it says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson

from dispatcher.forget.request import ForgetRequest, Scope
from shared.errors import InvalidInput, StorageError
from shared.system.byte_scan import Needles
from shared.system.files import fsync_dir, locked_file, make_dir, read_own, write_atomic
from shared.turns.records import Tombstone, dumps, loads_object

if TYPE_CHECKING:
    from shared.system.owner_key import Signing

FOLDER, LOCK = "forgetting", "lock"


@dataclass
class Journal:
    """`layers`: place → what was done → how often, of all attempts. `later`: the archive's part is left to the next night.

    `trusted`: this command has made it, or it has the owner's signature.
    """

    scope: Scope
    needles: Needles
    forget_id: str = field(default_factory=lambda: f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid4().hex[:8]}")
    started_at: float = field(default_factory=time.time)
    later: bool = False
    layers: dict[str, dict[str, int]] = field(default_factory=dict)
    trusted: bool = True

    def count(self, layer: str, **numbers: int) -> None:
        """Add to what was done in a layer."""
        counts = self.layers.setdefault(layer, {})
        for name, number in numbers.items():
            counts[name] = counts.get(name, 0) + number

    @property
    def summary(self) -> str:
        """What would be forgotten by it, in a sentence."""
        parts = [
            f"{len(stone.named)} turns of chat {stone.chat_id}"
            if stone.named
            else f"all of chat {stone.chat_id} so far"
            for stone in self.scope.stones
        ]
        chats = sorted(self.scope.memory_chats - {stone.chat_id for stone in self.scope.stones})
        return ", ".join(parts + [f"memories of chat {chat_id}" for chat_id in chats]) or "nothing"

    def to_json(self, signing: Signing) -> bytes:
        scope = self.scope
        return _signed(
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
            },
            signing,
        )

    @classmethod
    def from_json(cls, raw: bytes, signing: Signing) -> Journal:
        from shared.system.owner_key import verifies  # brings a library that `hmem status` does without

        record: dict[str, Any] = loads_object(raw)
        signature = str(record.pop("signature", ""))
        trusted = signing.key is not None and verifies(signature, _signed_bytes(record), signing.key.public)
        asked = record["asked"] | {"turn_ids": tuple(record["asked"].get("turn_ids", ()))}
        stones = [Tombstone.parse(orjson.dumps(one)) for one in record["stones"]]
        chats, tasks, sessions = (set[str](record[name]) for name in ("memory_chats", "tasks", "sessions"))
        scope = Scope(ForgetRequest(**asked), stones, chats, tasks, sessions, chosen=True)
        needles = Needles(tuple(record["windows"]), tuple(record["words"]))
        return cls(scope, needles, record["id"], record["started_at"], record["later"], record["layers"], trusted)


def unfinished_names(state_dir: Path) -> list[str]:
    """Ids of the forgettings that are not complete, whether their journals can be read or not."""
    folder = state_dir / FOLDER
    return sorted(path.stem for path in folder.glob("[!.]*.json")) if folder.is_dir() else []


def _signed(record: dict[str, Any], signing: Signing) -> bytes:
    more = {"signature": signing.key.signature(_signed_bytes(record))} if signing.key else {}
    return dumps(record | more)


def _signed_bytes(record: dict[str, Any]) -> bytes:
    return b"hcli-memory forgetting\n" + json.dumps(record, sort_keys=True, separators=(",", ":")).encode("ascii")


class Journals:
    """All of them, in a state directory. `signing` gives the owner's key, which is opened when the first journal is read or written."""

    def __init__(self, state_dir: Path, signing: Callable[[], Signing]) -> None:
        self.folder, self._signing = state_dir / FOLDER, signing

    def unfinished(self) -> list[Journal]:
        """Oldest first."""
        found = []
        for path in sorted(self.folder.glob("[!.]*.json")) if self.folder.is_dir() else []:
            try:
                found.append(Journal.from_json(read_own(path), self._signing()))
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError) as error:
                raise StorageError(
                    f"{path} cannot be read ({error!r}), so what it was to forget is not known. Remove it, then give hmem forget again."
                ) from error
        return found

    def write(self, journal: Journal) -> None:
        write_atomic(make_dir(self.folder) / f"{journal.forget_id}.json", journal.to_json(self._signing()))

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
