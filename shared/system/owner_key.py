"""The owner's key: a tombstone that erases counts only with its signature.

Whoever can write to Redis can push a tombstone; one that hides can be lived with, one that erases destroys history. So `hmem forget`, and nothing
else, signs what is to be erased, with a private key (Ed25519, RFC 8032) that lies in a file of the owner's: `OWNER_KEY_FILE`. The night holds the
public half alone: `OWNER_PUBLIC_KEY` in its settings, or `HMEM_NIGHT_DIR/owner.pub`, which the first `hmem forget` on the night's own host
writes. A night that knows no key takes an erasing tombstone as one that hides; one that knows a key refuses what it has not signed.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from shared.config.settings import Settings
from shared.errors import SettingsError, StorageError
from shared.system.files import Modes, make_dir, read_own, write_atomic
from shared.system.privileges import as_owner_of
from shared.turns.records import Tombstone

#: In HMEM_NIGHT_DIR.
TRUSTED = "owner.pub"
_PUBLIC = re.compile(r"[0-9a-f]{64}\Z")
#: The way on where a key is lost or wrong: the night must let go of the old one, too.
NEW_KEY = (
    f"move the key file away, remove {TRUSTED} in HMEM_NIGHT_DIR and OWNER_PUBLIC_KEY from the settings, "
    "then run hmem owner-key (as root if dispatcher and night run as different users), and give the night the key that it prints."
)
WITHOUT_COPY = f"Without a copy, {NEW_KEY}"


class _Held:
    """Keys that were read while this process might: root's command goes on as a user who must not have them."""

    keys: dict[Path, OwnerKey | SettingsError] = {}  # noqa: RUF012 - there is one process


class OwnerKey:
    """The private key. `public` is the other half, as 64 hex digits."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw().hex()

    @classmethod
    def load(cls, path: Path) -> OwnerKey:
        """SettingsError if the file is not a valid key, or if others may read it."""
        if isinstance(held := _Held.keys.get(path), SettingsError):
            raise held
        if held is not None:
            return held
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise SettingsError(
                    f"The owner's key {path} is not a file. Move it away, or set OWNER_KEY_FILE to another path."
                )
            if found.st_mode & 0o077:
                raise SettingsError(
                    f"Others may read or write the owner's key {path}. Run chmod 600 on it; if someone may have read it, make a new key: {NEW_KEY}"
                )
            private = load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(
                f"The owner's key {path} cannot be read ({error}). Restore it from a copy, or name another by OWNER_KEY_FILE. {WITHOUT_COPY}"
            ) from error
        if not isinstance(private, Ed25519PrivateKey):
            raise SettingsError(
                f"The owner's key {path} is no Ed25519 key, which is the only kind that signs here. Restore the right one from a copy. {WITHOUT_COPY}"
            )
        return cls(private)

    @classmethod
    def create(cls, path: Path) -> OwnerKey:
        """A new one, durable in a file that only its owner reads."""
        made = cls(Ed25519PrivateKey.generate())
        make_dir(path.parent)
        write_atomic(path, made._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return made

    def sign(self, tombstone: Tombstone) -> Tombstone:
        """The same again gives the same bytes."""
        return replace(tombstone, signature=self.signature(tombstone.signed_bytes()))

    def signature(self, content: bytes) -> str:
        """Of any bytes, as 128 hex digits."""
        return self._private.sign(content).hex()


def is_signed(tombstone: Tombstone, public: str) -> bool:
    """Whether the key with this public half has signed the tombstone as it is."""
    return verifies(tombstone.signature or "", tombstone.signed_bytes(), public)


def verifies(signature: str, content: bytes, public: str) -> bool:
    """Whether a signature (hex digits) is of these bytes, by the key with this public half."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def trusted_key(settings: Settings) -> str | None:
    """The public key that the night on this host goes by; None if it knows none. PermissionError if its directory may not be read."""
    if settings.owner_public_key:
        return settings.owner_public_key
    path = settings.hmem_night_dir / TRUSTED
    try:
        with as_owner_of(settings.hmem_night_dir):
            text = read_own(path).decode("ascii").strip()
    except FileNotFoundError:
        return None
    except (ValueError, StorageError):
        text = ""
    if not _PUBLIC.match(text):
        raise SettingsError(f"{path} is not a public key. Restore it from a copy, or remove it and run hmem owner-key.")
    return text


