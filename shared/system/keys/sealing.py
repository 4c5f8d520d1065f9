"""Encryption at rest: everything that is stored of a chat goes through `seal`, and back through `unseal`.

Without ENCRYPT_KEY_FILE both return what they are given. What was stored before encryption was switched on has no mark, and is returned as it is.

    mark (8 bytes), id of the data key (8 bytes), AES-SIV of the text, bound to `about`

`about` says what the text is (a turn's id, a column): sealed text is refused in a place that is called otherwise. A key's name is `chat:<id>` or
that of a place. Every process has one set of keys (`configure`), because text is sealed deep inside readers and writers of every format.
"""

from __future__ import annotations

import hmac
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shared.errors import EncryptionKeyMissing
from shared.system.keys.encryption_key import EncryptionKey
from shared.system.keys.keyring import ID_BYTES, DataKey, Keyring, PassingKeyring
from shared.text.caches import cached

if TYPE_CHECKING:
    from shared.config.settings import Settings
    from shared.system.keys.exchange import Exchange

#: Who runs: a dispatcher or the owner's command, a night, or who receives releases on the day host.
Role = Literal["day", "night", "receiver"]
#: Those whose keys are kept in a file.
ROLES: tuple[Role, ...] = ("day", "night")
MARK = b"\x00hmseal1"
HEAD = len(MARK) + ID_BYTES
#: Ahead of sealed text in a column of text. Text that people write does not begin with a control character.
TEXT_MARK = "\x01hmem-sealed-1:"
#: Characters of Base64 that hold mark and key id.
_HEAD_TEXT = -(-HEAD // 3) * 4
#: How often keys of other hosts are taken over by a program that goes on and on; a key that is needed and missing is looked for at once.
SYNC_SECONDS = 600.0
#: Texts and vectors of the day store that are kept opened: some 2 KB each.
OPENED_KEPT = 4096
#: Keys that belong to no chat: lines of the archive, vectors by text, staged imports, what is not a chat's in the day store.
ARCHIVE, CACHE, IMPORTS = "archive", "cache", "imports"


class KeyDestroyed(EncryptionKeyMissing):
    """The key of what is to be read was destroyed: the chat was forgotten."""


def chat_key(chat_id: str) -> str:
    """The name of a chat's key."""
    return f"chat:{chat_id}"


def keyring_path(key_file: Path, role: Role) -> Path:
    """Beside the owner's key: each role's program writes its own file, since they may run as different users."""
    return key_file.with_name(f"{key_file.name}.{role}.keys")


class Sealing:
    """The keys of one process."""

    def __init__(self, key_file: Path, role: Role, exchange: Exchange | None = None) -> None:
        """EncryptionKeyMissing if the owner's key or the keyring cannot be read."""
        self.key_file, self.role, self._exchange = key_file, role, exchange
        self._lock = threading.RLock()
        owner = EncryptionKey.load(key_file)
        self.own = (Keyring if role in ROLES else PassingKeyring)(owner, keyring_path(key_file, role))
        others = (keyring_path(key_file, other) for other in ROLES if other != role)
        self._others = [Keyring(owner, path) for path in others]
        self._names: dict[str, DataKey] = {}
        self._ids: dict[str, DataKey] = {}
        self._synced = -SYNC_SECONDS
        self.reload()

    @property
    def owner(self) -> EncryptionKey:
        """The owner's key, as the keyring has followed it."""
        return self.own.owner

    def reload(self) -> None:
        """Read the keyrings again if they have changed."""
        with self._lock:
            self.own.refresh()
            ids = dict(self.own.keys)
            for other in self._others:
                try:
                    other.refresh()
                except (EncryptionKeyMissing, OSError):
                    continue  # another user's; Redis has what is shared
                ids |= {i: key for i, key in other.keys.items() if i not in self.own.destroyed and i not in ids}
            if self._ids.keys() - ids.keys():
                _forget_opened()
            self._ids, self._names = ids, {}

    def follow(self) -> None:
        """Read the keyrings again if another process has changed ours. Takes microseconds: for every transaction that writes."""
        if self.own.has_changed():
            self.reload()

    def sync(self) -> None:
        """Take over the keys that other hosts have made, and offer ours. Without Redis the files are what is known."""
        self.reload()
        self._synced = time.monotonic()
        if self._exchange is None:
            return
        with self._lock:
            if self._exchange.sync(self.own):
                self._write_owner()
                self.reload()
            if shared := [key for i, key in self._ids.items() if i not in self.own.keys and not key.local]:
                self.own.learn(shared)

    def keep_up(self) -> None:
        """For what is repeated: `sync` now and then, and otherwise only what another process of this host has changed."""
        if time.monotonic() - self._synced >= SYNC_SECONDS:
            self.sync()
        else:
            self.follow()

    def key(self, name: str, *, local: bool = False) -> DataKey:
        """The key of a name; a new one is durable before it is used."""
        with self._lock:
            found = self._names.get(name) or self._find(name)
            if found is None:
                self.sync()
                found = self._find(name)
            if found is None:
                found = DataKey.new(name, local=local)
                self.own.add([found])
                self._ids[found.key_id] = found
                if self._exchange is not None and not local:
                    self._exchange.offer(self.own, [found])
            self._names[name] = found
            return found

    def by_id(self, key_id: str) -> DataKey:
        """KeyDestroyed or EncryptionKeyMissing if it is not there."""
        found = self._ids.get(key_id)
        if found is not None:
            return found
        with self._lock:
            self.reload()
            if key_id not in self._ids and not self._is_destroyed(key_id):
                self.sync()
            if found := self._ids.get(key_id):
                return found
            if self._is_destroyed(key_id):
                raise KeyDestroyed("The key of this text was destroyed, because its chat was forgotten.")
        raise EncryptionKeyMissing(
            f"The keyring {self.own.path} lacks the key {key_id} of what is to be read. Put your copy of the keyring back (hmem key restore)."
        )

    def prepare(self, names: Iterable[str]) -> None:
        """Make the keys of many names at once, which is faster than one by one."""
        with self._lock:
            known = {key.name for key in self._ids.values() if not key.retired}
            missing = set(names) - known
            if missing:
                self.sync()
                missing -= {key.name for key in self._ids.values() if not key.retired}
            new = [DataKey.new(name) for name in sorted(missing)]
            if new:
                self.own.add(new)
                self.reload()
                if self._exchange is not None:
                    self._exchange.offer(self.own, new)

    @property
    def shared(self) -> tuple[str, frozenset[str]]:
        """What a copy of the keyring is of: the owner's key (fingerprint), and the ids of all keys that other hosts may have."""
        return self.owner.fingerprint, frozenset(i for i, key in self._ids.items() if not key.local)

    def ids_of(self, names: Collection[str], until: float | None = None) -> list[str]:
        """All keys of these names, those that encrypt nothing more included; `until`: made no later (POSIX seconds)."""
        with self._lock:
            self.sync()
            return [i for i, key in self._ids.items() if key.name in names and (until is None or key.created <= until)]

    def retire(self, ids: list[str]) -> None:
        """These keys encrypt nothing more: the next text gets a new one."""
        with self._lock:
            self.own.add([self._ids[one] for one in ids if one in self._ids])  # perhaps it is in another role's file
            self.own.retire(ids)
            self.reload()

    def destroy(self, ids: list[str]) -> None:
        """In this host's keyring, and in Redis."""
        with self._lock:
            self.own.destroy(ids)
            if self._exchange is not None:
                self._exchange.destroy(ids)
            self.reload()
        _forget_opened()

    def destroy_own(self, ids: list[str]) -> None:
        """Keys that only this host has."""
        with self._lock:
            self.own.destroy(ids)
            self.own.forget_destroyed(ids)
            self.reload()
        _forget_opened()

    def _is_destroyed(self, key_id: str) -> bool:
        return key_id in self.own.destroyed or any(key_id in other.destroyed for other in self._others)

    def _find(self, name: str) -> DataKey | None:
        open_ = [key for key in self._ids.values() if key.name == name and not key.retired]
        return min(open_, key=lambda key: (key.created, key.key_id), default=None)

    def _write_owner(self) -> None:
        """The owner's key was changed on another host: follow, if this user may."""
        try:
            if EncryptionKey.load(self.key_file).fingerprint != self.owner.fingerprint:
                self.owner.write(self.key_file)
        except OSError:
            pass  # the keyring leads from the earlier key to this one


class _Current:
    """What this process was started with; the keys are read when they are first needed: the bot never needs them."""

    make: Callable[[], Sealing] | None = None
    sealing: Sealing | None = None
    lock = threading.Lock()


def configure(settings: Settings, role: Role) -> None:
    """Which keys this process has; none without ENCRYPT_KEY_FILE."""
    key_file = settings.encrypt_key_file if role == "day" else settings.key_file_of_night
    redis_url = settings.redis_url
    if key_file is None:
        use(None)
        return

    def make() -> Sealing:
        from shared.system.keys.exchange import Exchange

        return Sealing(key_file, role, Exchange(redis_url))

    use(make)


def use(make: Callable[[], Sealing] | None) -> None:
    """As `configure`, for those who make the keys themselves."""
    with _Current.lock:
        _Current.make, _Current.sealing = make, None
    _forget_opened()


def is_on() -> bool:
    """Whether encryption is on."""
    return _Current.make is not None


def keys() -> Sealing:
    """The keys of this process. EncryptionKeyMissing if they cannot be read, or if encryption is off."""
    if (found := _Current.sealing) is not None:
        return found
    with _Current.lock:
        if _Current.make is None:
            raise EncryptionKeyMissing(
                "What is to be read is encrypted, but ENCRYPT_KEY_FILE is not set. Set it to the file of your encryption key."
            )
        if _Current.sealing is None:
            _Current.sealing = _Current.make()
        return _Current.sealing


def require() -> None:
    """EncryptionKeyMissing, at the start of a program, unless the keys can be read or encryption is off."""
    if is_on():
        keys().sync()


@lru_cache(maxsize=4096)
def cipher(secret: bytes) -> Any:
    """AES-SIV with a data key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    return AESSIV(secret)


def seal(name: str, data: bytes, about: str, *, local: bool = False) -> bytes:
    """Encrypted with the key of a name. `local`: a key that stays on this host."""
    if not is_on():
        return data
    key = keys().key(name, local=local)
    sealed: bytes = cipher(key.secret).encrypt(data, [about.encode()])
    return MARK + bytes.fromhex(key.key_id) + sealed


def unseal(data: bytes, about: str) -> bytes:
    """As it was given to `seal`; unmarked data as it is. KeyDestroyed, EncryptionKeyMissing; ValueError if it is damaged or of another place."""
    if not data.startswith(MARK):
        return data
    key = keys().by_id(key_id_of(data))
    from cryptography.exceptions import InvalidTag

    try:
        plain: bytes = cipher(key.secret).decrypt(data[HEAD:], [about.encode()])
    except InvalidTag as error:
        raise ValueError("encrypted data is damaged, or was written for another place") from error
    return plain


@cached(OPENED_KEPT)
def unseal_again(data: bytes, about: str) -> bytes:
    """As `unseal`, for what is read again and again: the turns of a day with each message. What was opened last is kept in memory."""
    return unseal(data, about)


@cached(OPENED_KEPT)
def unseal_text_again(text: str, about: str) -> str:
    """The same of text."""
    return unseal_text(text, about)


def _forget_opened() -> None:
    """What was opened with a key that is destroyed now."""
    for one in (cipher, _lookup_key, unseal_again, unseal_text_again):
        one.cache_clear()


def is_sealed(data: bytes) -> bool:
    return data.startswith(MARK)


def is_destroyed(data: bytes) -> bool:
    """Whether the key of sealed data was destroyed."""
    if not is_sealed(data):
        return False
    try:
        keys().by_id(key_id_of(data))
    except KeyDestroyed:
        return True
    return False


def key_id_of(data: bytes) -> str:
    """Of sealed data."""
    return data[len(MARK) : HEAD].hex()


def key_id_of_text(text: str) -> str:
    """Of sealed text."""
    start = len(TEXT_MARK)
    return key_id_of(b64decode(text[start : start + _HEAD_TEXT]))


def seal_text(name: str, text: str, about: str) -> str:
    """For a column of text."""
    if not is_on():
        return text
    return TEXT_MARK + b64encode(seal(name, text.encode(), about)).decode()


def unseal_text(text: str, about: str) -> str:
    """As `unseal`."""
    if not text.startswith(TEXT_MARK):
        return text
    return unseal(b64decode(text[len(TEXT_MARK) :]), about).decode()


def keyed(name: str, text: str) -> str:
    """A stand-in for a word that is looked up, which only the key's holder can make: 24 hex digits of HMAC-SHA256. The word itself if encryption is
    off."""
    return keyed_with(keys().key(name).secret, text) if is_on() else text


def keyed_with(secret: bytes, text: str) -> str:
    """The same with a known key."""
    return hmac.digest(_lookup_key(secret), text.encode(), "sha256")[:12].hex()


@lru_cache(maxsize=4096)
def _lookup_key(secret: bytes) -> bytes:
    return hmac.digest(secret, b"hcli-memory lookup", "sha256")
