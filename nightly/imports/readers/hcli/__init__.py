"""What h-cli keeps: its session files and its audit log."""

from __future__ import annotations

from collections.abc import Sequence

from nightly.imports.formats import ImportFormat, file_by_file
from nightly.imports.readers.hcli import audit_log, sessions
from shared.hooks import hook


@hook
def import_formats() -> Sequence[ImportFormat]:
    chunks, files = file_by_file(sessions.read), "h-cli's session files (chunk_….txt)"
    return [
        ImportFormat("chunks", files, chunks, sessions.recognise, "chunk_*.txt", of_a_chat=True),
        ImportFormat("audit", "h-cli's audit log", audit_log.reader, audit_log.recognise, "*.jsonl", of_a_chat=True),
    ]
