"""A single record may fail without failing the night: whatever is wrong with a text, the other chats are processed."""

from __future__ import annotations

from shared.system.command import translate


def reason_of(error: Exception) -> str:
    """Why this record fails, for the night's report. An error that is not the record's fault (disk, server, lease, time limit) is re-raised."""
    if translate(error) is not None or isinstance(error, MemoryError):
        raise error
    return type(error).__name__