@dataclass(frozen=True)
class Signing:
    """What a forgetting signs with, or why it cannot, and the way on if that takes more than a few words."""

    key: OwnerKey | None
    why_not: str = ""
    way_on: str = ""

    def signed(self, tombstone: Tombstone) -> Tombstone:
        """Signed if it erases; without the key, one that only hides."""
        if not tombstone.erase:
            return tombstone
        return self.key.sign(tombstone) if self.key else replace(tombstone, erase=False)


def open_signing(settings: Settings) -> Signing:
    """The owner's key for a command of the owner's.

    On the first use it is made, if the night on this host can be given its public half, or if the night is on another host.
    """
    path = key_file(settings)
    try:
        trusted = trusted_key(settings)
        with as_owner_of(settings.hmem_night_dir):
            here = settings.hmem_night_dir.is_dir()
            writable = here and os.access(settings.hmem_night_dir, os.W_OK, effective_ids=True)
    except PermissionError:
        return _unknown_to_the_night(settings, path)
    if not _is_there(path):
        if trusted is not None:
            missing = f"there is no owner's key at {path} (OWNER_KEY_FILE)"
            return Signing(None, missing, f"Restore it from a copy, as its owner. {WITHOUT_COPY}")
        if (here and not writable) or not _in_own_directory(path):
            return Signing(None, "no owner's key was made yet; run hmem owner-key once, as root")
        key = OwnerKey.create(path)
    else:
        key = OwnerKey.load(path)
    if trusted is None and writable:
        _publish_to_the_night(settings.hmem_night_dir, key.public)
    elif trusted not in (None, key.public):
        other = f"the night on this host uses another key than {path}"
        return Signing(None, other, f"Set OWNER_KEY_FILE to the right key. {WITHOUT_COPY}")
    return Signing(key)


def _publish_to_the_night(directory: Path, public: str) -> None:
    """Written as the night's user, and readable for all before it has its name: nothing is done to what that user may put there instead."""
    with as_owner_of(directory):
        write_atomic(directory / TRUSTED, f"{public}\n".encode("ascii"), Modes(0o644))


def hold_key(settings: Settings) -> None:
    """Read the owner's key, if there is one, for `open_signing` after a change of user; `open_signing` also reports if it cannot be used."""
    path = key_file(settings)
    if path.exists():
        try:
            _Held.keys[path] = OwnerKey.load(path)
        except SettingsError as error:
            _Held.keys[path] = error


def _is_there(path: Path) -> bool:
    """Whether this user may see it; to others it is as if there were none."""
    try:
        return path in _Held.keys or path.exists()
    except PermissionError:
        return False


def _in_own_directory(path: Path) -> bool:
    """Whether the file would be ours: root's command may go on as another user, who must not have the key."""
    with suppress(PermissionError):
        return next(one for one in path.parents if one.exists()).stat().st_uid == os.geteuid()
    return False


def _unknown_to_the_night(settings: Settings, path: Path) -> Signing:
    if _is_there(path):
        return Signing(OwnerKey.load(path))
    return Signing(None, f"there is no owner's key at {path}, and this user may not give {settings.hmem_night_dir} one")


def key_file(settings: Settings) -> Path:
    """SettingsError where neither OWNER_KEY_FILE nor a home directory is known."""
    if settings.owner_key_file is None:
        raise SettingsError("No home directory is known for the owner's key. Set OWNER_KEY_FILE.")
    return settings.owner_key_file
