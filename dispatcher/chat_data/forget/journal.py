"""A forgetting in progress: `<HMEM_STATE_DIR>/forgetting/<id>.json`, mode 0600, durable before anything is changed.

It contains pieces of the text (for the scan at the end), so it is removed as soon as the receipt is written; a resumed command needs only this file.

The dispatcher can write to the directory, and a journal decides what the owner's key signs. So each journal is signed with that key, and one
without a valid signature (another program wrote it, or the key was missing at the start) is carried out only after the owner has reviewed it.
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

from dispatcher.chat_data.forget.request import ForgetRequest, Scope
from shared.errors import InvalidInput, StorageError
from shared.system.byte_scan import Needles
from shared.system.files import fsync_dir, locked_file, make_dir, read_own, write_atomic
from shared.text.format import counted
from shared.turns.records import Tombstone, dumps, loads_object

if TYPE_CHECKING:
    from shared.system.owner_key import Signing

FOLDER, LOCK = "forgetting", "lock"


@dataclass
class Journal:
    """`layers`: place → what was done → how often, over all attempts. `later`: the archive's part is left to the next night.

    `trusted`: this command created it, or it has the owner's signature.
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
        if any(numbers.values()):
            counts = self.layers.setdefault(layer, {})
            for name, number in numbers.items():
                counts[name] = counts.get(name, 0) + number

    @property
    def summary(self) -> str:
        """What it would forget, in a sentence."""
        parts = [
            f"{counted(len(tombstone.named), 'turn')} of chat {tombstone.chat_id}"
            if tombstone.named
            else f"all of chat {tombstone.chat_id} so far"
            for tombstone in self.scope.tombstones
        ]
        chats = sorted(self.scope.memory_chats - {tombstone.chat_id for tombstone in self.scope.tombstones})
        return ", ".join(parts + [f"memories of chat {chat_id}" for chat_id in chats]) or "nothing"

    def to_json(self, signing: Signing) -> bytes:
        scope = self.scope
        lists = {name: sorted(getattr(scope, name)) for name in ("memory_chats", "tasks", "sessions", "files")}
        record = lists | {
            "id": self.forget_id,
            "started_at": self.started_at,
            "later": self.later,
            "asked": scope.asked.to_json(),
            "stones": [orjson.loads(tombstone.to_json()) for tombstone in scope.tombstones],
            "windows": [piece.encode("utf-8", "replace").decode() for piece in self.needles.windows],
            "words": [piece.encode("utf-8", "replace").decode() for piece in self.needles.words],
            "layers": self.layers,
        }
        more = {"signature": signing.key.signature(_signed_bytes(record))} if signing.key else {}
        return dumps(record | more)

    @classmethod
    def from_json(cls, raw: bytes, signing: Signing) -> Journal:
        from shared.system.owner_key import verifies  # imports a library that `hmem status` does not need

        record: dict[str, Any] = loads_object(raw)
        signature = str(record.pop("signature", ""))
        trusted = signing.key is not None and verifies(signature, _signed_bytes(record), signing.key.public)
        asked = record["asked"] | {name: tuple(record["asked"].get(name, ())) for name in ("turn_ids", "copies")}
        tombstones = [Tombstone.parse(orjson.dumps(one)) for one in record["stones"]]
        chats, tasks, sessions = (set[str](record[name]) for name in ("memory_chats", "tasks", "sessions"))
        files = {(str(task_id), str(sha256), int(size)) for task_id, sha256, size in record.get("files", ())}
        scope = Scope(ForgetRequest(**asked), tombstones, chats, tasks, sessions, files, chosen=True)
        needles = Needles(tuple(record["windows"]), tuple(record["words"]))
        return cls(scope, needles, record["id"], record["started_at"], record["later"], record["layers"], trusted)


def unfinished_names(state_dir: Path) -> list[str]:
    """Ids of the incomplete forgettings, whether their journals can be read or not."""
    folder = state_dir / FOLDER
    return sorted(path.stem for path in folder.glob("[!.]*.json")) if folder.is_dir() else []


def _signed_bytes(record: dict[str, Any]) -> bytes:
    return b"hcli-memory forgetting\n" + json.dumps(record, sort_keys=True, separators=(",", ":")).encode("ascii")


class Journals:
    """The journals in a state directory. `signing` returns the owner's key; it is called when the first journal is read or written."""

    def __init__(self, state_dir: Path, signing: Callable[[], Signing]) -> None:
        self.folder, self._signing = state_dir / FOLDER, signing

    def unfinished(self) -> list[Journal]:
        """Oldest first."""
        found = []
        for path in (self.folder / f"{name}.json" for name in unfinished_names(self.folder.parent)):
            try:
                found.append(Journal.from_json(read_own(path), self._signing()))
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError) as error:
                raise StorageError(
                    f"{path} cannot be read ({error!r}), so its request is unknown. Remove the file, then run hmem forget with the request again."
                ) from error
        return found

    def write(self, journal: Journal) -> None:
        write_atomic(make_dir(self.folder) / f"{journal.forget_id}.json", journal.to_json(self._signing()))

    def remove(self, journal: Journal) -> None:
        (self.folder / f"{journal.forget_id}.json").unlink(missing_ok=True)
        fsync_dir(self.folder)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One forgetting at a time on this host. Removes temporary files that a crash left in the directory."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked_file(make_dir(self.folder) / LOCK, wait=False))
            except BlockingIOError as error:
                raise InvalidInput(
                    "Another hmem forget is running on this host. Wait for it to finish, then run this one again."
                ) from error
            for left in self.folder.glob(".*.tmp"):
                left.unlink(missing_ok=True)
            yield
