"""Events: what changes beside turns, on its way into the archive: typed memories, what features store, what a chat has set.

Each subject has one key, `hcli:mem:event:<kind>:<id>`. Its value is the subject's whole state after the last change, so events that are lost on
the way, repeated or merged leave nothing out: the last one that is archived tells everything.

    {"kind": "memory", "id": "3f…", "chat_id": "4242", "number": 7, "what": "replaced", "at": POSIX seconds, "state": {…} | null}

`state` is null once the subject is gone; then nothing of its words is left in the event. Neither secrets nor settings are ever in one.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from shared.turns.records import Tombstone
from shared.wire import keys
from shared.wire.ids import TASK_ID, chat_id_of, timestamp_of
from shared.wire.json import RecordRefused, dumps, loads_object


class EventKind(StrEnum):
    """What an event of the core is about; features have kinds of their own, which the archive keeps whatever they are."""

    MEMORY = "memory"  # a fact, goal or preference; `replaced_by` in its state: id of the one that took its place
    CHAT = "chat"  # what a chat has set: time zone, language, digest; whether it is a guest. Its id is the chat's
    IMPORT = "import"  # what an import has brought into a chat: written by a night (shared/release/imports.py)


_KIND = re.compile("[a-z]{1,32}")
#: Parts of a state in which nobody's words are: ids.
IDS = ("moved", "batch", "source", "brought")


class EventChange(StrEnum):
    """What happened to the subject."""

    MADE = "made"
    CHANGED = "changed"
    USED = "used"
    REPLACED = "replaced"
    DONE = "done"
    DUE = "due"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class Event:
    """A subject's state after a change. `number`: by which people call it in its chat; 0 for what has none."""

    kind: str
    id: str
    chat_id: str
    what: EventChange
    at: float
    state: dict[str, Any] | None
    number: int = 0

    @property
    def key(self) -> str:
        return keys.event(self.kind, self.id)

    @property
    def turn_id(self) -> str:
        """By which a tombstone names it, as it names turns."""
        return turn_id_of(self.id)

    @property
    def sources(self) -> frozenset[str]:
        """Ids of the turns that it comes from, and its own."""
        return frozenset((self.state or {}).get("source_turn", "").split()) | {self.turn_id}

    @property
    def began_at(self) -> float:
        """When the subject was made; its last change where that is not known."""
        created = (self.state or {}).get("created")
        return float(created) if isinstance(created, int | float) else self.at

    @property
    def state_hash(self) -> bytes:
        """SHA-256 of the state alone."""
        return hashlib.sha256(json.dumps(self.state, sort_keys=True).encode("ascii")).digest()

    @property
    def texts(self) -> list[str]:
        """All words in it. The number of the supergroup that a chat has become is none: it stays when the chat is forgotten."""
        return texts_in({name: value for name, value in (self.state or {}).items() if name not in IDS})

    def is_covered_by(self, tombstone: Tombstone) -> bool:
        """Whether the tombstone is about its words: of a whole chat by the time when it was made, else by the turns that it comes from."""
        if self.state is None or tombstone.chat_id != self.chat_id:
            return False
        if tombstone.turn_ids is None:
            return tombstone.reaches(self.turn_id, self.began_at)
        return not self.sources.isdisjoint(tombstone.turn_ids)

    def to_json(self) -> bytes:
        return dumps(asdict(self))

    @classmethod
    def parse(cls, key: bytes, raw: bytes) -> Self:
        """An event from its Redis key and value, or RecordRefused."""
        record = loads_object(raw)
        try:
            kind, what = record["kind"], EventChange(record["what"])
        except (KeyError, ValueError) as error:
            raise RecordRefused(f"not an event that this program knows: {error}") from error
        state, number, name = record.get("state"), record.get("number", 0), record.get("id")
        if not (state is None or isinstance(state, dict)) or not isinstance(number, int) or not isinstance(name, str):
            raise RecordRefused("state, number or id of the event has another type")
        if not isinstance(kind, str) or not _KIND.fullmatch(kind):
            raise RecordRefused("the kind of the event is not one to 32 letters from a to z")
        if not isinstance((state or {}).get("source_turn", ""), str):
            raise RecordRefused("source_turn of the event has another type")
        made = cls(kind, name, chat_id_of(record.get("chat_id")), what, timestamp_of(record.get("at")), state, number)
        try:
            same = made.key.encode() == key
        except UnicodeEncodeError:  # half a surrogate pair
            same = False
        if not same or (kind != EventKind.CHAT and not TASK_ID.match(name)):
            raise RecordRefused("kind and id in the value differ from the key's")
        return made


def is_event(key: bytes) -> bool:
    """Whether a key is that of an event."""
    return key.startswith(keys.EVENT_PREFIX.encode())


#: How the id begins under which a tombstone names an event. No turn has it: no task id begins like this.
_EVENT_TURN = "event-"


def turn_id_of(event_id: str) -> str:
    """The id under which a tombstone names an event."""
    return f"{_EVENT_TURN}{event_id}:user"


def is_event_turn(turn_id: str) -> bool:
    return turn_id.startswith(_EVENT_TURN)


def texts_in(value: object) -> list[str]:
    """Every string in a value of JSON but for the names of fields."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in texts_in(one)]
