"""The owner's copy of key and keyring in one file (`hmem key copy`), the way back from it, and the change of the owner's key.

    {"copy": 1, "made": POSIX seconds, "key": the line of the key file, "keyring": as a keyring file has it, of all roles, without local keys}

Beside the key, `<key>.copied` says when the last copy was made, and which keys (ids) are in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from shared.errors import EncryptionKeyMissing, InvalidInput, StorageError
from shared.system.faults import crash_point
from shared.system.files import make_dir, remove_halves, replace_secret, write_atomic
from shared.system.keys.encryption_key import EncryptionKey
from shared.system.keys.keyring import Content, DataKey, Keyring, dump, follow, locked, read_content
from shared.system.keys.sealing import ROLES, Sealing, keyring_path

FORMAT = 1
#: Ahead of the names of keys that belong to chats.
_CHAT = "chat:"


@dataclass(frozen=True)
class KeyState:
    """What `hmem key status` shows. `new_keys` and `new_chats` are in no copy."""

    file: str
    fingerprint: str
    keys: int
    chats: int
    destroyed: int
    copied_at: float | None
    copied_to: str
    new_keys: int
    new_chats: int


@dataclass(frozen=True)
class RestoredKeys:
    """What `hmem key restore` did: how many keys came back, and whether the key file was written."""

    keys: int
    key_written: bool


def make_key(path: Path, key: EncryptionKey | None = None) -> EncryptionKey:
    """A new key, or another user's copy of `key`, in a directory for it alone. InvalidInput as from `new_place`."""
    new_place(path)
    key = key or EncryptionKey.new()
    key.write(path)
    return key


def new_place(path: Path) -> None:
    """Make the directory of a key. InvalidInput where there is a key, a keyring of an earlier one, or anything else."""
    there = [one for one in (path, *(keyring_path(path, role) for role in ROLES)) if one.exists()]
    if there:
        raise InvalidInput(f"{there[0]} is there already, and is left as it is. Give another path, or use that key.")
    directory = make_dir(path.parent)
    others = sorted(one.name for one in directory.iterdir())
    if others or directory.stat().st_mode & 0o022:
        raise InvalidInput(
            f"The key needs a directory of its own, in which nobody else may write, and the keyring is written beside it; {directory} "
            f"{'holds ' + others[0] if others else 'is writable for others'}. Give a path in a new directory."
        )


def state(keys: Sealing) -> KeyState:
    """Of the keyrings on this host, as far as this user may read them."""
    content = _all(keys)
    last, owner = _last_copy(keys.key_file), keys.owner.fingerprint
    shared = [key for key in content.keys.values() if not key.local]
    known = last["keys"]
    if last["key"] == owner:  # then the copy's key opens what is mirrored
        known |= _mirrored(keys.key_file)
    new = [key for key in shared if key.key_id not in known]
    return KeyState(
        str(keys.key_file),
        owner,
        len(shared),
        len(_chats(shared)),
        len(content.destroyed),
        last["at"],
        last["to"],
        len(new),
        len(_chats(new)),
    )


def copied(keys: Sealing) -> tuple[bytes, list[str]]:
    """(what the owner's copy holds, the ids of the keys in it)."""
    keys.sync()
    content, now = _all(keys), time.time()
    content.keys = {key_id: key for key_id, key in content.keys.items() if not key.local}
    owner = keys.owner
    record = {"copy": FORMAT, "made": now, "key": owner.line, "keyring": orjson.loads(dump(content, owner))}
    return orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n", sorted(content.keys)


def keyring(keys: Sealing) -> tuple[bytes, list[str]]:
    """(the keyring, without local keys, as it lies beside backups and mirrors; the ids in it). Only today's owner's key opens it: an earlier one,
    which may have been stolen, does not lead there."""
    keys.sync()
    content = _all(keys)
    content.keys = {key_id: key for key_id, key in content.keys.items() if not key.local}
    content.successors = {}
    return dump(content, keys.owner), sorted(content.keys)


def record_mirrored(key_file: Path, ids: Collection[str]) -> None:
    """Note which keys a mirror of the archive has: with a copy of the owner's key they can be read again."""
    write_atomic(_mirror_note(key_file), orjson.dumps(sorted(ids)))


def record(key_file: Path, target: Path, ids: Collection[str], owner: EncryptionKey) -> None:
    """Note that a copy was made, with which owner's key."""
    note = {"at": time.time(), "to": str(target), "keys": sorted(ids), "key": owner.fingerprint}
    write_atomic(_note(key_file), orjson.dumps(note))


