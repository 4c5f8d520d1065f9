"""What the `chats.sqlite` of a release has of each chat, for tests that compare it or make a release by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.release import chats
from shared.release.chats import COUNTED, ChatRow, ChatTable
from shared.release.manifest import CHATS


def counted(release: Path, name: str) -> dict[str, int]:
    """Chat → a count of it, without the chats that have none."""
    with ChatTable.of(release) as table:
        return {row.chat_id: count for row in table if (count := row.counts[name])}


def accounts(release: Path) -> dict[str, Any]:
    """Chat → all its counts."""
    with ChatTable.of(release) as table:
        return {row.chat_id: dict(row.counts) for row in table}


def summaries(release: Path) -> dict[str, str]:
    """Chat → its summary."""
    with ChatTable.of(release) as table:
        return dict(table.summaries())


def write_chats(release: Path, chunks: Mapping[str, int]) -> dict[str, Any]:
    """Turns of one chunk each; what the manifest says of all chats together."""
    same = ("turns", "chunks", "archived", "with_chunks", "keywords", "vectors")
    rows = [
        ChatRow(chat_id, "", dict.fromkeys(COUNTED, 0) | dict.fromkeys(same, count))
        for chat_id, count in chunks.items()
    ]
    chats.write_chats(release / CHATS, rows)
    return {"chats": len(chunks), "turns": sum(chunks.values()), "chunks": sum(chunks.values()), "forgotten": 0}
