"""Whether there is room for the files of messages that wait for the night (KEEP_MEDIA)."""

from __future__ import annotations

from typing import Any

from dispatcher.features.media.settings import MediaSettings
from dispatcher.health.findings import Finding, Setup, ok, warning
from shared.text.format import counted, size_text
from shared.wire import keys
from shared.wire.media.kept import MOST_BYTES, waiting_files

#: Part of that room from which the owner should know.
NEARLY_FULL = 0.8


def check_kept_files(setup: Setup) -> Finding:
    """The files of messages that wait for the night have room."""
    listed: Any = setup.redis.hgetall(keys.KEPT) if setup.redis.type(keys.KEPT) == b"hash" else {}
    sizes, most = [one.size for one in waiting_files(listed)], MOST_BYTES
    if not (sizes or setup.settings.of(MediaSettings).keep_media):
        return ok("KEEP_MEDIA is not set: files of messages are not kept.")
    files = counted(len(sizes), "file of messages waits", "files of messages wait")
    sentence = f"{files} for the night, {size_text(sum(sizes))} of {size_text(most)}"
    if sum(sizes) >= NEARLY_FULL * most:
        fix = "Run hmem-night run."
        return warning(f"{sentence}. When that is used up, files are not kept, and their turns say so.", fix)
    return ok(f"{sentence}.")
