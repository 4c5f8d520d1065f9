"""Pictures, recordings and documents of messages, and files that Claude makes for the chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from dispatcher.features.media.part import MediaPart
    from dispatcher.health.findings import Check


@hook
def checks() -> Sequence[Check]:
    from dispatcher.features.media.check import check_kept_files
    from dispatcher.health.findings import Check

    return [Check("kept files", check_kept_files, needs=("redis",))]


@hook
def dispatcher(core: Core) -> MediaPart:
    from dispatcher.features.media.part import MediaPart

    return MediaPart(core)
