"""What the owner and the chats are told by message: alarms, the morning report, the heartbeat, and digests (`/digest`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from dispatcher.features.digest.part import DigestPart
    from dispatcher.health.findings import Check


@hook
def menu() -> Mapping[str, str]:
    from shared.text.translations import later

    return {"digest": later("a summary of yesterday each morning: on or off")}


@hook
def checks() -> Sequence[Check]:
    from dispatcher.features.digest.checks import DIGEST_CHECKS

    return DIGEST_CHECKS


@hook
def dispatcher(core: Core) -> DigestPart:
    from dispatcher.features.digest.part import DigestPart

    return DigestPart(core)
