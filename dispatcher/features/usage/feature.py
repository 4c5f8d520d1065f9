"""What Claude's answers cost: `/usage`, `hmem usage`, and DAILY_LIMIT, beyond which a chat is not answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shared.hooks import hook
from shared.system.command import CommandEntry

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.answering.hooks import Core
    from shared.config.settings import Settings


@hook
def commands() -> Sequence[CommandEntry]:
    summary = "Messages, tokens and cost of each chat in the last days, most expensive first."
    return [CommandEntry("usage", "dispatcher.features.usage.command", summary)]


@hook
def menu() -> Mapping[str, str]:
    from shared.text.translations import later

    return {"usage": later("tokens and cost of the last days")}


@hook
def claude_used(settings: Settings, client: Redis, chat_id: str, usage: Mapping[str, Any]) -> None:
    """What Claude wrote for the night counts as the chat's, though it is no message."""
    from dispatcher.features.usage.counts import add_usage

    add_usage(client, settings.timezone, chat_id, usage)


@hook
def dispatcher(core: Core) -> object:
    from dispatcher.features.usage.part import UsagePart

    return UsagePart(core)
