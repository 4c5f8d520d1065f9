"""The key of a chat that is forgotten as a whole. Once it is destroyed, no copy of anything that it encrypted can be read, wherever the copy is.

The key is retired before the journal is written, which names it: what is said from then on has another key, and a forgetting that is resumed days
later destroys nothing else. The owner's key is changed as well, because an earlier copy of the keyring still has the chat's key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.system.keys import copies, sealing
from shared.system.keys.sealing import chat_key

if TYPE_CHECKING:
    from dispatcher.chat_data.forget.layers.store import StoreLayer
    from dispatcher.chat_data.forget.request import Scope

JOURNAL = "forgetting:"


def retire(scope: Scope) -> list[str]:
    """The ids of the keys that are to be destroyed; from now on they encrypt nothing. None unless a whole chat is forgotten."""
    if not sealing.is_on() or scope.whole_chat is None:
        return []
    keys = sealing.keys()
    ids = keys.ids_of([chat_key(scope.whole_chat)])  # all: a clock may have been ahead when one was made
    keys.retire(ids)
    return ids


def destroy(ids: list[str], scope: Scope, store: StoreLayer | None) -> int:
    """Destroy those that are still there; returns how many. Rows of the day store that are not forgotten get the chat's present key before."""
    if not ids or not sealing.is_on() or scope.whole_chat is None:
        return 0
    keys = sealing.keys()
    left = sorted(set(ids).intersection(keys.ids_of([chat_key(scope.whole_chat)])))
    if left and store is not None:
        from dispatcher.memory.store.sealed import at_rest  # late: `hmem status` reads journals, and needs no SQL

        at_rest.reseal(store.database.begin, scope.whole_chat, left, except_for=store.find(scope).names)
    keys.destroy(ids)
    return len(left)


def change_owner() -> str:
    """Change the owner's key; returns why that was not possible, or nothing."""
    keys = sealing.keys()
    if why := copies.why_not_rotated(keys.key_file):
        return why
    copies.rotate(keys)
    return ""


def seal_journal(forget_id: str, content: bytes) -> bytes:
    """A journal has pieces of the words, so it has a key of its own, which only this host knows."""
    return sealing.seal(f"{JOURNAL}{forget_id}", content, "forgetting", local=True)


def open_journal(content: bytes) -> bytes:
    return sealing.unseal(content, "forgetting")


def destroy_journal_key(forget_id: str) -> None:
    """Once the journal is gone: so that no copy of it can be read."""
    if sealing.is_on():
        keys = sealing.keys()
        keys.destroy_own(keys.ids_of([f"{JOURNAL}{forget_id}"]))
