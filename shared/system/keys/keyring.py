"""The keyring: a file of random data keys, one for each chat and a few for what belongs to no chat, each encrypted with the owner's key.

It lies beside the owner's key, in no directory of data: whoever holds an old copy of the archive, of a release or of the day store holds no key that
opens it, and a chat whose key was destroyed cannot be read in any copy. Losing this file and every copy of it loses what is encrypted, so it is also
in Redis (exchange.py), where the programs of two hosts meet, in the archive's mirror, and in the owner's copy (`hmem key copy`).

    {"format": 1, "owner": fingerprint of the owner's key,
     "keys": {id: {"sealed": base64 of JSON {name, secret, created, retired}, "local": true for one that is not shared}},
     "destroyed": [ids], "successors": {fingerprint of an earlier owner's key: base64 of the next key, encrypted with the earlier one}}
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from shared.errors import EncryptionKeyMissing, StorageError
from shared.system.files import remove_halves, replace_secret
from shared.system.keys.encryption_key import SIV_KEY_BYTES, EncryptionKey

FORMAT = 1
ID_BYTES = 8
#: How many times owner's keys may have followed each other.
_MOST_SUCCESSORS = 10_000


@dataclass(frozen=True)
class DataKey:
    """`secret`: 64 bytes for AES-SIV. `created`: POSIX seconds. A `retired` one still opens what it encrypted, and encrypts nothing more.
    A `local` one is not shared with other hosts."""

    key_id: str
    name: str
    secret: bytes = field(repr=False)
    created: float
    retired: bool = False
    local: bool = False

    @classmethod
    def new(cls, name: str, *, local: bool = False) -> DataKey:
        return cls(os.urandom(ID_BYTES).hex(), name, os.urandom(SIV_KEY_BYTES), time.time(), local=local)

    def sealed(self, owner: EncryptionKey) -> str:
        content = orjson.dumps([self.name, self.secret.hex(), self.created, self.retired])
        return b64encode(owner.seal(content, self.key_id.encode())).decode()

    @classmethod
    def unsealed(cls, key_id: str, sealed: str, owner: EncryptionKey, *, local: bool = False) -> DataKey | None:
        """None if it was not encrypted with this owner's key."""
        try:
            content = owner.unseal(b64decode(sealed), key_id.encode())
            if content is None:
                return None
            name, secret, created, retired = orjson.loads(content)
            return cls(key_id, name, bytes.fromhex(secret), created, retired, local)
        except (ValueError, TypeError):
            return None


@dataclass
class Content:
    """What stands in a keyring file."""

    owner: str
    keys: dict[str, DataKey] = field(default_factory=dict)
    destroyed: set[str] = field(default_factory=set)
    successors: dict[str, str] = field(default_factory=dict)


def follow(owner: EncryptionKey, successors: Mapping[str, str], last: str) -> EncryptionKey | None:
    """The owner's key `last` (a fingerprint), beginning with an earlier one; None if it does not lead there."""
    for _ in range(_MOST_SUCCESSORS):
        if owner.fingerprint == last:
            return owner
        sealed = successors.get(owner.fingerprint)
        line = owner.unseal(b64decode(sealed), b"successor") if sealed else None
        following = EncryptionKey.parse(line.decode()) if line else None
        if following is None:
            return None
        owner = following
    return None


def sealed_successor(old: EncryptionKey, new: EncryptionKey) -> str:
    """An entry of `successors`."""
    return b64encode(old.seal(new.line.encode(), b"successor")).decode()


