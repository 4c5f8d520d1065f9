"""What one chat's record may do to a night: fail by itself. Whatever is wrong with a text, the other chats are carried on."""

from __future__ import annotations

from shared.system.command import translate


def reason_of(error: Exception) -> str:
    """Why this record fails, for the night's report. What is no fault of the record (disk, server, lease, time limit) is raised again."""
    if translate(error) is not None or isinstance(error, MemoryError):
        raise error
    return type(error).__name__
