"""Pictures, recordings and documents of messages, and files that Claude makes for the chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shared.hooks import hook

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from dispatcher.health.findings import Check, Finding, Setup
    from dispatcher.memory.hooks import TagDefinition

#: Part of the room for kept files from which the owner should know.
NEARLY_FULL = 0.8


@hook
def checks() -> Sequence[Check]:
    from dispatcher.health.findings import Check

    return [Check("kept files", check_kept_files, needs=("redis",))]


def check_kept_files(setup: Setup) -> Finding:
    """The files of messages that wait for the night (KEEP_MEDIA) have room."""
    from dispatcher.features.media.settings import MediaSettings
    from dispatcher.health.findings import ok, warning
    from shared.text.format import counted, size_text
    from shared.wire import keys
    from shared.wire.media import MOST_BYTES, waiting_files

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


@hook
def answer_tag() -> TagDefinition:
    from dispatcher.features.media.pictures import TAG

    return TAG


@hook
def dispatcher(core: Core) -> object:
    from dispatcher.features.media.part import MediaPart

    return MediaPart(core)