def restore_keyring(key_file: Path, content: bytes, source: str, destroyed: Collection[str] = ()) -> RestoredKeys:
    """Put back a keyring that lay beside a backup or a mirror; the owner's key must be here already. EncryptionKeyMissing if it does not open it,
    unless all of its keys are here: an earlier key encrypted it. `source` names it, at the beginning of a sentence."""
    present = EncryptionKey.load(key_file)
    try:
        ring = orjson.loads(content)
        ids = set(ring["keys"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{source} is not a keyring, so nothing was changed ({error}). Give the right file."
        ) from error
    try:
        _, owner = read_content(ring, present, source)
    except EncryptionKeyMissing:
        if ids <= _known(key_file, present):
            return RestoredKeys(0, key_written=False)
        raise
    record = orjson.dumps({"copy": FORMAT, "key": owner.line, "keyring": ring})
    return restore(key_file, record, source, destroyed)


def restore(key_file: Path, content: bytes, source: str, destroyed: Collection[str] = ()) -> RestoredKeys:
    """Put key and keyring back from a copy. Keys that are here stay, and what was destroyed here (or is named in `destroyed`) stays destroyed. A
    damaged keyring is set aside.

    EncryptionKeyMissing, and nothing is changed, if a keyring here has keys that the copy lacks and that no key opens.
    """
    key, in_copy = _read_copy(content, source)
    present = EncryptionKey.load(key_file) if key_file.exists() else None
    make_dir(key_file.parent)
    paths = [path for role in ROLES if (path := keyring_path(key_file, role)).exists()]
    paths = paths or [keyring_path(key_file, "day")]
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(locked(path))
        in_copy.destroyed |= {*destroyed, *destroyed_beside(key_file)}
        in_copy.keys = {i: one for i, one in in_copy.keys.items() if i not in in_copy.destroyed}
        merged = [(path, *_merged(path, present, key, in_copy)) for path in paths]
        owners = {owner.fingerprint: owner for _, owner, _, _ in merged}
        if len(owners) > 1:
            raise EncryptionKeyMissing(
                f"The keyrings beside {key_file} have different keys. Nothing was changed. Move away the one that is not in use."
            )
        added = 0
        for path, owner, ring, new in merged:
            replace_secret(path, dump(ring, owner))
            added = max(added, new)
    crash_point("key:restored")
    owner = next(iter(owners.values()))
    if present is not None and present.fingerprint == owner.fingerprint:
        return RestoredKeys(added, key_written=False)
    if present is not None:
        present.write(key_file.with_name(f"{key_file.name}.before-restore"))
    owner.write(key_file)
    return RestoredKeys(added, key_written=True)


def destroyed_beside(key_file: Path) -> set[str]:
    """Ids of the keys that any keyring beside the key says to be destroyed. No key is needed to read them."""
    found = set[str]()
    for path in (keyring_path(key_file, role) for role in ROLES):
        with suppress(OSError, ValueError, KeyError, TypeError):
            found.update(orjson.loads(path.read_bytes())["destroyed"])
    return found


def _known(key_file: Path, owner: EncryptionKey) -> set[str]:
    """Ids of the keys that are here, and of those that were destroyed here."""
    found = destroyed_beside(key_file)
    for role in ROLES:
        ring = Keyring(owner, keyring_path(key_file, role))
        with suppress(EncryptionKeyMissing):
            ring.refresh()
        found.update(ring.keys)
    return found


def rotate(keys: Sealing) -> EncryptionKey:
    """Another owner's key: an earlier copy of a keyring cannot be opened with it. StorageError or EncryptionKeyMissing, and nothing is changed, if
    this user may not, or a keyring cannot be read.

    First the keyrings, then the file: a file with the earlier key leads to the new one. In Redis the keys are replaced with the next exchange.
    """
    if why := why_not_rotated(keys.key_file):
        raise StorageError(why)
    new = EncryptionKey.new()
    for ring in list(_rings(keys, all_of_them=True)):
        ring.change_owner(new)
        crash_point("key:ring-changed")
    remove_halves(keys.key_file.parent, keys.key_file.name)
    new.write(keys.key_file)
    crash_point("key:changed")
    keys.sync()
    return new


def why_not_rotated(key_file: Path) -> str:
    """Why this user cannot change the owner's key, in sentences; empty if that is possible."""
    needed = [key_file, *(path for role in ROLES if (path := keyring_path(key_file, role)).exists())]
    for path in needed:
        if path.stat().st_uid != os.geteuid() or not os.access(path.parent, os.W_OK | os.X_OK):
            return (
                f"{path} belongs to another user, or its directory cannot be written, so the encryption key was not changed. "
                "Run hmem key rotate as the user who owns the key and the keyrings beside it."
            )
    return ""


def _rings(keys: Sealing, *, all_of_them: bool = False) -> Iterator[Keyring]:
    """The keyrings beside the key; without `all_of_them` those of other users, which cannot be read, are left out."""
    keys.own.refresh()
    yield keys.own
    for role in ROLES:
        path = keyring_path(keys.key_file, role)
        if path != keys.own.path and path.exists():
            ring = Keyring(keys.owner, path)
            try:
                ring.refresh()
            except (EncryptionKeyMissing, OSError):
                if all_of_them:
                    raise
                continue
            yield ring


def _all(keys: Sealing) -> Content:
    """Of all keyrings together."""
    content = Content(keys.owner.fingerprint)
    for ring in _rings(keys):
        content.keys = dict(ring.keys) | content.keys
        content.destroyed |= set(ring.destroyed)
        content.successors |= dict(ring.successors)
    content.keys = {key_id: key for key_id, key in content.keys.items() if key_id not in content.destroyed}
    return content


def _chats(keys: Collection[DataKey]) -> set[str]:
    return {key.name for key in keys if key.name.startswith(_CHAT)}


def _note(key_file: Path) -> Path:
    return key_file.with_name(f"{key_file.name}.copied")


def _mirror_note(key_file: Path) -> Path:
    return key_file.with_name(f"{key_file.name}.mirrored")


def _mirrored(key_file: Path) -> set[str]:
    try:
        return set(orjson.loads(_mirror_note(key_file).read_bytes()))
    except (OSError, ValueError, TypeError):
        return set()


def _last_copy(key_file: Path) -> dict[str, Any]:
    try:
        note = orjson.loads(_note(key_file).read_bytes())
        return {"at": float(note["at"]), "to": str(note["to"]), "keys": set(note["keys"]), "key": note["key"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {"at": None, "to": "", "keys": set(), "key": ""}


def _read_copy(raw: bytes, source: str) -> tuple[EncryptionKey, Content]:
    """InvalidInput for anything that `copy` did not write."""
    try:
        record = orjson.loads(raw)
        key = EncryptionKey.parse(record["key"])
        if record["copy"] != FORMAT or key is None:
            raise ValueError(f"format {record['copy']}")
        content, owner = read_content(record["keyring"], key, source)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{source} is not a copy that hmem key copy made, so nothing was changed ({error}). Give the right file."
        ) from error
    return owner, content


def _merged(
    path: Path, present: EncryptionKey | None, key: EncryptionKey, in_copy: Content
) -> tuple[EncryptionKey, Content, int]:
    """(the owner's key, the content of a keyring with that of the copy, how many keys are new in it)."""
    if not path.exists():
        return key, in_copy, len(in_copy.keys)
    try:
        record = orjson.loads(path.read_bytes())
        record["successors"] = in_copy.successors | record["successors"]
        ids = set(record["keys"])
    except (ValueError, KeyError, TypeError):
        path.replace(path.with_name(f"{path.name}.damaged"))
        return key, in_copy, len(in_copy.keys)
    for candidate in filter(None, (present, key)):
        try:
            content, owner = read_content(record, candidate, f"The keyring {path}")
        except EncryptionKeyMissing:
            continue
        destroyed = content.destroyed | in_copy.destroyed
        keys = {key_id: one for key_id, one in (in_copy.keys | content.keys).items() if key_id not in destroyed}
        last = follow(owner, content.successors, key.fingerprint) or owner
        merged = Content(last.fingerprint, keys, destroyed, content.successors)
        return last, merged, len(keys.keys() - content.keys.keys())
    lacking = ids - in_copy.keys.keys() - in_copy.destroyed
    if lacking:
        raise EncryptionKeyMissing(
            f"The keyring {path} has {len(lacking)} keys that the copy lacks, and neither the key in {path.parent} nor the copy's opens it. "
            "Nothing was changed. Find that key; if it is lost for ever, move the keyring away (mv), then restore again."
        )
    return key, in_copy, 0