class Keyring:
    """One file; several processes may change it, one after the other. May be used from several threads."""

    def __init__(self, owner: EncryptionKey, path: Path) -> None:
        """Nothing is read yet, and no file is made before there is a key."""
        self.owner, self.path = owner, path
        self._content = Content(owner.fingerprint)
        self._stat: tuple[int, int, int] | None = None
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Read the file if it has changed; EncryptionKeyMissing if the owner's key does not open it."""
        with self._lock:
            found = self._found()
            if found != self._stat:
                self._content = self._read_settled()
                self._stat = found

    def has_changed(self) -> bool:
        """Whether another process has written the file since it was read."""
        return self._found() != self._stat

    @property
    def keys(self) -> Mapping[str, DataKey]:
        """Id → key."""
        return self._content.keys

    @property
    def destroyed(self) -> Collection[str]:
        return self._content.destroyed

    @property
    def successors(self) -> Mapping[str, str]:
        return self._content.successors

    def add(self, keys: Collection[DataKey]) -> None:
        """Durably; keys that are known, or were destroyed here, are left alone."""
        with self._changing() as content:
            for key in keys:
                if key.key_id not in content.destroyed:
                    content.keys.setdefault(key.key_id, key)

    def learn(self, keys: Collection[DataKey]) -> None:
        """Add keys that are durable elsewhere (in Redis, in another role's file): where this user may not write, they are known until the end."""
        try:
            self.add(keys)
        except StorageError:
            with self._lock:
                for key in keys:
                    self._content.keys.setdefault(key.key_id, key)

    def retire(self, ids: Collection[str]) -> None:
        """These keys encrypt nothing more: the next text gets a new one."""
        with self._changing() as content:
            for key_id in content.keys.keys() & set(ids):
                content.keys[key_id] = replace(content.keys[key_id], retired=True)

    def destroy(self, ids: Collection[str]) -> None:
        """Nothing that these keys encrypted can be read again."""
        with self._changing() as content:
            for key_id in ids:
                content.keys.pop(key_id, None)
            content.destroyed.update(ids)

    def forget_destroyed(self, ids: Collection[str]) -> None:
        """Drop the record of destroyed keys that no other host has known."""
        with self._changing() as content:
            content.destroyed.difference_update(ids)

    def hear_of_destroyed(self, ids: Collection[str]) -> None:
        """Redis says so. No key is destroyed for that: whoever may write there could destroy every chat."""

    def change_owner(self, new: EncryptionKey) -> None:
        """Encrypt the keyring with another owner's key. Whoever has the earlier one and this file gets the new one; not the other way round."""
        with self._changing() as content:
            content.successors[self.owner.fingerprint] = sealed_successor(self.owner, new)
            content.owner = new.fingerprint
            self.owner = new

    def adopt(self, successors: Mapping[str, str], last: str) -> bool:
        """Follow the owner's keys to the one with this fingerprint; False if that is not possible."""
        new = follow(self.owner, {**self._content.successors, **successors}, last)
        if new is None:
            return False
        with self._changing() as content:
            content.successors.update(successors)
            content.owner = new.fingerprint
            self.owner = new
        return True

    @contextmanager
    def _changing(self) -> Iterator[Content]:
        """The content, read and written while no other process does."""
        with self._lock, locked(self.path):
            remove_halves(self.path.parent, self.path.name)  # a kill may have left keys that are to be destroyed
            self._content, self._stat = self._read(), None
            yield self._content
            replace_secret(self.path, dump(self._content, self.owner))
            self._stat = self._found()

    def _found(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read_settled(self) -> Content:
        """A file that is replaced meanwhile, and overwritten, is read again when nobody writes."""
        try:
            return self._read()
        except EncryptionKeyMissing:
            with suppress(StorageError), locked(self.path):  # it cannot be locked: another user's
                return self._read()
            raise

    def _read(self) -> Content:
        try:
            record = orjson.loads(self.path.read_bytes())
        except FileNotFoundError:
            return Content(self.owner.fingerprint)
        except OSError as error:
            raise EncryptionKeyMissing(
                f"The keyring {self.path} cannot be read: {error.strerror}. {_REPAIR}"
            ) from error
        except ValueError as error:
            raise EncryptionKeyMissing(f"The keyring {self.path} is damaged. {_REPAIR}") from error
        content, owner = read_content(record, self.owner, f"The keyring {self.path}")
        self.owner = owner
        return content


class PassingKeyring(Keyring):
    """Of a program that needs keys only while it runs: what it does not keep, nobody has to destroy there."""

    def refresh(self) -> None:
        """There is no file."""

    def has_changed(self) -> bool:
        return False

    def hear_of_destroyed(self, ids: Collection[str]) -> None:
        """It is believed: what those keys encrypted is read as that of a forgotten chat, and no key is lost here."""
        self._content.destroyed.update(ids)

    @contextmanager
    def _changing(self) -> Iterator[Content]:
        with self._lock:
            yield self._content


def dump(content: Content, owner: EncryptionKey) -> bytes:
    """The bytes of a keyring file, encrypted with this owner's key."""
    keys = {
        i: {"sealed": key.sealed(owner), **({"local": True} if key.local else {})} for i, key in content.keys.items()
    }
    record = {"format": FORMAT, "owner": content.owner, "keys": keys, "successors": content.successors}
    return orjson.dumps(record | {"destroyed": sorted(content.destroyed)}, option=orjson.OPT_INDENT_2)


_REPAIR = "Put your copy of it back (hmem key restore)."


def read_content(record: Any, owner: EncryptionKey, place: str) -> tuple[Content, EncryptionKey]:
    """The content of a keyring, and the owner's key that encrypts it, which may be a later one than `owner`. EncryptionKeyMissing if this key does
    not open it; `place` names it, at the beginning of a sentence."""
    try:
        if record["format"] != FORMAT:
            raise EncryptionKeyMissing(f"{place} was written by a newer hcli-memory. Install that here, too.")
        successors = dict(record["successors"])
        found = follow(owner, successors, record["owner"])
        if found is None:
            raise EncryptionKeyMissing(
                f"{place} was encrypted with the owner's key {record['owner']}, but ENCRYPT_KEY_FILE has {owner.fingerprint}. Put that key back, or "
                "a copy of key and keyring that was made later (hmem key restore)."
            )
        keys: dict[str, DataKey] = {}
        for key_id, entry in record["keys"].items():
            key = DataKey.unsealed(key_id, entry["sealed"], found, local=bool(entry.get("local")))
            if key is None:
                raise ValueError(f"key {key_id}")
            keys[key_id] = key
        return Content(found.fingerprint, keys, set(record["destroyed"]), successors), found
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EncryptionKeyMissing(f"{place} is damaged ({error}). {_REPAIR}") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """No other process changes the file meanwhile."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(
            f"The keyring {path} cannot be written: {error.strerror}. The directory of ENCRYPT_KEY_FILE must be writable for the user who runs "
            "this program, because the keys of new chats are written beside the key. Correct its owner or mode."
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
