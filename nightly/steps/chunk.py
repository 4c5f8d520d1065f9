"""Chunk: every recallable turn, cleaned and split, in order of chat and time. From the archive only.

Each archived turn is accounted for (ledger.py): it has chunks, a tombstone covers it, or it has no readable text. A turn that fails here
counts as the last kind, and is reported: no single message may stop the night of all chats. It is archived, and each build tries it again.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from nightly.archive.segments import read_archive
from nightly.index.chunk_file import CHUNKS, Columns, line_of, write_columns
from nightly.ledger import chunk_accounts
from nightly.night.folder import Night
from nightly.night.record_failure import reason_of
from shared.system.files import atomic_writer
from shared.turns.chunking import chunks_of, indexed_text


def run(night: Night, out: Path) -> dict[str, Any]:
    archive = read_archive(night.archive_dir)
    turns = archive.turns()
    zone = night.settings.timezone
    per_chat: Counter[str] = Counter(turn.chat_id for turn in turns)
    chunks_per_chat: Counter[str] = Counter()
    with_chunks, without_text, columns = Counter[str](), Counter[str](), Columns()
    set_aside: dict[str, dict[str, str]] = {}
    failure: Exception | None = None
    with atomic_writer(out / CHUNKS) as handle:
        for turn in night.report.track(turns, len(turns), "chunk"):
            try:
                lines = [(chunk, line_of(chunk, indexed_text(chunk, zone))) for chunk in chunks_of(turn)]
            except Exception as error:  # noqa: BLE001 - whatever is wrong with this turn, the others are processed
                lines, set_aside[turn.turn_id] = [], {"chat_id": turn.chat_id, "reason": reason_of(error)}
                failure = error
            (with_chunks if lines else without_text)[turn.chat_id] += 1
            chunks_per_chat[turn.chat_id] += len(lines)
            for chunk, line in lines:
                handle.write(line)
                columns.add(chunk, line)
    if failure and not with_chunks:
        raise failure  # every turn fails: that is not a turn's fault
    write_columns(out, columns)
    forgotten = archive.forgotten_per_chat()
    accounts = chunk_accounts(
        archive.turns_per_chat(),
        with_chunks=with_chunks,
        forgotten=forgotten,
        without_text=without_text,
        chunks=chunks_per_chat,
    )
    return {
        "turns": len(turns),
        "timezone": night.settings.chat_timezone,
        "forgotten_per_chat": forgotten,
        "turns_without_text": without_text.total(),
        "set_aside": set_aside,
        "turns_per_chat": dict(per_chat),
        "chunks": chunks_per_chat.total(),
        "chunks_per_chat": dict(chunks_per_chat),
        "accounts": accounts,
        "segments": archive.segments,
        "originals": archive.originals,
        "tombstones": {i: archive.tombstones[i].chat_id for i in sorted(archive.tombstones)},
        "erasing": [i for i in sorted(archive.tombstones) if archive.tombstones[i].erase],
    }
