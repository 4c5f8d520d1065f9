"""Chunk: every turn that may be recalled, cleaned and cut, in order of chat and time. From the archive only.

Each archived turn is accounted for (ledger.py): it has chunks, a tombstone covers it, or nothing readable is left of it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson

from nightly.chunk_file import CHUNKS, Columns, write_columns
from nightly.ledger import chunk_accounts
from nightly.night import Night
from nightly.segments import read_archive
from shared.chunking import chunks_of, indexed_text
from shared.files import atomic_writer


def run(night: Night, out: Path) -> dict[str, Any]:
    archive = read_archive(night.archive_dir)
    turns = archive.turns()
    zone = night.settings.timezone
    per_chat: Counter[str] = Counter(turn.chat_id for turn in turns)
    chunks_per_chat: Counter[str] = Counter()
    with_chunks, without_text, columns = Counter[str](), Counter[str](), Columns()
    with atomic_writer(out / CHUNKS) as handle:
        for turn in night.report.track(turns, len(turns), "chunk"):
            chunks = chunks_of(turn)
            (with_chunks if chunks else without_text)[turn.chat_id] += 1
            chunks_per_chat[turn.chat_id] += len(chunks)
            for chunk in chunks:
                line = orjson.dumps({**vars(chunk), "indexed": indexed_text(chunk, zone)}) + b"\n"
                handle.write(line)
                columns.add(chunk, line)
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
        "turns_per_chat": dict(per_chat),
        "chunks": chunks_per_chat.total(),
        "chunks_per_chat": dict(chunks_per_chat),
        "accounts": accounts,
        "segments": archive.segments,
        "originals": archive.originals,
        "tombstones": {i: archive.tombstones[i].chat_id for i in sorted(archive.tombstones)},
        "erasing": [i for i in sorted(archive.tombstones) if archive.tombstones[i].erase],
    }
