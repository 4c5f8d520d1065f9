"""Columns that are sealed under the key of their chat (shared/system/keys/sealing.py). Without ENCRYPT_KEY_FILE they are like any other.

What is written takes its chat from the transaction: `rows.enter`, `change` and `hold` say whose rows come next. What is read names its key.
Sealing is deterministic, and bound to table and column only, so two equal texts of a chat stay equal in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from sqlalchemy import Dialect, LargeBinary, Row, Text
from sqlalchemy.types import TypeDecorator

from shared.errors import EncryptionKeyMissing, StoreUnavailable
from shared.system.keys import sealing
from shared.system.keys.sealing import KeyDestroyed, chat_key

Stored = TypeVar("Stored", str, bytes)
_CHAT: ContextVar[str | None] = ContextVar("chat of the rows that are written", default=None)
_AS_STORED: ContextVar[bool] = ContextVar("sealed columns are left as they are", default=False)
#: Texts that say nothing, and stay as they are.
_EMPTY = ("", "{}")


class _Gone:
    """In the place of a text whose key was destroyed."""

    def __repr__(self) -> str:
        return "GONE"


GONE: Final = _Gone()


class SealedStore(EncryptionKeyMissing, StoreUnavailable):
    """The day store is encrypted, and its keys cannot be read. Those who can do without the store go on, as if it were away."""

    exit_code = EncryptionKeyMissing.exit_code


def writing_for(chat_id: str | None) -> None:
    """Whose rows this thread writes next; None: nobody's, until it is said.

    Another process may have retired the chat's key meanwhile. Call it when the chat's other writers are blocked: then whoever retires a key, and
    waits for them, sees every text that the earlier key encrypted.
    """
    _CHAT.set(chat_id)
    if chat_id is not None and sealing.is_on():
        sealing.keys().follow()


@contextmanager
def as_stored() -> Iterator[None]:
    """Here sealed columns are read and written as they are stored: for copies of whole rows between stores."""
    token = _AS_STORED.set(True)
    try:
        yield
    finally:
        _AS_STORED.reset(token)


def is_as_stored() -> bool:
    """Whether this is such a copy."""
    return _AS_STORED.get()


def make_keys(chats: Iterable[str]) -> None:
    """Make the keys of chats that have none, ahead of the transaction: it may take as long as Redis does."""
    if sealing.is_on():
        for chat_id in chats:
            sealing.keys().key(chat_key(chat_id))


def readable(rows: Iterable[Any]) -> Iterator[Row[Any]]:
    """The rows without those whose chat was forgotten."""
    if not sealing.is_on():
        yield from rows
        return
    for row in rows:
        if not any(value is GONE for value in row):
            yield row


class _Sealed(TypeDecorator[Stored]):
    """`about`: table and column."""

    cache_ok = True

    def __init__(self, about: str) -> None:
        super().__init__()
        self.about = about

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """Nothing to do, and no time taken, in a process without keys: it is refused a store that is encrypted."""
        if sealing.is_on():
            return super().result_processor(dialect, coltype)
        return self.impl_instance.result_processor(dialect, coltype)

    def process_bind_param(self, value: Stored | None, dialect: Dialect) -> Stored | None:  # noqa: ARG002
        return value if value is None or _AS_STORED.get() else self.sealed(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return value if value is None or _AS_STORED.get() else self.opened(value)

    def opened(self, value: Stored) -> Any:
        """The text of a stored value; GONE if its key was destroyed. EncryptionKeyMissing without its key."""
        try:
            return self._unsealed(value)
        except KeyDestroyed:
            return GONE
        except ValueError as error:
            raise StoreUnavailable(
                f"A row of the day store is damaged ({self.about}: {error}). Restore your backup of the store."
            ) from error

    def sealed(self, value: Stored) -> Stored:
        """What is stored of a value in this transaction."""
        raise NotImplementedError

    def key_of(self, value: Stored | None) -> str | None:
        """The id of the key of a stored value; None if it is plain."""
        raise NotImplementedError

    def _unsealed(self, value: Stored) -> Stored:
        raise NotImplementedError

    def _key(self) -> str:
        chat_id = _CHAT.get()
        if chat_id is None:
            raise RuntimeError(f"{self.about} is written without its chat: call rows.enter, change or hold first")
        return chat_key(chat_id)


class SealedText(_Sealed[str]):
    """Text."""

    impl = Text
    cache_ok = True

    def sealed(self, value: str) -> str:
        if not sealing.is_on():  # what people write must not pass for sealed text once encryption is on
            return "\ufffd" + value[1:] if value.startswith(sealing.TEXT_MARK) else value
        return value if value in _EMPTY else sealing.seal_text(self._key(), value, self.about)

    def key_of(self, value: str | None) -> str | None:
        return sealing.key_id_of_text(value) if value is not None and value.startswith(sealing.TEXT_MARK) else None

    def _unsealed(self, value: str) -> str:
        return sealing.unseal_text_again(value, self.about)


class SealedBytes(_Sealed[bytes]):
    """Vectors."""

    impl = LargeBinary
    cache_ok = True

    def sealed(self, value: bytes) -> bytes:
        return sealing.seal(self._key(), value, self.about) if sealing.is_on() else value

    def key_of(self, value: bytes | None) -> str | None:
        return sealing.key_id_of(value) if value is not None and sealing.is_sealed(value) else None

    def _unsealed(self, value: bytes) -> bytes:
        return sealing.unseal_again(bytes(value), self.about)
