"""The owner's key: a tombstone that erases counts only with its signature.

Whoever can write to Redis can push a tombstone; one that hides can be lived with, one that erases destroys history. So `hmem forget`, and nothing
else, signs what is to be erased, with a private key (Ed25519, RFC 8032) that lies in a file of the owner's: `OWNER_KEY_FILE`. The night holds the
public half alone: `OWNER_PUBLIC_KEY` in its settings, or `HMEM_NIGHT_DIR/owner.pub`, which the first `hmem forget` on the night's own host
writes. A night that knows no key takes an erasing tombstone as one that hides; one that knows a key refuses what it has not signed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from shared.errors import SettingsError
from shared.files import make_dir, write_atomic
from shared.records import Tombstone
from shared.settings import Settings

#: In HMEM_NIGHT_DIR.
TRUSTED = "owner.pub"
_PUBLIC = re.compile(r"[0-9a-f]{64}\Z")


class OwnerKey:
    """The private key. `public` is the other half, as 64 hex digits."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw().hex()

    @classmethod
    def load(cls, path: Path) -> OwnerKey:
        """SettingsError if the file is no such key, or if others may read it."""
        try:
            if path.stat().st_mode & 0o077:
                raise SettingsError(f"Others may read the owner's key {path}. Run chmod 600 on it.")
            private = load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(
                f"The owner's key {path} cannot be read ({error}). Restore it from a copy, or name another by OWNER_KEY_FILE."
            ) from error
        if not isinstance(private, Ed25519PrivateKey):
            raise SettingsError(f"The owner's key {path} is no Ed25519 key. Remove it; hmem owner-key makes one.")
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
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except ValueError:
        text = ""
    if not _PUBLIC.match(text):
        raise SettingsError(f"{path} is no public key. Restore it from a copy, or remove it and run hmem owner-key.")
    return text


@dataclass(frozen=True)
class Signing:
    """What a forgetting signs with, or why it cannot."""

    key: OwnerKey | None
    why_not: str = ""

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
        trusted, here = trusted_key(settings), settings.hmem_night_dir.is_dir()
    except PermissionError:
        return _unknown_to_the_night(settings, path)
    writable = here and os.access(settings.hmem_night_dir, os.W_OK, effective_ids=True)
    if not path.exists():
        if trusted is not None:
            return Signing(None, f"there is no owner's key at {path} (OWNER_KEY_FILE)")
        if (here and not writable) or not _in_own_directory(path):
            return Signing(None, "no owner's key was made yet; run hmem owner-key once, as root")
        key = OwnerKey.create(path)
    else:
        key = OwnerKey.load(path)
    if trusted is None and writable:
        _tell_the_night(settings.hmem_night_dir, key.public)
    elif trusted not in (None, key.public):
        return Signing(None, f"the night on this host goes by another key than that of {path}")
    return Signing(key)


def _tell_the_night(directory: Path, public: str) -> None:
    """The night may be another user, and no file of root's shall lie in its directory."""
    write_atomic(directory / TRUSTED, f"{public}\n".encode("ascii"))
    (directory / TRUSTED).chmod(0o644)
    if os.geteuid() == 0:
        os.chown(directory / TRUSTED, directory.stat().st_uid, directory.stat().st_gid)


def _in_own_directory(path: Path) -> bool:
    """Whether the file would be ours: root's command may go on as another user, who must not have the key."""
    return next(parent for parent in path.parents if parent.exists()).stat().st_uid == os.geteuid()


def _unknown_to_the_night(settings: Settings, path: Path) -> Signing:
    if path.exists():
        return Signing(OwnerKey.load(path))
    return Signing(None, f"there is no owner's key at {path}, and this user may not give {settings.hmem_night_dir} one")


def key_file(settings: Settings) -> Path:
    """SettingsError where neither OWNER_KEY_FILE nor a home directory is known."""
    if settings.owner_key_file is None:
        raise SettingsError("No home directory is known for the owner's key. Set OWNER_KEY_FILE.")
    return settings.owner_key_file
