"""What the archive holds, turn by turn, also what is only hidden: `hmem forget` looks for what it is to erase."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from nightly.archive.segments import RawRecord, read_segment
from shared.system.archive_folder import archive_files
from shared.turns.records import RecordRefused, Turn


def archived_turns(directory: Path, chats: Collection[str]) -> Iterator[dict[str, Any]]:
    """Every version of every turn (of these chats, if any are named), segment by segment: {turn_id, chat_id, timestamp, content, words}; `words` has
    what it replies to, too."""
    for _, name in archive_files(directory):
        for line in read_segment(directory / name):
            if line["kind"] not in ("turn", "quarantine") or line["redis_type"] != "string":
                continue
            raw = RawRecord.from_json(line)
            try:
                turn = Turn.parse(raw.key, raw.value)
            except RecordRefused:
                continue
            if not chats or turn.chat_id in chats:
                yield {
                    "turn_id": turn.turn_id, "chat_id": turn.chat_id, "timestamp": turn.timestamp, "content": turn.content, "words": turn.words,
                }  # fmt: skip
