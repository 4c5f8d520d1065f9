"""Encryption at rest on the night host (shared/system/keys/sealing.py): lines of files, and databases that must not reach the disk.

a line of a night's own files       base64 of the record, sealed with the night's key, which is destroyed when the night is done
a line of the archive               {"kind": "sealed", "about": …, "body": …}: what the record is, sealed with the archive's key, and the whole
                                    record, sealed with the key of its chat
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import orjson

from shared.system.keys import sealing
from shared.system.keys.sealing import ARCHIVE, IMPORTS, KeyDestroyed, chat_key
from shared.wire.ids import chat_id_of
from shared.wire.json import RecordRefused, loads_object

#: The name of the key of what a night writes for itself.
NIGHT = "night"
SEALED = "sealed"
#: What of an archived record is known without the key of its chat: enough to say that it was erased.
_ABOUT = ("kind", "key", "sha256")
_LINE, _BODY = "night's line", "archived"
#: Of what is no JSON, perhaps because its end is missing: a chat that it names.
_NAMED = re.compile(rb'"chat_id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)')

Record = dict[str, Any]


def night_line(content: bytes) -> bytes:
    """A line of JSON as it is written to a file of the night; the line feed is not part of it."""
    if not sealing.is_on():
        return content
    return b64encode(sealing.seal(NIGHT, content, _LINE, local=True))


def read_night_line(line: bytes) -> bytes:
    """As it was given to `night_line`."""
    line = line.rstrip(b"\n")
    return line if line[:1] in (b"{", b"[") else sealing.unseal(b64decode(line, validate=True), _LINE)


def import_line(content: bytes) -> bytes:
    """A line of a staged import, which waits for the next night: sealed with a key that stays until no import waits that has it."""
    return b64encode(sealing.seal(IMPORTS, content, _LINE)) if sealing.is_on() else content


#: As it was given to `import_line`: sealed text names its key.
read_import_line = read_night_line


def destroy_night_key() -> None:
    """What the night wrote for itself can be read by nobody."""
    if sealing.is_on():
        keys = sealing.keys()
        keys.destroy_own(keys.ids_of([NIGHT]))


def destroy_import_keys(waiting: Iterable[bytes]) -> None:
    """No copy of a staged import can be read, except those that wait; `waiting`: a line of each of them."""
    keys = sealing.keys()
    used = {sealing.key_id_of(b64decode(line)) for line in waiting if line[:1] != b"{"}
    if ids := [one for one in keys.ids_of([IMPORTS]) if one not in used]:
        keys.destroy(ids)


def archive_line(record: Record, chat_id: str | None, timestamp: float | None) -> bytes:
    """A record as it stands in a segment. Without a chat it is sealed with the archive's key: tombstones, and what remains of erased records, are
    needed when the chat's key is gone."""
    if not sealing.is_on():
        return orjson.dumps(record)
    about = {name: record.get(name) for name in _ABOUT} | {"chat_id": chat_id, "timestamp": timestamp}
    if record["kind"] == "quarantine" and timestamp is None:  # it is no turn: what remains of it is its hash
        about |= {"key": None, "chat_id": None}
    body = orjson.dumps(record)
    key = ARCHIVE if chat_id is None else chat_key(chat_id)
    return orjson.dumps(
        {
            "kind": SEALED,
            "about": b64encode(sealing.seal(ARCHIVE, orjson.dumps(about), "about")).decode(),
            "body": b64encode(sealing.seal(key, body, _BODY)).decode(),
        }
    )


def read_archive_line(line: bytes) -> Record:
    """As it was given to `archive_line`. If the key of its chat was destroyed: what remains of an erased record, or {} of a text."""
    record: Record = orjson.loads(line)
    if record["kind"] != SEALED:
        return record
    try:
        found: Record = orjson.loads(sealing.unseal(b64decode(record["body"], validate=True), _BODY))
    except KeyDestroyed:
        about = orjson.loads(sealing.unseal(b64decode(record["about"], validate=True), "about"))
        if about["kind"] == "text":
            return {}
        left = ("key", "chat_id", "timestamp", "sha256")
        return {"kind": "erased", **{name: about[name] for name in left}}
    return found


def named_chat(value: bytes) -> str | None:
    """The chat that a record names which is no turn; None if it names none that is valid."""
    with suppress(RecordRefused, ValueError):
        return chat_id_of(loads_object(value).get("chat_id"))
    found = _NAMED.search(value)
    with suppress(RecordRefused, ValueError):
        return chat_id_of(orjson.loads(found[1])) if found else None
    return None


def is_gone(line: bytes) -> bool:
    """Whether a line of the archive is sealed with a key that was destroyed, and is to be written as what remains of it."""
    record = orjson.loads(line)
    return record["kind"] == SEALED and sealing.is_destroyed(b64decode(record["body"]))


def prepare_keys(chats: Iterable[str]) -> None:
    """Make the keys of many chats at once."""
    if sealing.is_on():
        sealing.keys().prepare(map(chat_key, chats))


def scratch_name(path: str = "") -> str:
    """Where a database that is of no use afterwards lies: in memory alone, if nothing may reach the disk."""
    return ":memory:" if sealing.is_on() else path
