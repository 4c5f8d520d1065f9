"""The owner's encryption key: a file of one line (ENCRYPT_KEY_FILE). It encrypts the keyring, and nothing else.

The cipher is AES-SIV (RFC 5297) with two AES-256 keys that HKDF-SHA512 (RFC 5869) derives from 32 random bytes. AES-SIV is deterministic: the same
text under the same key gives the same bytes, so a night that is built twice gives the same release. It shows that two texts of one chat in the same
place are equal, and nothing else of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from functools import cached_property
from pathlib import Path

from shared.errors import EncryptionKeyMissing
from shared.system.files import Modes, replace_secret

SECRET_BYTES, SIV_KEY_BYTES = 32, 64
_LINE = re.compile(r"hmem-encryption-key-1:([0-9a-f]{64})\s*\Z")


class EncryptionKey:
    """`fingerprint`: 16 hex digits by which a key is named without being told."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a key has {SECRET_BYTES} bytes, not {len(secret)}")
        self._secret = secret
        self.fingerprint = hashlib.sha256(b"hcli-memory fingerprint" + secret).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"EncryptionKey({self.fingerprint})"

    @classmethod
    def new(cls) -> EncryptionKey:
        return cls(os.urandom(SECRET_BYTES))

    @classmethod
    def parse(cls, line: str) -> EncryptionKey | None:
        """None for anything but a line that `line` made."""
        found = _LINE.match(line.strip())
        return cls(bytes.fromhex(found[1])) if found else None

    @classmethod
    def load(cls, path: Path) -> EncryptionKey:
        """EncryptionKeyMissing if the file is missing, is no key, or may be read by everybody."""
        try:
            mode = path.stat().st_mode
            text = path.read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise EncryptionKeyMissing(
                f"The encryption key {path} cannot be read: {error.strerror}. Without it nothing that was remembered can be read. Put your copy of "
                "the file back, or correct ENCRYPT_KEY_FILE. For a first key, run hmem key new."
            ) from error
        if mode & stat.S_IROTH:
            raise EncryptionKeyMissing(
                f"Every user of this host may read the encryption key {path}. Run chmod o-rwx on it, then run the command again."
            )
        key = cls.parse(text)
        if key is None:
            raise EncryptionKeyMissing(
                f"{path} is not an encryption key: it must be the one line that hmem key new wrote. Put your copy of the file back."
            )
        return key

    @property
    def line(self) -> str:
        """What stands in the file."""
        return f"hmem-encryption-key-1:{self._secret.hex()}\n"

    def write(self, path: Path) -> None:
        """Durably, in the place of an earlier one, which is overwritten; readable by its owner (0600), or as the earlier one was."""
        modes = Modes(file=stat.S_IMODE(path.stat().st_mode)) if path.exists() else Modes()
        replace_secret(path, self.line.encode(), modes)

    def seal(self, data: bytes, about: bytes) -> bytes:
        """Encrypted, and bound to `about`, which must be given again."""
        sealed: bytes = self._cipher.encrypt(data, [about])
        return sealed

    def unseal(self, sealed: bytes, about: bytes) -> bytes | None:
        """None if it was not sealed with this key and `about`, or was changed."""
        from cryptography.exceptions import InvalidTag

        try:
            plain: bytes = self._cipher.decrypt(sealed, [about])
        except (InvalidTag, ValueError):
            return None
        return plain

    @cached_property
    def _cipher(self):  # type: ignore[no-untyped-def]
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
        from cryptography.hazmat.primitives.hashes import SHA512
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return AESSIV(HKDF(SHA512(), SIV_KEY_BYTES, None, b"hcli-memory keyring").derive(self._secret))
