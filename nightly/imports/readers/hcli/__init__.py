"""What h-cli keeps: its session files and its audit log."""

from __future__ import annotations

from collections.abc import Sequence

from nightly.imports.formats import ImportFormat, file_by_file
from nightly.imports.readers.hcli import sessions
from nightly.imports.readers.hcli.audit_log import Log
from shared.hooks import hook


@hook
def import_formats() -> Sequence[ImportFormat]:
    chunks = file_by_file(sessions.read)
    return [
        ImportFormat("chunks", "h-cli's session files (chunk_….txt)", chunks, "chunk_*.txt", of_a_chat=True),
        ImportFormat("audit", "h-cli's audit log", lambda source: Log(source).read, "*.jsonl", of_a_chat=True),
    ]
