"""Encryption and the archive: the keys of forgotten chats are destroyed, and what was archived before encryption was switched on is sealed.

When a whole chat is forgotten, its key is destroyed before anything is removed: then no copy of the archive, of a release or of the mirror can be
read, wherever it is. If anything of the chat may be left (said after it was forgotten), it is sealed anew first. The cache has one key for all chats;
it goes with its file, which is filled again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nightly.archive.catalog import Catalog
from nightly.archive.media.index import MediaIndex
from nightly.archive.media.places import folder_of, is_sealed, is_there, listed, put
from nightly.archive.mirror import Mirror
from nightly.night.folder import CACHE, Night, discard_cache
from shared.system.keys import copies, sealing
from shared.system.keys.sealing import CACHE as CACHE_KEY
from shared.system.keys.sealing import chat_key
from shared.turns.records import Tombstone


@dataclass
class ForgottenKeys:
    """`now`: ids of keys of which nothing is left to be read; `later`: ids of keys that are destroyed once `segments` are sealed anew."""

    now: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    segments: set[str] = field(default_factory=set)


def forgotten_keys(archive: Catalog, tombstones: Iterable[Tombstone]) -> ForgottenKeys:
    """What becomes of the keys of the chats that these tombstones cover as a whole. Keys that are newer than the tombstone stay."""
    found = ForgottenKeys()
    if not sealing.is_on():
        return found
    keys = sealing.keys()
    unreadable = archive.files_with(())  # records that are no turns: some may be of these chats, and of later
    for one in tombstones:
        if one.turn_ids is not None:
            continue
        ids = keys.ids_of([chat_key(one.chat_id)], until=one.created_at)
        if not ids:
            continue
        keys.retire(ids)
        if archive.turns_of(one.chat_id) == archive.forgotten_of(one.chat_id) and not unreadable:
            found.now += ids
        else:
            found.later += ids
            found.segments |= archive.files_with([Tombstone("all", one.chat_id, 0.0)])
    return found


def destroy(night: Night, ids: list[str]) -> None:
    """These keys, and with them the cache, which has vectors of all chats under one key."""
    if not ids:
        return
    keys = sealing.keys()
    discard_cache(night.settings.hmem_night_dir / CACHE)
    keys.destroy([*ids, *keys.ids_of([CACHE_KEY])])


def seal_media(archive: Catalog, index: MediaIndex) -> int:
    """Seal the files of messages from before encryption was switched on, here and, the next time, in the mirror; returns how many."""
    directory, sealed = index.archive_dir, 0
    for chat_id in archive.turns_per_chat():
        for path in listed(directory, folder_of(chat_id)):
            if is_there(directory, path) and not is_sealed(directory, path):
                content = (directory / path).read_bytes()
                put(directory, path, content, chat_id)
                index.forget([path])
                index.add(path, len(content))
                sealed += 1
    return sealed


def mirror_keyring(mirror: Mirror) -> None:
    """Put the keyring beside the mirror's files, encrypted with the owner's key: keys of new chats must not be on one host alone."""
    if sealing.is_on():
        content, ids = copies.keyring(sealing.keys())
        mirror.put_keyring(content)
        copies.record_mirrored(sealing.keys().key_file, ids)
