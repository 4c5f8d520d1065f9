"""Chunk: the chats that have news are cut into passages, from the archive only. The other chats are as the last published night left them.

A chat has news if what is recalled of it (last versions, tombstones: its digest in the catalog) is not what the kept indexes and summaries were
made from, or if something of it waits for a better answer. If what all chats follow from has changed (a version, the time zone, a model), or what was
kept is damaged, all have news. So do all for an index that is not in parts.

Each archived turn of these chats is accounted for (ledger.py): it has chunks, a tombstone covers it, or it has no readable text. A turn that
fails here counts as the last kind, and is reported: no single message may stop the night of all chats. It is archived, and each build tries it
again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nightly.archive.catalog import Catalog, open_catalog
from nightly.archive.chat_chunks import ChatReader, lines_of
from nightly.index.chunk_file import writing_chunks
from nightly.index.previous import Last
from nightly.index.recipe import IN_PARTS, recipe_of
from nightly.night.folder import Night
from nightly.night.ledger import Accounts, check_account, summed


def run(night: Night, out: Path) -> dict[str, Any]:
    last = Last(night)
    recipe = recipe_of(night.settings, last.recipe)
    with open_catalog(night) as catalog:
        digests, tombstones = catalog.digests(), catalog.tombstones
        everything = last.recipe != recipe or not IN_PARTS.issuperset(night.settings.indexes)
        known = last.digests()
        every = digests.keys() | known.keys()  # also chats that the archive no longer has
        chats = sorted(chat_id for chat_id in every if everything or known.get(chat_id) != digests.get(chat_id))
        accounts, set_aside = cut(night, catalog, chats, out)
        carried = last.sums(without=known if everything else chats)
        if set_aside and not any(one["with_chunks"] for one in [*accounts.values(), carried]):
            # every turn fails: that is not a turn's fault
            _raise_again(night, catalog, next(iter(set_aside.values()))["chat_id"])
        return {
            "turns": carried["turns"] + summed(accounts, "turns"),
            "chunks": carried["chunks"] + summed(accounts, "chunks"),
            "accounts": accounts,
            "carried": carried,
            "set_aside": set_aside,
            "chats": len(chats),
            "timezone": night.settings.chat_timezone,
            "everything": everything,
            "recipe": recipe,
            "last_token": last.token,
            "digests": {chat_id: digests[chat_id] for chat_id in chats if chat_id in digests},
            "segments": catalog.segments,
            "originals": catalog.originals,
            "tombstones": {i: tombstones[i].chat_id for i in sorted(tombstones)},
            "erasing": [i for i in sorted(tombstones) if tombstones[i].erase],
        }


def cut(night: Night, catalog: Catalog, chats: list[str], out: Path) -> tuple[Accounts, dict[str, dict[str, Any]]]:
    """Write the chunks of these chats; what became of the turns of each, and the turns that could not be cut."""
    accounts, set_aside = Accounts(), dict[str, dict[str, Any]]()
    with ChatReader(catalog, night.archive_dir) as reader, writing_chunks(out) as writer:
        for chat_id in night.report.track(chats, len(chats), "chunk"):
            account, failed = dict[str, int](), dict[str, str]()
            writer.add(chat_id, reader.cut(chat_id, night.settings.timezone, account, failed))
            check_account(f"chat {chat_id}", account)
            accounts[chat_id] = account
            set_aside |= {turn: {"chat_id": chat_id, "reason": reason} for turn, reason in failed.items()}
    return accounts, set_aside


def _raise_again(night: Night, catalog: Catalog, chat_id: str) -> None:
    """The error of a turn that could not be cut, from where it is cut."""
    with ChatReader(catalog, night.archive_dir) as reader:
        for turn in reader.recalled(chat_id):
            lines_of(turn, night.settings.timezone)
