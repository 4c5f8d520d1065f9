"""Chunk: the chats that have news are cut into passages, from the archive only. The other chats are as the last published night left them.

A chat has news if what is recalled of it (last versions, tombstones: its digest in the catalog) is not what the kept indexes and summaries were
made from, or if something of it waits for a better answer. If what all chats follow from has changed (a version, the time zone, a model), or what was
kept is damaged, all have news. So do all for an index that is not in parts.

Each archived turn of these chats is accounted for (ledger.py): it has chunks, a tombstone covers it, or it has no readable text. A turn that
fails here counts as the last kind, and is reported: no single message may stop the night of all chats. It is archived, and each build tries it
again.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from nightly.archive.catalog import Catalog, open_catalog
from nightly.archive.chat_chunks import ChatReader, answered, cut_chats, cut_tasks
from nightly.index.chunk_file import writing_chunks
from nightly.index.kept_chats import CARRIED, combined, sums_of
from nightly.index.previous import Last
from nightly.index.recipe import IN_PARTS, recipe_of
from nightly.night.folder import Night
from nightly.night.ledger import ENDS, chunk_accounts


def run(night: Night, out: Path) -> dict[str, Any]:
    last = Last(night)
    recipe = recipe_of(night.settings, last.recipe)
    with open_catalog(night) as catalog:
        digests, tombstones = catalog.digests(), catalog.tombstones
        everything = last.recipe != recipe or not IN_PARTS.issuperset(night.settings.indexes)
        chats = sorted(digests.keys() | last.chats.digests().keys()) if everything else _with_news(last, digests)
        made = cut(night, catalog, chats, out)
        if not everything:
            last.chats.link(out / CARRIED)
        sums = sums_of([]) if everything else combined(last.sums(), sums_of(last.chats.accounts(chats)), -1)
        if made["set_aside"] and not any(one["with_chunks"] for one in [*made["accounts"].values(), sums]):
            raise _failure(night, catalog, made["set_aside"])  # every turn fails: that is not a turn's fault
        return {
            **made,
            "turns": sum(made["turns_per_chat"].values()) + sums["turns"],
            "chunks": sum(made["chunks_per_chat"].values()) + sums["chunks"],
            "carried": sums,
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


def _with_news(last: Last, digests: dict[str, str]) -> list[str]:
    """In order of their ids; also chats that the archive no longer has."""
    known = last.chats.digests()
    changed = {chat_id for chat_id, digest in digests.items() if known.get(chat_id) != digest}
    return sorted(changed | (known.keys() - digests.keys()))


def cut(night: Night, catalog: Catalog, chats: list[str], out: Path) -> dict[str, Any]:
    """Write the chunks of these chats; their counts."""
    accounts: dict[str, dict[str, int]] = {}
    turns: dict[str, int] = {}
    set_aside: dict[str, dict[str, str]] = {}
    texts, zone = sum(map(catalog.turns_of, chats)), night.settings.timezone
    with ChatReader(catalog, night.archive_dir, zone) as reader, reader.proving(), writing_chunks(out) as writer:
        here = partial(cut_chats, directory=night.archive_dir)
        answers = night.workers.map(cut_chats, cut_tasks(reader, chats, zone), texts, here)
        made = (one for answer in answers for one in answered(answer))
        for chat_id, one in zip(night.report.track(chats, len(chats), "chunk"), made, strict=True):
            writer.add(chat_id, [one.lines])
            accounts[chat_id], turns[chat_id] = one.account, one.turns
            set_aside |= {turn: {"chat_id": chat_id, "reason": reason} for turn, reason in one.set_aside.items()}
    columns = {name: {chat: one[name] for chat, one in accounts.items()} for name in ("archived", *ENDS, "chunks")}
    return {
        "accounts": chunk_accounts(columns.pop("archived"), **columns),
        "forgotten_per_chat": {chat: count for chat, count in columns["forgotten"].items() if count},
        "turns_per_chat": {chat: count for chat, count in turns.items() if count},
        "chunks_per_chat": {chat: count for chat, count in columns["chunks"].items() if turns[chat]},
        "turns_without_text": sum(columns["without_text"].values()),
        "set_aside": set_aside,
    }


def _failure(night: Night, catalog: Catalog, set_aside: dict[str, dict[str, str]]) -> Exception:
    """The error of a turn that could not be cut, as it is raised where it is cut."""
    turn_id, about = next(iter(set_aside.items()))
    with ChatReader(catalog, night.archive_dir, night.settings.timezone) as reader:
        return reader.cut(about["chat_id"]).set_aside[turn_id]
