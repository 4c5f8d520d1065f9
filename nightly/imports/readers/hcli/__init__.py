"""What h-cli keeps: its session files and its audit log."""

from __future__ import annotations

from collections.abc import Sequence

from nightly.imports.hooks import ImportFormat, Reader, Source
from nightly.imports.readers.hcli import audit_log, sessions
from shared.hooks import hook


@hook
def import_formats() -> Sequence[ImportFormat]:
    def of_sessions(source: Source) -> Reader:
        return lambda path, unit: sessions.read(path, unit, source.wanted)

    def of_audit(source: Source) -> Reader:
        return audit_log.Log(source.files, source.wanted).read

    return [
        ImportFormat("chunks", "h-cli's session files (chunk_….txt)", of_sessions, "chunk_*.txt", of_a_chat=True),
        ImportFormat("audit", "h-cli's audit log", of_audit, "*.jsonl", of_a_chat=True),
    ]
